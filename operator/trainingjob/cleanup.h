// What is done about a finished job: pods by cleanPodPolicy, the job by its TTL. It is never
// started again.
#pragma once

#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

void clean_up(const JobObject& job, const job::RunPolicy& policy, const Observed& observed,
              double now, Plan& plan);

}  // namespace muster::trainingjob
