// Exit codes of every Muster program: a contract with failurePolicy.onExitCodes.
#pragma once

#include "common/result.h"

namespace muster {

enum ExitCode : int {
  exit_finished = 0,
  exit_failed = 1,        // anything not below; a retry may help
  exit_invalid_job = 2,   // the TrainingJob or the command line is wrong
  exit_invalid_data = 3,  // the data are wrong
  exit_diverged = 4,      // the loss became non-finite
  exit_left = 75,         // left on request: the step was finished and handed over; never a failure
};

inline int exit_code(const Error& error) {
  switch (error.code) {
    case Code::invalid_job:
    case Code::unsupported:
      return exit_invalid_job;
    case Code::invalid_data:
      return exit_invalid_data;
    case Code::diverged:
      return exit_diverged;
    default:
      return exit_failed;
  }
}

}  // namespace muster
