// How a run is shown while it goes: a bar on a terminal, a line every few seconds elsewhere, or one
// JSON object a line.
//
//   ProgressView view(Style::bar, stdout, terminal_width());
//   view.show(progress, seconds_since_start);   // as often as you like
//   view.note("worker-1 ended; trying again");   // between bars, on a line of its own
//   view.finish();
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace muster::cli {

// The run as the coordinator tells it in GET /state. NaN and 0: not known (yet).
struct Progress {
  std::string phase;
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();
  double validation_loss = std::numeric_limits<double>::quiet_NaN();
  double validation_accuracy = std::numeric_limits<double>::quiet_NaN();
  std::int64_t world_size = 0;
  std::int64_t generation = 0;
};

// Reads what is there and leaves the rest at its defaults: a state of another version is still
// shown.
Progress progress_from_state(const nlohmann::json& state);

// Seconds to the end at the pace since `first_step` (a resumed run did not begin at 0); nothing
// before the first step of this run, or without a known total.
std::optional<double> seconds_left(const Progress& progress, std::int64_t first_step,
                                   double seconds_training);

// "7 s", "3:05 min", "2:00 h".
std::string format_duration(double seconds);
// Three significant digits, "-" for NaN: 0.693, 12.3, 51234.
std::string format_number(double value);

// "[#####-----]  50% step 50/100 loss 0.693 51.2 samples/s ETA 7 s", at most `width` columns.
std::string format_bar(const Progress& progress, std::optional<double> eta, int width);
// "step 50/100, loss 0.693, 51.2 samples/s, 7 s left".
std::string format_line(const Progress& progress, std::optional<double> eta);
// Non-finite numbers are left out: JSON has no word for them.
nlohmann::json to_json(const Progress& progress, std::optional<double> eta);

enum class Style { bar, lines, json };

class ProgressView {
 public:
  ProgressView(Style style, std::FILE* out, int width);
  void show(const Progress& progress, double now_seconds);
  void note(const std::string& text);
  // Ends the bar's line, so that what follows starts on a fresh one.
  void finish();
  Style style() const { return style_; }

 private:
  void erase_bar();
  Style style_;
  std::FILE* out_;
  int width_;
  bool bar_drawn_ = false;
  std::int64_t first_step_ = -1;
  double first_seconds_ = 0;
  double last_line_seconds_ = -1e9;
  std::int64_t last_step_ = -1;
};

}  // namespace muster::cli
