// The operator as a process: caches, queue, workers, leader election, its own /metrics.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "operator/kube/config.h"
#include "operator/kube/lease.h"
#include "operator/trainingjob/reconciler.h"

namespace muster {

struct OperatorOptions {
  kube::ConfigSource config;
  std::vector<std::string> namespaces;  // empty: all
  std::string http = "0.0.0.0:8080";
  bool elect = true;
  kube::LeaseOptions lease;
  trainingjob::ReconcilerOptions reconciler;
  std::string token_key_file;
  int workers = 8;
  double qps = 0;
  int burst = 100;
  double drain_seconds = 30;
};

// Until SIGTERM or SIGINT (then what is being worked on is finished and the lease given back), or
// until the lease is lost. Errors: no cluster, no key, the address is in use.
Result<int> run_operator(const OperatorOptions& options);

// GET of an http:// address, for probes in images without a shell: 0 when it answers 200.
int check_address(const std::string& address);

}  // namespace muster
