#include "trainer/data/files.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster::data {

Result<std::vector<std::string>> expand(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const auto& pattern : patterns) {
    if (::access(pattern.c_str(), F_OK) == 0) {  // a name such as a[1].csv is no pattern
      files.push_back(pattern);
      continue;
    }
    glob_t found{};
    const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
      files.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
    if (code != 0) {
      return Error{Code::invalid_data, "no file matches " + pattern +
                                           "; check the path (a relative one starts at the job's "
                                           "folder) and that it can be read"};
    }
  }
  return files;
}

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  auto file = std::unique_ptr<MappedFile>(new MappedFile());
  file->path_ = path;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  if (fd < 0) {
    return Error{Code::invalid_data, "cannot read " + path + ": " + std::strerror(errno)};
  }
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  file->size_ = static_cast<std::size_t>(info.st_size);
  void* memory = regular && file->size_ > 0
                     ? ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0)
                     : MAP_FAILED;
  const int why = errno;
  ::close(fd);
  if (!regular) return Error{Code::invalid_data, "cannot read " + path + ": it is not a file"};
  if (file->size_ == 0) return Error{Code::invalid_data, path + " is empty: it has no samples"};
  if (memory == MAP_FAILED) {
    return Error{Code::invalid_data, "cannot map " + path + ": " + std::strerror(why)};
  }
  file->data_ = static_cast<const char*>(memory);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace muster::data
