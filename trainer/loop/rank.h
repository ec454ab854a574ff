// One rank process: joins the coordinator, opens the data, builds the model, trains.
#pragma once

#include <string>

#include "trainer/loop/pod_metrics.h"

namespace muster::loop {

struct RankOptions {
  std::string coordinator;  // host:port
  std::string token;        // of the job
  std::string host;         // address that peers dial
  std::string pod;
  std::string pod_uid;
  int local_rank = 0;
  std::string output;  // folder of rank 0's files; empty: the spec's
  double connect_seconds = 60;
};

// Runs to the end; the exit code is that of exit_code.h. SIGTERM asks to leave at the next
// boundary.
int run_rank(const RankOptions& options, RankMetrics& metrics);

}  // namespace muster::loop
