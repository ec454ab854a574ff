// The files that a job names: paths and globs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace muster::data {

// All files of the patterns, each pattern's sorted by name; a pattern that names a file is that
// file. A pattern without a file is an error.
Result<std::vector<std::string>> expand(const std::vector<std::string>& patterns);

// A regular file mapped for reading. An empty file is an error: there is nothing to train on.
class MappedFile {
 public:
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::data
