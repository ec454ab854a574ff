// Threads that take keys from a queue and reconcile them.
//
//   Controller controller(queue, {.workers = 4}, [](const std::string& key) -> ReconcileResult {
//     ...; return {.requeue_after = 30};
//   });
//   controller.start();  ...  controller.stop(30);
//
// An error is tried again with the queue's backoff, an exception too; a terminal error is logged
// and counted, and waits for the next change.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/result.h"
#include "operator/kube/work_queue.h"

namespace muster::kube {

struct ReconcileResult {
  std::optional<Error> error = {};
  bool terminal = false;                     // of the error: a retry is of no use
  std::optional<double> requeue_after = {};  // seconds
};

struct ControllerOptions {
  int workers = 4;
};

class Controller {
 public:
  using Reconcile = std::function<ReconcileResult(const std::string& key)>;
  Controller(WorkQueue& queue, const ControllerOptions& options, Reconcile reconcile,
             Metrics* metrics = nullptr);
  ~Controller();

  void start();
  // Takes no more keys, and waits for those in work, `seconds` at most; true when all were done.
  bool stop(double seconds);

 private:
  void work();
  void reconcile_one(const std::string& key);

  WorkQueue& queue_;
  const ControllerOptions options_;
  const Reconcile reconcile_;
  Metrics* metrics_;
  std::atomic<int> active_{0};
  std::vector<std::thread> threads_;
};

}  // namespace muster::kube
