// A TrainingJob as the API server holds it: metadata, the spec as written, and our status.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster::trainingjob {

// metav1.Condition. Times are seconds since 1970.
struct Condition {
  std::string type;
  bool status = false;
  std::string reason, message;
  double transition = 0;
  std::int64_t observed_generation = 0;
};

// One try that is over.
struct AttemptRecord {
  std::int64_t number = 0;
  double start = 0, end = 0;
  std::string reason;
  std::string pod;
  std::string node;
  std::optional<std::int64_t> exit_code;
  std::int64_t last_step = -1;
  std::string message;
};

struct RoleCounts {
  std::int64_t desired = 0, active = 0, ready = 0, succeeded = 0, failed = 0;
  bool operator==(const RoleCounts&) const = default;
};

struct JobStatus {
  std::int64_t observed_generation = 0;
  std::string phase;  // Pending | Starting | Running | Restarting | Suspended | Succeeded | Failed
  std::vector<Condition> conditions;
  double start = 0, completion = 0;  // seconds since 1970; 0: not yet
  std::string spec_hash;
  std::string strategy, strategy_reason;
  RoleCounts workers, coordinator;
  std::int64_t attempt = 0;   // 0: none was begun
  bool between = false;       // the attempt is over, the next not begun
  double next_attempt = 0;    // when it may begin
  std::int64_t failures = 0;  // attempts that count against backoffLimit
  std::int64_t restarts = 0;
  // Incarnation of every pod of the attempt ("all"), and of those that were replaced since.
  std::map<std::string, std::int64_t> incarnations;
  std::int64_t generation = 0;  // of the membership
  std::vector<AttemptRecord> attempts;
  nlohmann::json progress = nlohmann::json::object();
  nlohmann::json result;  // of the run: steps, finalLoss, parametersSha256 ...
  std::string message;    // what a person should know now

  const Condition* find(const std::string& type) const;
  bool is(const std::string& type) const;  // the condition is there and True
  bool finished() const { return is("Succeeded") || is("Failed"); }
  std::int64_t incarnation(const std::string& member) const;
};

struct JobObject {
  std::string name, name_space, uid, resource_version;
  std::int64_t generation = 0;
  double created = 0;  // seconds since 1970
  bool deleting = false;
  nlohmann::json document;  // apiVersion, kind, metadata.name and namespace, spec
  JobStatus status;
  std::string key() const { return name_space + "/" + name; }
};

// From the API's object; fields of another type than the schema's are as good as missing.
JobObject job_of_json(const nlohmann::json& object);
JobStatus status_of_json(const nlohmann::json& status);
// Empty and zero fields are left out.
nlohmann::json to_json(const JobStatus& status, const std::string& selector);

}  // namespace muster::trainingjob
