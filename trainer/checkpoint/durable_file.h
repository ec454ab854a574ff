// A file that is written once, checksummed on the way, and gone again when anything fails.
#pragma once

#include <cstddef>
#include <string>

#include "common/crypto.h"
#include "common/result.h"

namespace muster::checkpoint {

class DurableFile {
 public:
  static Result<DurableFile> create(const std::string& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();  // removes the file unless close() succeeded

  Status write(const void* data, std::size_t bytes);
  // fsync and close.
  Status close();

 private:
  DurableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Error failure(const char* step) const;
  std::string path_;
  int fd_;
};

// So that a new name in it survives a crash.
Status sync_folder(const std::string& path);

}  // namespace muster::checkpoint
