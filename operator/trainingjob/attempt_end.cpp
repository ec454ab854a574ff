#include "operator/trainingjob/attempt_end.h"

#include <algorithm>
#include <cmath>

#include "common/exit_code.h"
#include "common/json_fields.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;
using Pods = std::vector<const PodObject*>;

constexpr double last_moments = 5;     // seconds that a worker has after the coordinator's end
constexpr double verdict_seconds = 2;  // that a verdict may take after a worker's end

Pods of_attempt(const JobStatus& status, const Observed& observed) {
  Pods pods;
  for (const auto& pod : observed.pods) {
    const bool current =
        pod->attempt == status.attempt && pod->incarnation == status.incarnation(pod->member());
    if (current) pods.push_back(pod.get());
  }
  return pods;
}

const PodObject* coordinator_of(const Pods& pods) {
  const auto found = std::find_if(pods.begin(), pods.end(), [](const PodObject* pod) {
    return pod->role == Role::coordinator;
  });
  return found == pods.end() ? nullptr : *found;
}

bool failed(const PodObject& pod) {
  return pod.phase == PodObject::Phase::failed &&
         !(pod.role == Role::worker && wants_replacement(pod));
}

// Which failure tells most: a verdict of the trainer, then a kill, then anything else; a worker's
// before the coordinator's, which ends because of it.
int weight(const PodObject& pod) {
  const int code = pod.exit_code.value_or(exit_failed);
  const int kind = code == exit_invalid_job || code == exit_invalid_data || code == exit_diverged
                       ? 3
                   : code > 128 || !pod.disruption.empty() ? 2
                                                           : 1;
  return kind * 2 + (pod.role == Role::worker ? 1 : 0);
}

// What the coordinator left behind, or says: who failed, and why.
json verdict_of(const PodObject* coordinator, const json& state) {
  if (coordinator != nullptr && !coordinator->termination_message.empty()) {
    const auto last = json::parse(coordinator->termination_message, nullptr, false);
    if (last.is_object() && last.contains("failure") && last["failure"].is_object()) {
      return last["failure"];
    }
  }
  if (state.is_object() && state.contains("failure") && state["failure"].is_object()) {
    return state["failure"];
  }
  return json::object();
}

// The last line that says anything.
std::string last_words(const std::string& message) {
  const auto end = message.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const auto begin = message.find_last_of('\n', end);
  return message
      .substr(begin == std::string::npos ? 0 : begin + 1,
              end - (begin == std::string::npos ? 0 : begin + 1) + 1)
      .substr(0, 500);
}

std::string reason_of(const PodObject& pod) {
  if (!pod.disruption.empty()) return pod.disruption;
  if (pod.out_of_memory) return reason::out_of_memory;
  return pod.role == Role::coordinator ? reason::coordinator_failed : reason::worker_failed;
}

EndOfAttempt describe(const PodObject& pod, const json& verdict) {
  EndOfAttempt result;
  result.pod = pod.name;
  result.node = pod.node;
  result.disruption = !pod.disruption.empty();
  result.end.exit_code = pod.exit_code.value_or(exit_failed);
  // A coordinator that gave up says whose fault it was.
  if (pod.role == Role::coordinator && !verdict.empty()) {
    result.end.exit_code = static_cast<int>(integer_field(verdict, "exitCode", exit_failed));
    if (const auto who = text_field(verdict, "pod"); !who.empty()) result.pod = who;
  }
  result.end.reason = reason_of(pod);
  result.end.message = result.pod + ": " + describe_exit_code(result.end.exit_code);
  if (pod.out_of_memory) result.end.message += ", out of memory";
  if (result.disruption) result.end.message = pod.name + ": " + pod.disruption;
  if (const auto words = text_field(verdict, "message"); !words.empty()) {
    result.end.message += "; " + words;
  } else if (pod.role == Role::worker && !last_words(pod.termination_message).empty()) {
    result.end.message += "; " + last_words(pod.termination_message);
  }
  return result;
}

// A worker that says nothing with its exit code may only have followed another: the coordinator
// knows whom, and is about to say so. Clocks of nodes differ, so a time far off is no reason to
// wait.
bool awaits_verdict(const PodObject& failed, const PodObject* coordinator, const json& verdict,
                    double now) {
  return failed.role == Role::worker && weight(failed) < 4 && verdict.empty() &&
         coordinator != nullptr && !coordinator->ended() && !coordinator->deleting &&
         std::abs(now - failed.finished) < verdict_seconds;
}

EndOfAttempt lost_coordinator(const PodObject& pod) {
  EndOfAttempt result;
  result.disruption = true;
  result.pod = pod.name;
  result.node = pod.node;
  result.end.exit_code = exit_failed;
  result.end.reason = pod.disruption.empty() ? reason::deleted : pod.disruption;
  result.end.message = "the coordinator's pod " + pod.name + " was deleted";
  return result;
}

// All are through, and nobody failed. A worker that is still there after the coordinator's end
// joined too late to take part; one that took part ends by itself within moments.
bool complete(const job::Spec& spec, const Pods& pods, double now) {
  const auto* coordinator = coordinator_of(pods);
  if (coordinator == nullptr || coordinator->phase != PodObject::Phase::succeeded) return false;
  const bool waits = now < coordinator->finished + last_moments;
  std::int64_t succeeded = 0;
  for (const auto* pod : pods) {
    if (pod->role != Role::worker) continue;
    if (pod->phase == PodObject::Phase::succeeded) ++succeeded;
    const bool still_there = !pod->ended() && !pod->deleting && pod->index < spec.workers.replicas;
    if (still_there && waits) return false;
  }
  return succeeded > 0;
}

}  // namespace

bool wants_replacement(const PodObject& worker) {
  if (worker.phase == PodObject::Phase::succeeded) return false;
  if (worker.ended()) return worker.exit_code == exit_left;
  return worker.deleting;
}

std::optional<EndOfAttempt> end_of_attempt(const job::Spec& spec, const JobStatus& status,
                                           const Observed& observed, double now) {
  const auto pods = of_attempt(status, observed);
  if (complete(spec, pods, now)) {
    EndOfAttempt success;
    success.end.reason.clear();
    return success;
  }
  const auto* coordinator = coordinator_of(pods);
  const auto verdict = verdict_of(coordinator, observed.state);
  const PodObject* worst = nullptr;
  for (const auto* pod : pods) {
    if (!failed(*pod)) continue;
    if (worst == nullptr || weight(*pod) > weight(*worst)) worst = pod;
  }
  if (coordinator != nullptr && coordinator->exit_code == exit_left) {
    // It stopped at a boundary because somebody asked it to: its pod was deleted or evicted.
    return lost_coordinator(*coordinator);
  }
  if (worst != nullptr && awaits_verdict(*worst, coordinator, verdict, now)) return std::nullopt;
  if (worst != nullptr) return describe(*worst, verdict);
  if (coordinator != nullptr && coordinator->deleting && !coordinator->ended()) {
    return lost_coordinator(*coordinator);
  }
  return std::nullopt;
}

}  // namespace muster::trainingjob
