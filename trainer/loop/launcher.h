// A pod's first process: forks one rank a device before anything touches a device or makes a
// thread, passes signals on, serves /metrics for the pod, and ends with the ranks' exit code.
#pragma once

#include <functional>
#include <string>

#include "common/result.h"
#include "trainer/loop/pod_metrics.h"

namespace muster::loop {

struct LauncherOptions {
  int ranks = 1;
  std::string metrics_address;  // host:port; empty: no /metrics
};

// `rank` runs in each child and returns its exit code. The result is the pod's exit code: that of
// the first rank that failed, else 75 when one left, else 0. When a rank dies the others are told
// to end.
Result<int> launch(const LauncherOptions& options,
                   const std::function<int(int local_rank, RankMetrics& metrics)>& rank);

}  // namespace muster::loop
