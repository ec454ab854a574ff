#include "trainer/checkpoint/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::checkpoint {

Result<DurableFile> DurableFile::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Error{Code::io, "cannot create " + path + ": " + std::strerror(errno)};
  return DurableFile(path, fd);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

Error DurableFile::failure(const char* step) const {
  return {Code::io, std::string(step) + " " + path_ + ": " + std::strerror(errno)};
}

Status DurableFile::write(const void* data, std::size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const auto n = ::write(fd_, at, std::min<std::size_t>(bytes, 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("cannot write");
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Status DurableFile::close() {
  if (::fsync(fd_) != 0) return failure("cannot fsync");
  ::close(std::exchange(fd_, -1));
  return {};
}

Status sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error{Code::io, "cannot open " + path + ": " + std::strerror(errno)};
  const int code = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  if (code != 0) return Error{Code::io, "cannot fsync " + path + ": " + std::strerror(why)};
  return {};
}

}  // namespace muster::checkpoint
