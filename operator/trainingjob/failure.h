// What the end of an attempt means: try again, or the end of the job. Pure.
//
//   auto verdict = decide(spec, {.exit_code = 1, .reason = "WorkerFailed"}, counted_failures);
//   if (verdict.action == Decision::retry) ... start the next attempt with the next epoch
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/job/training_job.h"

namespace muster::trainingjob {

// How one attempt ended, as its processes tell it.
struct AttemptEnd {
  bool stopped = false;  // on request: a checkpoint is written, the job can go on later
  int exit_code = 0;     // of the process that failed first; 128 + n when a signal n killed it
  std::string reason =
      {};  // CamelCase: WorkerFailed, CoordinatorFailed, OutOfMemory, DeadlineExceeded
  std::string message = {};  // for a person
};

enum class Decision { succeed, stop, retry, fail };

struct Verdict {
  Decision action = Decision::fail;
  bool counts = true;                  // retry: against runPolicy.backoffLimit
  std::string reason = {};             // CamelCase: why it is over
  std::string message = {};            // one sentence with the remedy
  int exit_code = 0;                   // of `muster run`, once it is over
  std::chrono::milliseconds delay{0};  // retry: how long to wait before it
};

// `failures`: attempts that failed before this one and counted.
//
// In this order: success and stop; exit codes 2 and 3 fail (the same job on the same data fails the
// same way); the first failurePolicy rule that matches; 4 by training.onDivergence; backoffLimit.
Verdict decide(const job::Spec& spec, const AttemptEnd& end, std::int64_t failures);

// Exit code of a process from waitpid's status: 128 + n when signal n ended it.
int exit_code_of_wait_status(int status);

// "exit code 2 (the job is wrong)", "killed by signal 9 (Killed)".
std::string describe_exit_code(int code);

}  // namespace muster::trainingjob
