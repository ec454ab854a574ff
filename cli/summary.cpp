#include "cli/summary.h"

#include <cmath>
#include <filesystem>

#include "common/file.h"
#include "common/json_fields.h"

namespace muster::cli {
namespace {

nlohmann::json written_by_rank(const std::string& path) {
  const auto text = read_file(path);
  auto json = text.ok() ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  return json.is_object() ? json : nlohmann::json::object();
}

void put_progress(nlohmann::json& summary, const Progress& last) {
  if (!summary.contains("steps")) summary["steps"] = last.step;
  if (!summary.contains("worldSize")) summary["worldSize"] = last.world_size;
  if (!summary.contains("generation")) summary["generation"] = last.generation;
  const auto put = [&](const char* key, double value) {
    if (!summary.contains(key)) put_finite(summary, key, value);
  };
  if (std::isfinite(last.validation_loss) && !summary.contains("validation")) {
    put_finite(summary["validation"], "loss", last.validation_loss);
    put_finite(summary["validation"], "accuracy", last.validation_accuracy);
  }
  put("finalLoss", last.loss);
  put("samplesPerSecond", last.samples_per_second);
}

std::string row(const std::string& name, const std::string& value) {
  return "  " + name + std::string(name.size() < 20 ? 20 - name.size() : 1, ' ') + value + "\n";
}

std::string number_row(const nlohmann::json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return "";
  const bool whole = found->is_number_integer();
  return row(name, whole ? found->dump() : format_number(found->get<double>()));
}

std::string percent_row(const nlohmann::json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * found->get<double>());
  return row(name, text);
}

std::string file_row(const std::string& name, const std::string& path) {
  return std::filesystem::exists(path) ? row(name, path) : "";
}

}  // namespace

Result<nlohmann::json> finish_summary(const std::string& folder, const Verdict& verdict,
                                      const Progress& last, double wall_seconds,
                                      std::int64_t restarts) {
  const auto path = folder + "/summary.json";
  auto summary = verdict.action == Decision::succeed ? written_by_rank(path)
                                                     : nlohmann::json(nlohmann::json::object());
  put_progress(summary, last);
  summary["wallSeconds"] = std::round(wall_seconds * 1000) / 1000;
  summary["restarts"] = restarts;
  summary["recoveries"] = restarts;
  if (verdict.action == Decision::succeed) {
    summary["state"] = "Succeeded";
  } else {
    summary["state"] = verdict.action == Decision::stop ? "Stopped" : "Failed";
    summary["reason"] = verdict.reason;
    summary["message"] = verdict.message;
  }
  const auto text = summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  MUSTER_CHECK_OK(replace_file(path, text + "\n"));
  return summary;
}

std::string describe_summary(const nlohmann::json& summary, const std::string& folder,
                             const std::string& checkpoints) {
  std::string text = summary.value("state", "Failed") + " after " +
                     format_duration(summary.value("wallSeconds", 0.0));
  if (const auto message = summary.value("message", ""); !message.empty()) {
    text += ": " + message;
  }
  text += "\n";
  const auto none = nlohmann::json::object();
  const auto found = summary.find("validation");
  const auto& validation = found != summary.end() && found->is_object() ? *found : none;
  text += number_row(summary, "steps", "steps");
  text += number_row(summary, "finalLoss", "final loss");
  text += number_row(validation, "loss", "validation loss");
  text += percent_row(validation, "accuracy", "validation accuracy");
  text += number_row(summary, "samplesPerSecond", "samples/s");
  if (summary.value("restarts", 0) > 0) text += number_row(summary, "restarts", "restarts");
  text += file_row("learning curve", folder + "/metrics.jsonl");
  // A folder may hold those of an earlier run.
  if (summary.value("state", "") == "Succeeded") {
    text += file_row("trained model", folder + "/export");
  }
  text += file_row("checkpoints", checkpoints);
  text += file_row("logs", folder + "/logs");
  return text;
}

}  // namespace muster::cli
