#include "trainer/loop/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/json_fields.h"

namespace muster::loop {
namespace {

// Bytes of the leading records whose step is at most `step`.
off_t kept_bytes(const std::string& path, std::int64_t step) {
  std::ifstream in(path, std::ios::binary);
  off_t kept = 0;
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // torn: no newline
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || record.value("step", std::int64_t{0}) > step) break;
    kept += static_cast<off_t>(line.size()) + 1;
  }
  return kept;
}

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(const std::string& path, std::int64_t step) {
  const auto kept = kept_bytes(path, step);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::ftruncate(fd, kept) != 0 || ::lseek(fd, 0, SEEK_END) < 0) {
    const int why = errno;
    if (fd >= 0) ::close(fd);
    return Error{Code::io, "cannot open " + path + " for the learning curve: " +
                               std::strerror(why) + "; check the output folder"};
  }
  return std::unique_ptr<MetricsLog>(new MetricsLog(fd));
}

MetricsLog::~MetricsLog() {
  ::close(fd_);
}

Status MetricsLog::append(const std::string& line) {
  const auto written = ::write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return {};
  return Error{Code::io, std::string("writing metrics.jsonl: ") +
                             (written < 0 ? std::strerror(errno) : "the disk is full")};
}

Status MetricsLog::write(const StepRecord& r) {
  nlohmann::ordered_json json{{"step", r.step}, {"time", unix_seconds()}, {"samples", r.samples}};
  put_finite(json, "loss", r.loss);
  put_finite(json, "learningRate", r.learning_rate);
  put_finite(json, "gradientNorm", r.gradient_norm);
  json["seconds"] = {{"data", r.seconds.data},
                     {"forward", r.seconds.forward},
                     {"backward", r.seconds.backward},
                     {"communication", r.seconds.communication},
                     {"optimizer", r.seconds.optimizer}};
  put_finite(json, "samplesPerSecond", r.samples_per_second);
  return append(json.dump() + "\n");
}

Status MetricsLog::write(std::int64_t step, const Validation& validation) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  put_finite(values, "loss", validation.loss);
  put_finite(values, "accuracy", validation.accuracy);
  return append(
      nlohmann::ordered_json{{"step", step}, {"time", unix_seconds()}, {"validation", values}}
          .dump() +
      "\n");
}

}  // namespace muster::loop
