// Between checked JSON and the structs: no decisions here.
#pragma once

#include <nlohmann/json.hpp>

#include "common/job/training_job.h"

namespace muster::job {

// `json` has passed check(): types are right and defaults are filled in.
TrainingJob from_checked_json(const nlohmann::json& json);

}  // namespace muster::job
