// What an output folder remembers between two runs of the same job.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"

namespace muster::cli {

// The job's identity, made once a folder: a second run with the same folder resumes the first.
Result<std::string> job_uid(const std::string& folder);

// One more than any epoch before, written down before it is returned: a coordinator of an older
// attempt can never publish over a newer one.
Result<std::int64_t> next_epoch(const std::string& folder);

}  // namespace muster::cli
