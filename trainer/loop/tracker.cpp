#include "trainer/loop/tracker.h"

#include <cmath>

#include "common/json_fields.h"

namespace muster::loop {
namespace {

double value_of(const std::string& metric, const Validation& v) {
  return metric == "validation_accuracy" ? -v.accuracy : v.loss;
}

void improve(Best& best, double value, std::int64_t step) {
  if (std::isnan(best.value) || value < best.value) {
    best = {value, step, 0};
  } else {
    ++best.since;
  }
}

double get(const nlohmann::json& json, const char* name) {
  return json.contains(name) ? json.at(name).get<double>() : std::nan("");
}

nlohmann::json best_to_json(const Best& best) {
  nlohmann::json json{{"step", best.step}, {"since", best.since}};
  put_finite(json, "value", best.value);
  return json;
}

Best best_from_json(const nlohmann::json& json) {
  Best best;
  best.step = json.at("step").get<std::int64_t>();
  best.since = json.at("since").get<std::int64_t>();
  best.value = get(json, "value");
  return best;
}

}  // namespace

Tracker observe(Tracker tracker, const job::Spec& spec, std::int64_t step,
                const Validation& validation) {
  tracker.validation = validation;
  if (const auto& stopping = spec.training.early_stopping) {
    improve(tracker.stopping, value_of(stopping->metric, validation), step);
    tracker.stop = tracker.stopping.since >= stopping->patience;
  }
  if (spec.training.schedule.type == "plateau") {
    improve(tracker.plateau, validation.loss, step);
    if (tracker.plateau.since >= spec.training.schedule.patience) {
      ++tracker.reductions;
      tracker.plateau.since = 0;
    }
  }
  if (!spec.checkpoint.keep_best.empty()) {
    improve(tracker.keep, value_of(spec.checkpoint.keep_best, validation), step);
  }
  return tracker;
}

nlohmann::json to_json(const Tracker& tracker) {
  nlohmann::json json{{"stopping", best_to_json(tracker.stopping)},
                      {"plateau", best_to_json(tracker.plateau)},
                      {"keep", best_to_json(tracker.keep)},
                      {"reductions", tracker.reductions},
                      {"stop", tracker.stop}};
  put_finite(json, "loss", tracker.loss);
  put_finite(json, "validationLoss", tracker.validation.loss);
  put_finite(json, "validationAccuracy", tracker.validation.accuracy);
  return json;
}

Result<Tracker> tracker_from_json(const nlohmann::json& json) {
  try {
    Tracker tracker;
    tracker.stopping = best_from_json(json.at("stopping"));
    tracker.plateau = best_from_json(json.at("plateau"));
    tracker.keep = best_from_json(json.at("keep"));
    tracker.reductions = json.at("reductions").get<std::int64_t>();
    tracker.stop = json.at("stop").get<bool>();
    tracker.loss = get(json, "loss");
    tracker.validation = {get(json, "validationLoss"), get(json, "validationAccuracy")};
    return tracker;
  } catch (const nlohmann::json::exception& e) {
    return Error{Code::protocol,
                 std::string("the checkpoint's trainer state is damaged: ") + e.what()};
  }
}

}  // namespace muster::loop
