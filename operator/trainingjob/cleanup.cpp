#include "operator/trainingjob/cleanup.h"

namespace muster::trainingjob {

void clean_up(const JobObject& job, const job::RunPolicy& policy, const Observed& observed,
              double now, Plan& plan) {
  for (const auto& pod : observed.pods) {
    if (pod->deleting || policy.clean_pod_policy == "None") continue;
    if (policy.clean_pod_policy == "Running" && pod->ended()) continue;
    plan.remove.push_back({pod->name, pod->uid});
  }
  if (!policy.ttl_seconds_after_finished) return;
  const double left = job.status.completion + double(*policy.ttl_seconds_after_finished) - now;
  if (left <= 0) {
    plan.delete_job = true;
  } else {
    plan.look_again = left;
  }
}

}  // namespace muster::trainingjob
