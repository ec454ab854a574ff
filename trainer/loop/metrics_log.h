// metrics.jsonl: the learning curve, one JSON object a step, written by rank 0. A resumed run
// continues the file: records past its first step are cut off, so no step stands there twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/loop/tracker.h"

namespace muster::loop {

// Where a step's seconds went.
struct Split {
  double data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;
  double total() const { return data + forward + backward + communication + optimizer; }
};

struct StepRecord {
  std::int64_t step = 0;     // steps committed, this one included
  std::int64_t samples = 0;  // seen by the run so far
  double loss = 0;           // mean over the step's samples or tokens, before its update
  double learning_rate = 0;
  double gradient_norm = 0;
  Split seconds;
  double samples_per_second = 0;
};

class MetricsLog {
 public:
  // Keeps the records of steps <= `step`.
  static Result<std::unique_ptr<MetricsLog>> open(const std::string& path, std::int64_t step);
  ~MetricsLog();
  // A line each, handed to the system at once. A full disk is an error, and training goes on.
  Status write(const StepRecord& record);
  Status write(std::int64_t step, const Validation& validation);

 private:
  explicit MetricsLog(int fd) : fd_(fd) {}
  Status append(const std::string& line);
  int fd_;
};

}  // namespace muster::loop
