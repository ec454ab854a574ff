// Names, labels and ports of a TrainingJob's children.
#pragma once

#include <cstdint>
#include <string>

namespace muster::trainingjob {

inline constexpr char label_job[] = "muster.dev/job-name";
inline constexpr char label_job_uid[] = "muster.dev/job-uid";
inline constexpr char label_role[] = "muster.dev/role";
inline constexpr char label_index[] = "muster.dev/index";
inline constexpr char label_attempt[] = "muster.dev/attempt";
inline constexpr char label_incarnation[] = "muster.dev/incarnation";
inline constexpr char label_managed_by[] = "app.kubernetes.io/managed-by";
inline constexpr char managed_by[] = "muster";
inline constexpr char annotation_spec[] = "muster.dev/spec";
inline constexpr char controller_name[] = "muster.dev/operator";
inline constexpr char api_version[] = "muster.dev/v1alpha1";

inline constexpr int rank_port = 7077;     // of the coordinator, for ranks
inline constexpr int state_port = 7078;    // of the coordinator: /state, /metrics, /healthz
inline constexpr int metrics_port = 9090;  // of a worker

enum class Role { coordinator, worker };
inline const char* name_of(Role role) {
  return role == Role::coordinator ? "coordinator" : "worker";
}

// Who a pod is, apart from its incarnation: "coordinator" or "worker-3".
inline std::string member_name(Role role, std::int64_t index) {
  return role == Role::coordinator ? "coordinator" : "worker-" + std::to_string(index);
}
inline std::string pod_name(const std::string& job, Role role, std::int64_t index,
                            std::int64_t incarnation) {
  return job + "-" + member_name(role, index) + "-" + std::to_string(incarnation);
}
inline std::string token_name(const std::string& job, std::int64_t attempt) {
  return job + "-token-" + std::to_string(attempt);
}

}  // namespace muster::trainingjob
