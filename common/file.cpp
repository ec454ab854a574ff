#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace muster {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error failure(const std::string& step, const std::string& path) {
  return {Code::io, step + " " + path + ": " + std::strerror(errno)};
}

Status write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const auto n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("cannot write", path);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_durably(const std::string& path, std::string_view content) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) return failure("cannot create", path);
  MUSTER_CHECK_OK(write_all(fd.get(), content, path));
  if (::fsync(fd.get()) != 0) return failure("cannot fsync", path);
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::uint64_t limit) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return failure("cannot open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure("cannot stat", path);
  if (S_ISDIR(info.st_mode)) return Error{Code::io, "cannot read " + path + ": it is a folder"};
  std::string content;
  char buffer[65536];
  while (true) {
    const auto n = ::read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("cannot read", path);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) {
      return Error{Code::io, "cannot read " + path + ": it is larger than the limit of " +
                                 std::to_string(limit) + " bytes"};
    }
  }
}

Status replace_file(const std::string& path, std::string_view content) {
  const auto temporary = path + ".new." + std::to_string(::getpid());
  auto status = write_durably(temporary, content);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = failure("cannot replace", path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Error{Code::io, "cannot create the folder " + path + ": " + error.message()};
  return {};
}

}  // namespace muster
