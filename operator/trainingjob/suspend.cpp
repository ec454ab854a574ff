#include "operator/trainingjob/suspend.h"

#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {

bool suspend(const job::Spec& spec, const Observed& observed, double now, Plan& plan) {
  auto& status = plan.status;
  if (!spec.run_policy.suspend) {
    if (clear_condition(status, "Suspended", reason::resumed, now)) {
      plan.announce.push_back({false, reason::resumed, "Resume", "goes on"});
      status.between = true;
      status.next_attempt = now;
      status.start = 0;  // deadlines count anew, as with a Job
    }
    return false;
  }
  bool coordinator_lives = false, anyone_lives = false;
  for (const auto& pod : observed.pods) {
    if (pod->ended()) continue;
    anyone_lives = true;
    if (pod->role == Role::coordinator) coordinator_lives = true;
  }
  for (const auto& pod : observed.pods) {
    if (pod->deleting) continue;
    // Workers stop by themselves at the boundary that the coordinator names: a signal of their own
    // would make each of them leave by itself.
    const bool its_turn = pod->role == Role::coordinator || !coordinator_lives;
    if (its_turn) plan.remove.push_back({pod->name, pod->uid});
  }
  if (anyone_lives) {
    plan.status.message = "stopping at a step's boundary";
    return true;
  }
  status.phase = "Suspended";
  status.message.clear();
  clear_condition(status, "Running", reason::suspended, now);
  if (set_condition(status, "Suspended", true, reason::suspended,
                    "runPolicy.suspend is set; set it to false to go on", now)) {
    plan.news = true;
    plan.announce.push_back({false, reason::suspended, "Suspend", "no pod runs any more"});
  }
  return true;
}

}  // namespace muster::trainingjob
