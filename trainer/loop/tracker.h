// What validations decide: early stopping, the plateau schedule, the best checkpoint. Pure, and
// part of every checkpoint, so that a resumed run decides as an uninterrupted one would.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/job/training_job.h"
#include "common/result.h"

namespace muster::loop {

// NaN: there was none; accuracy also for regression.
struct Validation {
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
};

// The best value so far of one metric, and how many validations ago it was.
struct Best {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::int64_t step = -1;
  std::int64_t since = 0;
};

struct Tracker {
  Best stopping;                                           // earlyStopping.metric
  Best plateau;                                            // validation_loss
  Best keep;                                               // checkpoint.keepBest
  std::int64_t reductions = 0;                             // of the plateau schedule
  bool stop = false;                                       // early stopping has spoken
  double loss = std::numeric_limits<double>::quiet_NaN();  // of the last step
  Validation validation;                                   // the last one
};

// `metric`: validation_loss (lower is better) or validation_accuracy (higher is better).
Tracker observe(Tracker tracker, const job::Spec& spec, std::int64_t step,
                const Validation& validation);

nlohmann::json to_json(const Tracker& tracker);
Result<Tracker> tracker_from_json(const nlohmann::json& json);

}  // namespace muster::loop
