#include "operator/trainingjob/pod_object.h"

#include <cstdlib>

#include "common/json_fields.h"
#include "operator/kube/time.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

const json& child(const json& object, const char* name) {
  static const json none = json::object();
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? none : *found;
}

PodObject::Phase phase_of(const std::string& phase) {
  if (phase == "Running") return PodObject::Phase::running;
  if (phase == "Succeeded") return PodObject::Phase::succeeded;
  if (phase == "Failed") return PodObject::Phase::failed;
  return PodObject::Phase::pending;
}

std::int64_t number_label(const json& labels, const char* name) {
  return std::strtoll(text_field(labels, name).c_str(), nullptr, 10);
}

void read_owner(const json& metadata, PodObject& pod) {
  for (const auto& owner : child(metadata, "ownerReferences")) {
    if (!owner.value("controller", false) || text_field(owner, "kind") != "TrainingJob") continue;
    pod.job_uid = text_field(owner, "uid");
    pod.job_key = pod.name_space + "/" + text_field(owner, "name");
  }
}

void read_container(const json& container, PodObject& pod) {
  const auto& state = child(container, "state");
  const auto& ended = child(state, "terminated");
  if (ended.contains("exitCode")) {
    pod.exit_code = static_cast<int>(integer_field(ended, "exitCode", 1));
    pod.termination_message = text_field(ended, "message");
    pod.out_of_memory = text_field(ended, "reason") == "OOMKilled";
    pod.finished = kube::parse_time(text_field(ended, "finishedAt")).value_or(0);
  }
  const auto waiting = text_field(child(state, "waiting"), "reason");
  if (waiting == "ErrImagePull" || waiting == "ImagePullBackOff" || waiting == "InvalidImageName" ||
      waiting == "ErrImageNeverPull" || waiting == "CreateContainerConfigError") {
    pod.trouble = waiting == "CreateContainerConfigError" ? waiting : reason::image_pull_failed;
    pod.trouble_message = text_field(child(state, "waiting"), "message");
    if (pod.trouble_message.empty()) pod.trouble_message = waiting;
  }
}

void read_conditions(const json& status, PodObject& pod) {
  for (const auto& condition : child(status, "conditions")) {
    const auto type = text_field(condition, "type");
    const bool yes = text_field(condition, "status") == "True";
    const auto why = text_field(condition, "reason");
    if (type == "Ready") pod.ready = yes;
    if (type == "PodScheduled" && !yes && why == "Unschedulable") {
      pod.trouble = reason::unschedulable;
      pod.trouble_message = text_field(condition, "message");
    }
    if (type == "DisruptionTarget" && yes) {
      pod.disruption = why == "PreemptionByScheduler" ? reason::preempted
                       : why == "DeletionByTaintManager" || why == "DeletionByPodGC"
                           ? reason::node_lost
                           : reason::evicted;
    }
  }
  const auto of_pod = text_field(status, "reason");
  if (of_pod == "Evicted" || of_pod == "Preempting") pod.disruption = reason::evicted;
  if (of_pod == "NodeLost" || of_pod == "NodeShutdown" || of_pod == "Terminated") {
    pod.disruption = reason::node_lost;
  }
}

}  // namespace

std::shared_ptr<const PodObject> pod_of_json(const json& object) {
  auto pod = std::make_shared<PodObject>();
  const auto& metadata = child(object, "metadata");
  const auto& labels = child(metadata, "labels");
  pod->name = text_field(metadata, "name");
  pod->name_space = text_field(metadata, "namespace");
  pod->uid = text_field(metadata, "uid");
  pod->deleting = metadata.contains("deletionTimestamp");
  read_owner(metadata, *pod);
  pod->role = text_field(labels, label_role) == "coordinator" ? Role::coordinator : Role::worker;
  pod->index = number_label(labels, label_index);
  pod->incarnation = number_label(labels, label_incarnation);
  pod->attempt = number_label(labels, label_attempt);
  pod->node = text_field(child(object, "spec"), "nodeName");
  const auto& status = child(object, "status");
  pod->phase = phase_of(text_field(status, "phase"));
  pod->ip = text_field(status, "podIP");
  const auto main = pod->role == Role::coordinator ? "coordinator" : "trainer";
  for (const auto& container : child(status, "containerStatuses")) {
    if (text_field(container, "name") == main) read_container(container, *pod);
  }
  read_conditions(status, *pod);
  return pod;
}

}  // namespace muster::trainingjob
