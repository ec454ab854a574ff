// A pod of a TrainingJob, as far as decisions need it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/trainingjob/names.h"

namespace muster::trainingjob {

struct PodObject {
  std::string name, name_space, uid;
  std::string job_uid;  // of the controlling owner; empty: not a TrainingJob's
  std::string job_key;  // namespace/name of the owner
  Role role = Role::worker;
  std::int64_t index = 0, incarnation = 0, attempt = 0;
  enum class Phase { pending, running, succeeded, failed } phase = Phase::pending;
  bool deleting = false;
  bool ready = false;
  std::string ip, node;
  // Of the main container, once it has ended.
  std::optional<int> exit_code;
  std::string termination_message;
  bool out_of_memory = false;
  // Of the pod: Evicted, NodeLost, Preempted, from its reason and DisruptionTarget.
  std::string disruption;
  // Why it does not start: ImagePullFailed or Unschedulable, and the API's words.
  std::string trouble, trouble_message;
  double finished = 0;  // seconds since 1970

  std::string member() const { return member_name(role, index); }
  bool ended() const { return phase == Phase::succeeded || phase == Phase::failed; }
  bool operator==(const PodObject&) const = default;
};

std::shared_ptr<const PodObject> pod_of_json(const nlohmann::json& object);

}  // namespace muster::trainingjob
