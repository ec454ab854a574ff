// runPolicy's deadlines: which is over, and when the next one will be.
#pragma once

#include <optional>
#include <string>

#include "operator/trainingjob/plan.h"

namespace muster::trainingjob {

struct Deadlines {
  // The whole job is over: active or preRunning.
  std::optional<std::string> exceeded;  // reason
  std::string message;
  // This attempt is over: no heartbeat for too long.
  bool stalled = false;
  std::optional<double> next;  // seconds until the nearest that is not over yet
};

Deadlines check_deadlines(const job::RunPolicy& policy, const JobStatus& status,
                          const Observed& observed, double now);

}  // namespace muster::trainingjob
