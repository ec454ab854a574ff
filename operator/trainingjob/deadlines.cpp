#include "operator/trainingjob/deadlines.h"

#include <algorithm>

#include "common/json_fields.h"
#include "operator/kube/time.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {
namespace {

// Seconds since the trainer was last heard of: its last step, or the start.
double last_heard(const JobStatus& status) {
  const auto step = kube::parse_time(text_field(status.progress, "lastStepTime"));
  const auto* running = status.find("Running");
  return std::max({step.value_or(0), running != nullptr ? running->transition : 0, status.start});
}

}  // namespace

Deadlines check_deadlines(const job::RunPolicy& policy, const JobStatus& status, const Observed&,
                          double now) {
  Deadlines result;
  if (status.start <= 0) return result;
  const auto look_at = [&](double at) {
    if (at > now) result.next = std::min(result.next.value_or(at - now), at - now);
    return at <= now;
  };
  const bool has_run = status.find("Running") != nullptr;
  if (policy.pre_running_deadline_seconds && !has_run &&
      look_at(status.start + double(*policy.pre_running_deadline_seconds))) {
    result.exceeded = reason::pre_running_deadline_exceeded;
    result.message = "it did not run within runPolicy.preRunningDeadlineSeconds (" +
                     std::to_string(*policy.pre_running_deadline_seconds) + " s)" +
                     (status.message.empty() ? "" : ": " + status.message);
  }
  if (policy.active_deadline_seconds &&
      look_at(status.start + double(*policy.active_deadline_seconds))) {
    result.exceeded = reason::deadline_exceeded;
    result.message = "runPolicy.activeDeadlineSeconds (" +
                     std::to_string(*policy.active_deadline_seconds) + " s) are over";
  }
  if (policy.progress_deadline_seconds && status.is("Running")) {
    result.stalled = look_at(last_heard(status) + double(*policy.progress_deadline_seconds));
  }
  return result;
}

}  // namespace muster::trainingjob
