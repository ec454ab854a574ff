#include "operator/trainingjob/elasticity.h"

#include <algorithm>
#include <map>

#include "operator/trainingjob/attempt_end.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {
namespace {

using Members = std::map<std::string, const PodObject*>;

// The newest pod of every member, in this attempt.
Members newest(const JobStatus& status, const Observed& observed) {
  Members members;
  for (const auto& pod : observed.pods) {
    if (pod->attempt != status.attempt) continue;
    auto& slot = members[pod->member()];
    if (slot == nullptr || slot->incarnation < pod->incarnation) slot = pod.get();
  }
  return members;
}

}  // namespace

void match_pods(const JobObject& job, const job::Spec& spec, const Observed& observed, Plan& plan) {
  auto& status = plan.status;
  const auto members = newest(status, observed);
  const auto find = [&](const std::string& member) {
    const auto found = members.find(member);
    return found == members.end() ? nullptr : found->second;
  };
  const auto* coordinator = find("coordinator");
  if (coordinator == nullptr) {
    plan.create.push_back({Role::coordinator, 0, status.incarnation("coordinator")});
  }
  // Once the run is over nobody is replaced.
  const bool over = coordinator != nullptr && coordinator->ended();
  for (std::int64_t i = 0; i < spec.workers.replicas && !over; ++i) {
    const auto member = member_name(Role::worker, i);
    const auto* pod = find(member);
    if (pod != nullptr && wants_replacement(*pod)) {
      status.incarnations[member] = pod->incarnation + 1;
      plan.intent = true;
      plan.announce.push_back({false, reason::worker_lost, "ReplaceWorker",
                               pod->name +
                                   (pod->disruption.empty() ? " left" : ": " + pod->disruption) +
                                   "; another takes its place"});
      pod = nullptr;
    }
    if (pod == nullptr || pod->incarnation < status.incarnation(member)) {
      plan.create.push_back({Role::worker, i, status.incarnation(member)});
    }
  }
  for (const auto& [member, pod] : members) {
    if (pod->role != Role::worker || pod->index < spec.workers.replicas) continue;
    if (pod->ended() || pod->deleting) continue;
    plan.remove.push_back({pod->name, pod->uid});
    --status.workers.active;
  }
  plan.prepare = !plan.create.empty();
  // What is asked for counts, and what is sent away no longer does: nobody wants to read 0/4 or 4/2
  // until the next look.
  for (const auto& slot : plan.create) {
    ++(slot.role == Role::worker ? status.workers : status.coordinator).active;
  }
  const auto before = job.status.workers.desired;
  const bool scaled = status.attempt == job.status.attempt && before > 0 &&
                      before != spec.workers.replicas && !over;
  if (scaled) {
    plan.news = true;
    plan.announce.push_back(
        {false, spec.workers.replicas > before ? "ScaledUp" : "ScaledDown", "Scale",
         std::to_string(before) + " to " + std::to_string(spec.workers.replicas) + " workers"});
  }
}

}  // namespace muster::trainingjob
