// What is to be done about a TrainingJob: pure. `muster run` and the operator carry it out, one
// with processes, the other with pods.
//
//   const Plan p = plan(job, observed, now);
//   // 1. p.intent: write p.status first (with the resourceVersion), then act
//   // 2. prepare, remove, create, announce    3. write p.status if it differs and may be written
//
// A decision rests on the spec, the status that was written, and what is observed; running it twice
// on the same state asks for the same, and an undisturbed job asks for nothing.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job.h"
#include "operator/trainingjob/job_object.h"
#include "operator/trainingjob/pod_object.h"

namespace muster::trainingjob {

// What came back from the cluster when we last acted.
struct Refusal {
  std::string reason, message;  // PodCreateFailed, NameTaken ...; the API's words
};

struct Observed {
  std::vector<std::shared_ptr<const PodObject>> pods;  // of this job, all attempts
  nlohmann::json state;  // the coordinator's /state, or null when it was not reached
  std::optional<Refusal> refusal;
};

struct PodSlot {
  Role role = Role::worker;
  std::int64_t index = 0, incarnation = 0;
  bool operator==(const PodSlot&) const = default;
};

struct Removal {
  std::string name, uid;
  std::optional<std::int64_t> grace_seconds = {};  // none: the pod's own
};

struct Announcement {
  bool warning = false;
  std::string reason, action, note;
};

struct Plan {
  JobStatus status;
  bool intent = false;  // the status has to be written before anything else is done
  // A change that a person should see at once; without it only figures may differ, and the status
  // may wait.
  bool news = false;
  bool prepare = false;  // the attempt's Service and Secret have to be there
  std::vector<PodSlot> create;
  std::vector<Removal> remove;
  std::vector<Announcement> announce;
  bool delete_job = false;
  std::optional<double> look_again;  // seconds from now
  job::TrainingJob resolved;         // valid when create is not empty
};

// `now`: seconds since 1970.
Plan plan(const JobObject& job, const Observed& observed, double now);

}  // namespace muster::trainingjob
