// Every reason that a condition, an attempt or an event of ours can have.
#pragma once

namespace muster::trainingjob::reason {

inline constexpr char deadline_exceeded[] = "DeadlineExceeded";
inline constexpr char pre_running_deadline_exceeded[] = "PreRunningDeadlineExceeded";
inline constexpr char progress_deadline_exceeded[] = "ProgressDeadlineExceeded";
inline constexpr char backoff_limit_exceeded[] = "BackoffLimitExceeded";
inline constexpr char non_retryable_exit_code[] = "NonRetryableExitCode";
inline constexpr char failure_policy[] = "FailurePolicy";
inline constexpr char pod_create_failed[] = "PodCreateFailed";
inline constexpr char invalid_spec[] = "InvalidSpec";
inline constexpr char invalid_template[] = "InvalidTemplate";
inline constexpr char node_lost[] = "NodeLost";
inline constexpr char preempted[] = "Preempted";
inline constexpr char evicted[] = "Evicted";
inline constexpr char deleted[] = "Deleted";
inline constexpr char out_of_memory[] = "OutOfMemory";
inline constexpr char image_pull_failed[] = "ImagePullFailed";
inline constexpr char unschedulable[] = "Unschedulable";
inline constexpr char diverged[] = "Diverged";
inline constexpr char worker_failed[] = "WorkerFailed";
inline constexpr char worker_lost[] = "WorkerLost";
inline constexpr char coordinator_failed[] = "CoordinatorFailed";
inline constexpr char suspended[] = "Suspended";
inline constexpr char resumed[] = "Resumed";
inline constexpr char succeeded[] = "Succeeded";
inline constexpr char running[] = "Running";
inline constexpr char starting[] = "Starting";
inline constexpr char name_taken[] = "NameTaken";
inline constexpr char no_volume[] = "NoVolume";
inline constexpr char on_volume[] = "OnVolume";
inline constexpr char spec_changed[] = "SpecChanged";

}  // namespace muster::trainingjob::reason
