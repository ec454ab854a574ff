#include "cli/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/crypto.h"
#include "common/file.h"

namespace muster::cli {
namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// Version 4: random but for its version and variant bits.
std::string random_uuid() {
  auto bytes = crypto::random_bytes(16);
  bytes[6] = char((bytes[6] & 0x0f) | 0x40);
  bytes[8] = char((bytes[8] & 0x3f) | 0x80);
  auto hex = crypto::to_hex(bytes);
  for (const auto at : {20, 16, 12, 8}) hex.insert(std::size_t(at), "-");
  return hex;
}

// The content of a small file, empty when there is none.
Result<std::string> content(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::string();
  MUSTER_TRY(text, read_file(path, 4096));
  return trimmed(text);
}

bool has_checkpoint(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("index-")) return true;
  }
  return false;
}

bool may_change(const std::string& path) {
  static const char* const free[] = {
      "spec.training.epochs", "spec.training.steps", "spec.workers",
      "spec.output",          "spec.checkpoint",     "spec.runPolicy",
      "spec.failurePolicy",   "spec.recovery",       "metadata"};
  return std::any_of(std::begin(free), std::end(free),
                     [&path](const char* prefix) { return path.starts_with(prefix); });
}

}  // namespace

Result<std::string> job_uid(const std::string& folder) {
  const auto path = folder + "/job-uid";
  MUSTER_TRY(known, content(path));
  if (!known.empty()) return known;
  const auto uid = random_uuid();
  MUSTER_CHECK_OK(replace_file(path, uid + "\n"));
  return uid;
}

Result<std::int64_t> next_epoch(const std::string& folder) {
  const auto path = folder + "/epoch";
  MUSTER_TRY(text, content(path));
  std::int64_t last = 0;
  if (!text.empty()) {
    if (text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos) {
      return Error{Code::io, path + ": holds '" + text.substr(0, 40) +
                                 "', not a number; remove the output folder, or use another"};
    }
    last = std::stoll(text);
  }
  MUSTER_CHECK_OK(replace_file(path, std::to_string(last + 1) + "\n"));
  return last + 1;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FolderLock> lock_folder(const std::string& folder) {
  const auto path = folder + "/.lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Error{Code::io, "cannot create " + path + ": " + std::strerror(errno)};
  FolderLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  return Error{Code::io, "another `muster run` uses " + folder +
                             "; wait for it, or give this one another --output"};
}

std::string changed_fields(const std::string& folder, const nlohmann::json& job) {
  const auto text = read_file(folder + "/job.json");
  if (!text.ok()) return "";
  const auto before = nlohmann::json::parse(*text, nullptr, false);
  const auto& checkpoint = job.at("spec").at("checkpoint");
  if (!before.is_object() || checkpoint.value("resume", "") == "never" ||
      !has_checkpoint(checkpoint.value("path", ""))) {
    return "";
  }
  std::string fields;
  for (const auto& difference : nlohmann::json::diff(before, job)) {
    auto path = difference.at("path").get<std::string>().substr(1);
    std::replace(path.begin(), path.end(), '/', '.');
    if (!may_change(path)) fields += (fields.empty() ? "" : ", ") + path;
  }
  return fields;
}

}  // namespace muster::cli
