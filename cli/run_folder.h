// What an output folder remembers between two runs of the same job.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/result.h"

namespace muster::cli {

// The job's identity, made once a folder: a second run with the same folder resumes the first.
Result<std::string> job_uid(const std::string& folder);

// One more than any epoch before, written down before it is returned: a coordinator of an older
// attempt can never publish over a newer one.
Result<std::int64_t> next_epoch(const std::string& folder);

// While it lives, no other `muster run` can use the folder. The system frees it when we die.
class FolderLock {
 public:
  FolderLock() = default;
  explicit FolderLock(int fd) : fd_(fd) {}
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  int fd_ = -1;
};
// Errors: Code::io when another run holds it.
Result<FolderLock> lock_folder(const std::string& folder);

// The fields in which `job` differs from the folder's job.json ("spec.training.seed, ..."), when
// the run would go on from a checkpoint of that job. Empty when there are none. How long it trains,
// with how many workers and where files lie may change.
std::string changed_fields(const std::string& folder, const nlohmann::json& job);

}  // namespace muster::cli
