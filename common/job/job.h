// Reading TrainingJobs.
//
//   auto documents = job::read_documents(text, "job.yaml");      // YAML or JSON, several documents
//   auto job = job::parse(documents[0]);                          // typed, defaults filled in
//
// Guarantees: `muster run`, the coordinator and the trainer accept exactly the same documents.
// Errors: every problem of the document at once, each naming path, value and remedy.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/job/training_job.h"
#include "common/result.h"

namespace muster::job {

struct Problem {
  std::string path;     // spec.training.steps
  std::string message;  // "must be at least 1, but is 0; ..."
};

// Either a job without problems, or its problems.
struct Parsed {
  TrainingJob job;
  std::vector<Problem> problems;
  bool ok() const { return problems.empty(); }
};

// YAML 1.2 core or JSON to JSON values, one a document. `source` names the input in messages.
Result<std::vector<nlohmann::json>> read_documents(const std::string& text,
                                                   const std::string& source);

// Types, defaults, unknown fields, ranges and the rules between fields.
Parsed parse(const nlohmann::json& document);

// Sets `path` (spec.training.steps=10, or training.steps=10; lists by [i]; the value is YAML)
// before parsing; the value null removes the field.
Status set_path(nlohmann::json& document, const std::string& assignment);

// The resolved spec as JSON: what is frozen for an attempt. parse(to_json(job)) gives the same job.
nlohmann::json to_json(const TrainingJob& job);

// SHA-256 of the canonical resolved spec, "sha256:<hex>".
std::string spec_hash(const TrainingJob& job);

// All problems as text for a terminal, a line each.
std::string describe(const std::vector<Problem>& problems, const std::string& source);

// What is valid, but comes with a later version: one plain sentence, or nothing when this version
// can run it.
Status check_supported(const TrainingJob& job);

}  // namespace muster::job
