// Carries out what plan() asks for, against an API server.
//
// Order of deeds: the intent first, with the resourceVersion (a conflict ends the reconcile); then
// Service, Secret, deletions, and pods by POST, 1, 2, 4 ... at once; last the status. What was
// created or deleted counts as such until the cache shows it.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "operator/kube/client.h"
#include "operator/kube/controller.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/store.h"
#include "operator/trainingjob/metrics.h"
#include "operator/trainingjob/plan.h"
#include "operator/trainingjob/pods.h"

namespace muster::trainingjob {

inline const kube::ResourceType training_jobs{"muster.dev", "v1alpha1", "trainingjobs"};

struct ReconcilerOptions {
  Images images;
  std::string token_key;  // of the operator: tokens of jobs are derived from it
  std::string operator_namespace = "muster-system";
  double state_seconds = 5;      // between two looks at a running job's /state
  double progress_seconds = 15;  // between two writes of progress alone
};

class Reconciler {
 public:
  Reconciler(kube::Client& client, const kube::Store<JobObject>& jobs,
             const kube::Store<PodObject>& pods, kube::EventRecorder& events, Metrics& metrics,
             ReconcilerOptions options);

  // `key`: namespace/name.
  kube::ReconcileResult reconcile(const std::string& key);
  // The cache shows a change of this pod: what was expected of it is fulfilled.
  void observed(const std::string& job_key, const std::string& pod_key);

 private:
  // What we did and the cache does not show yet, and what we know of a job beyond its objects.
  struct Memory {
    std::map<std::string, std::shared_ptr<const PodObject>> created;  // by name
    std::set<std::string> deleted;                                    // uids
    double expires = 0;                                               // steady seconds
    std::shared_ptr<const JobObject> written;  // after our last write of the status
    std::string written_over;                  // resourceVersion that it replaced
    std::optional<Refusal> refusal;
    double last_state = 0, last_progress = 0;
    std::int64_t prepared_attempt = 0;
    std::string coordinator_ip;
    bool announced = false;
  };

  std::shared_ptr<const JobObject> current(const std::string& key, Memory& memory) const;
  Observed observe(const JobObject& job, Memory& memory);
  nlohmann::json fetch_state(const JobObject& job, const Observed& observed);
  std::optional<Error> carry_out(const JobObject& job, Plan& plan, Memory& memory);
  std::optional<Error> prepare(const JobObject& job, const Plan& plan, Memory& memory);
  std::optional<Error> prepare_service(const JobObject& job, Memory& memory);
  std::optional<Error> create_pods(const JobObject& job, const Plan& plan, Memory& memory);
  std::optional<Error> create_pod(const JobObject& job, const nlohmann::json& body, Memory& memory);
  std::optional<Error> remove_pods(const JobObject& job, const Plan& plan, Memory& memory);
  std::optional<Error> write_status(const JobObject& job, JobStatus& status, Memory& memory);
  std::optional<Error> protect_namespace(const std::string& name_space);
  void announce(const JobObject& job, const std::vector<Announcement>& announcements);
  void count_edges(const JobObject& before, const Plan& plan);
  std::string token_of(const JobObject& job, std::int64_t attempt) const;
  std::shared_ptr<Memory> memory_of(const std::string& key);

  kube::Client& client_;
  const kube::Store<JobObject>& jobs_;
  const kube::Store<PodObject>& pods_;
  kube::EventRecorder& events_;
  Metrics& metrics_;
  const ReconcilerOptions options_;
  std::mutex mutex_;  // of memories_, protected_ and every Memory's created and deleted
  std::unordered_map<std::string, std::shared_ptr<Memory>> memories_;
  std::set<std::string> protected_;
};

}  // namespace muster::trainingjob
