// The objects of an attempt as they are POSTed: pods, Service, Secret, NetworkPolicy. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/job/job.h"
#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

// What the installation decides.
struct Images {
  std::string coordinator = "muster-operator:dev";  // holds muster-coordinator
  std::string trainer = "muster-trainer:dev";
  std::string pull_policy = "IfNotPresent";
};

// Fixed for an attempt.
struct AttemptContext {
  const JobObject& job;              // name, namespace, uid
  const job::TrainingJob& resolved;  // what travels to the ranks
  std::int64_t attempt = 1;
  std::string coordinator_ip;  // the Service's
  const Images& images;
};

// The folder is on a volume that the workers' template mounts.
bool on_volume(const job::Spec& spec, const std::string& path);

// The job as the attempt runs it: paths that are on no volume are the pod's own, and a checkpoint
// folder there is none at all.
job::TrainingJob as_run(job::TrainingJob job);

nlohmann::json make_pod(const AttemptContext& context, const PodSlot& slot);
nlohmann::json make_service(const JobObject& job);
nlohmann::json make_token_secret(const JobObject& job, std::int64_t attempt,
                                 const std::string& token);
// One a namespace: Muster's pods accept Muster's pods of that namespace, the operator and
// Prometheus.
nlohmann::json make_network_policy(const std::string& name_space,
                                   const std::string& operator_namespace);

std::string worker_selector(const std::string& job);

}  // namespace muster::trainingjob
