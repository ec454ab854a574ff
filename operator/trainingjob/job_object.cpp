#include "operator/trainingjob/job_object.h"

#include <algorithm>

#include "common/json_fields.h"
#include "operator/kube/time.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

json object_field(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : json::object();
}

double time_field(const json& object, const char* name) {
  return kube::parse_time(text_field(object, name)).value_or(0);
}

void put_time(json& object, const char* name, double seconds) {
  if (seconds > 0) object[name] = kube::format_time(seconds);
}

void put_text(json& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = text;
}

RoleCounts counts_of(const json& counts) {
  return {integer_field(counts, "desired", 0), integer_field(counts, "active", 0),
          integer_field(counts, "ready", 0), integer_field(counts, "succeeded", 0),
          integer_field(counts, "failed", 0)};
}

json to_json(const RoleCounts& counts) {
  return {{"desired", counts.desired},
          {"active", counts.active},
          {"ready", counts.ready},
          {"succeeded", counts.succeeded},
          {"failed", counts.failed}};
}

Condition condition_of(const json& c) {
  return {text_field(c, "type"),
          text_field(c, "status") == "True",
          text_field(c, "reason"),
          text_field(c, "message"),
          time_field(c, "lastTransitionTime"),
          integer_field(c, "observedGeneration", 0)};
}

json to_json(const Condition& c) {
  return {{"type", c.type},
          {"status", c.status ? "True" : "False"},
          {"reason", c.reason},
          {"message", c.message},
          {"lastTransitionTime", kube::format_time(c.transition)},
          {"observedGeneration", c.observed_generation}};
}

AttemptRecord attempt_of(const json& a) {
  AttemptRecord record;
  record.number = integer_field(a, "number", 0);
  record.start = time_field(a, "startTime");
  record.end = time_field(a, "endTime");
  record.reason = text_field(a, "reason");
  record.pod = text_field(a, "pod");
  record.node = text_field(a, "node");
  if (a.contains("exitCode")) record.exit_code = integer_field(a, "exitCode", 0);
  record.last_step = integer_field(a, "lastStep", -1);
  record.message = text_field(a, "message");
  return record;
}

json to_json(const AttemptRecord& record) {
  json a{{"number", record.number}, {"reason", record.reason}};
  put_time(a, "startTime", record.start);
  put_time(a, "endTime", record.end);
  put_text(a, "pod", record.pod);
  put_text(a, "node", record.node);
  put_text(a, "message", record.message);
  if (record.exit_code) a["exitCode"] = *record.exit_code;
  if (record.last_step >= 0) a["lastStep"] = record.last_step;
  return a;
}

}  // namespace

const Condition* JobStatus::find(const std::string& type) const {
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool JobStatus::is(const std::string& type) const {
  const auto* condition = find(type);
  return condition != nullptr && condition->status;
}

std::int64_t JobStatus::incarnation(const std::string& member) const {
  const auto of = [&](const std::string& name) {
    const auto found = incarnations.find(name);
    return found == incarnations.end() ? 0 : found->second;
  };
  return std::max(of("all"), of(member));
}

JobStatus status_of_json(const json& s) {
  JobStatus status;
  if (!s.is_object()) return status;
  status.observed_generation = integer_field(s, "observedGeneration", 0);
  status.phase = text_field(s, "phase");
  for (const auto& c : s.value("conditions", json::array())) {
    status.conditions.push_back(condition_of(c));
  }
  status.start = time_field(s, "startTime");
  status.completion = time_field(s, "completionTime");
  status.spec_hash = text_field(s, "specHash");
  const auto strategy = object_field(s, "strategy");
  status.strategy = text_field(strategy, "effective");
  status.strategy_reason = text_field(strategy, "reason");
  const auto roles = object_field(s, "replicaStatuses");
  status.workers = counts_of(object_field(roles, "worker"));
  status.coordinator = counts_of(object_field(roles, "coordinator"));
  status.attempt = integer_field(s, "attempt", 0);
  status.next_attempt = time_field(s, "nextAttemptTime");
  status.between = status.next_attempt > 0;
  status.failures = integer_field(s, "failures", 0);
  status.restarts = integer_field(s, "restarts", 0);
  const auto incarnations = object_field(s, "incarnations");
  for (const auto& [member, n] : incarnations.items()) {
    if (n.is_number_integer()) status.incarnations[member] = n;
  }
  status.generation = integer_field(s, "generation", 0);
  for (const auto& a : s.value("attempts", json::array())) {
    status.attempts.push_back(attempt_of(a));
  }
  status.progress = object_field(s, "progress");
  if (s.contains("result")) status.result = s["result"];
  status.message = text_field(s, "message");
  return status;
}

json to_json(const JobStatus& status, const std::string& selector) {
  json s{{"observedGeneration", status.observed_generation}, {"phase", status.phase}};
  for (const auto& c : status.conditions) s["conditions"].push_back(to_json(c));
  put_time(s, "startTime", status.start);
  put_time(s, "completionTime", status.completion);
  put_text(s, "specHash", status.spec_hash);
  if (!status.strategy.empty()) {
    s["strategy"] = {{"effective", status.strategy}};
    put_text(s["strategy"], "reason", status.strategy_reason);
  }
  s["replicaStatuses"] = {{"worker", to_json(status.workers)},
                          {"coordinator", to_json(status.coordinator)}};
  s["workers"] = std::to_string(status.workers.active + status.workers.succeeded) + "/" +
                 std::to_string(status.workers.desired);
  s["selector"] = selector;
  s["restarts"] = status.restarts;
  if (status.attempt > 0) s["attempt"] = status.attempt;
  if (status.between) put_time(s, "nextAttemptTime", std::max(1.0, status.next_attempt));
  if (status.failures > 0) s["failures"] = status.failures;
  for (const auto& [member, n] : status.incarnations) {
    if (n > 0) s["incarnations"][member] = n;
  }
  if (status.generation > 0) s["generation"] = status.generation;
  for (const auto& a : status.attempts) s["attempts"].push_back(to_json(a));
  if (!status.progress.empty()) s["progress"] = status.progress;
  if (!status.result.is_null()) s["result"] = status.result;
  put_text(s, "message", status.message);
  return s;
}

JobObject job_of_json(const json& object) {
  JobObject job;
  const auto metadata = object_field(object, "metadata");
  job.name = text_field(metadata, "name");
  job.name_space = text_field(metadata, "namespace");
  job.uid = text_field(metadata, "uid");
  job.resource_version = text_field(metadata, "resourceVersion");
  job.generation = integer_field(metadata, "generation", 0);
  job.created = time_field(metadata, "creationTimestamp");
  job.deleting = metadata.contains("deletionTimestamp");
  job.document = {{"apiVersion", text_field(object, "apiVersion")},
                  {"kind", "TrainingJob"},
                  {"metadata", {{"name", job.name}, {"namespace", job.name_space}}},
                  {"spec", object.value("spec", json::object())}};
  job.status = status_of_json(object.value("status", json::object()));
  return job;
}

}  // namespace muster::trainingjob
