// TrainingJobs from files, for every command that takes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/job/job.h"
#include "common/result.h"

namespace muster::cli {

// One document and where it came from.
struct Document {
  std::string source;  // for messages: "job.yaml", or "job.yaml, document 2"
  std::string folder;  // relative data paths start here
  nlohmann::json content;
};

// "-" reads standard input. An input without any document is an error.
Result<std::vector<Document>> read_jobs(const std::string& file);

// Relative paths of the data, made absolute from `folder`: a job means the same wherever it is run
// from.
void resolve_data_paths(job::TrainingJob& job, const std::string& folder);

}  // namespace muster::cli
