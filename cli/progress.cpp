#include "cli/progress.h"

#include <algorithm>
#include <cmath>

#include "common/json_fields.h"

namespace muster::cli {
namespace {

constexpr double line_interval_seconds = 5;
constexpr int shortest_bar = 10;
constexpr int longest_bar = 40;

// Numbers may come as JSON numbers, or as strings where Kubernetes' convention has them so.
double number(const nlohmann::json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return otherwise;
  const auto& text = found->get_ref<const std::string&>();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' ? value : otherwise;
}

std::int64_t whole(const nlohmann::json& object, const char* key) {
  const double value = number(object, key, 0);
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

std::string step_text(const Progress& progress) {
  const auto step = std::to_string(progress.step);
  return progress.total_steps > 0 ? step + "/" + std::to_string(progress.total_steps) : step;
}

double fraction_done(const Progress& progress) {
  if (progress.total_steps <= 0) return 0;
  return std::clamp(double(progress.step) / double(progress.total_steps), 0.0, 1.0);
}

}  // namespace

Progress progress_from_state(const nlohmann::json& state) {
  Progress progress;
  if (!state.is_object()) return progress;
  if (const auto phase = state.find("phase"); phase != state.end() && phase->is_string()) {
    progress.phase = phase->get<std::string>();
  }
  const auto nested = state.find("progress");
  const auto& from = nested != state.end() && nested->is_object() ? *nested : state;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  progress.step = whole(from, "step");
  progress.total_steps = whole(from, "totalSteps");
  progress.loss = number(from, "loss", nan);
  progress.samples_per_second = number(from, "samplesPerSecond", nan);
  progress.validation_loss = number(from, "validationLoss", nan);
  progress.validation_accuracy = number(from, "validationAccuracy", nan);
  progress.world_size = whole(state, "worldSize");
  // The membership's number; its epoch is the coordinator's incarnation, which the attempt tells.
  if (const auto generation = state.find("generation");
      generation != state.end() && generation->is_object()) {
    progress.generation = whole(*generation, "n");
  }
  return progress;
}

std::optional<double> seconds_left(const Progress& progress, std::int64_t first_step,
                                   double seconds_training) {
  const auto done = progress.step - first_step;
  if (done <= 0 || seconds_training <= 0 || progress.total_steps <= 0) return std::nullopt;
  const auto left = std::max<std::int64_t>(progress.total_steps - progress.step, 0);
  return double(left) * seconds_training / double(done);
}

std::string format_duration(double seconds) {
  const auto whole_seconds = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  const auto two_digits = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole_seconds < 60) return std::to_string(whole_seconds) + " s";
  if (whole_seconds < 3600) {
    return std::to_string(whole_seconds / 60) + ":" + two_digits(whole_seconds % 60) + " min";
  }
  return std::to_string(whole_seconds / 3600) + ":" + two_digits(whole_seconds / 60 % 60) + " h";
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  const double size = std::abs(value);
  const char* format = size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : size >= 1 ? "%.2f" : "%.3g";
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string format_bar(const Progress& progress, std::optional<double> eta, int width) {
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3d%%", int(100 * fraction_done(progress)));
  std::string text = std::string(percent) + "  step " + step_text(progress) + "  loss " +
                     format_number(progress.loss) + "  " +
                     format_number(progress.samples_per_second) + " samples/s";
  if (eta) text += "  ETA " + format_duration(*eta);
  const int room = std::min(width - int(text.size()) - 4, longest_bar);
  if (room >= shortest_bar) {
    const int filled = int(std::lround(fraction_done(progress) * room));
    text = "[" + std::string(filled, '#') + std::string(room - filled, '-') + "] " + text;
  }
  return text.substr(0, std::max(width - 1, 1));
}

std::string format_line(const Progress& progress, std::optional<double> eta) {
  std::string text = "step " + step_text(progress) + ", loss " + format_number(progress.loss) +
                     ", " + format_number(progress.samples_per_second) + " samples/s";
  if (std::isfinite(progress.validation_loss)) {
    text += ", validation loss " + format_number(progress.validation_loss);
  }
  if (eta) text += ", " + format_duration(*eta) + " left";
  return text;
}

nlohmann::json to_json(const Progress& progress, std::optional<double> eta) {
  nlohmann::json json = {{"event", "progress"}, {"step", progress.step}};
  if (!progress.phase.empty()) json["phase"] = progress.phase;
  if (progress.total_steps > 0) json["totalSteps"] = progress.total_steps;
  if (progress.world_size > 0) json["worldSize"] = progress.world_size;
  put_finite(json, "loss", progress.loss);
  put_finite(json, "samplesPerSecond", progress.samples_per_second);
  put_finite(json, "validationLoss", progress.validation_loss);
  put_finite(json, "validationAccuracy", progress.validation_accuracy);
  if (eta) put_finite(json, "secondsLeft", *eta);
  return json;
}

ProgressView::ProgressView(Style style, std::FILE* out, int width)
    : style_(style), out_(out), width_(width) {}

void ProgressView::erase_bar() {
  if (bar_drawn_) std::fputs("\r\033[K", out_);
  bar_drawn_ = false;
}

void ProgressView::show(const Progress& progress, double now_seconds) {
  if (progress.step <= 0) return;
  // A restarted attempt falls back to its checkpoint: the pace is measured anew from there.
  if (first_step_ < 0 || progress.step < last_step_) {
    first_step_ = progress.step;
    first_seconds_ = now_seconds;
  }
  const bool moved = progress.step != last_step_;
  last_step_ = progress.step;
  const auto eta = seconds_left(progress, first_step_, now_seconds - first_seconds_);
  if (style_ == Style::bar) {
    erase_bar();
    std::fputs(format_bar(progress, eta, width_).c_str(), out_);
    bar_drawn_ = true;
  } else {
    if (!moved || now_seconds - last_line_seconds_ < line_interval_seconds) return;
    last_line_seconds_ = now_seconds;
    const auto line =
        style_ == Style::json ? to_json(progress, eta).dump() : format_line(progress, eta);
    std::fprintf(out_, "%s\n", line.c_str());
  }
  std::fflush(out_);
}

void ProgressView::note(const std::string& text) {
  erase_bar();
  if (style_ == Style::json) {
    const auto json = nlohmann::json{{"event", "note"}, {"message", text}};
    std::fprintf(out_, "%s\n",
                 json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fprintf(out_, "%s\n", text.c_str());
  }
  std::fflush(out_);
}

void ProgressView::finish() {
  if (bar_drawn_) std::fputs("\n", out_);
  bar_drawn_ = false;
  std::fflush(out_);
}

}  // namespace muster::cli
