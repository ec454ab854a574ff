// Synchronous data parallelism: every rank accumulates the gradient of the sum of its samples'
// losses; buckets are all-reduced while backward still runs, on the last micro-batch only; the
// global count divides once.
//
//   sync.begin_step();
//   for each micro-batch: sync.backward(loss_sum, is_last);
//   auto sums = sync.reduce(local, deadline);     // after it, all ranks hold the summed gradient
//   sync.commit(learning_rate, divisor, step);    // the only thing that changes parameters
//
// Guarantees: nothing is changed before reduce() has succeeded, and its success proves that every
// rank contributed. A rank with share 0, or with parameters that took no part, joins with zeros.
#pragma once

#include <torch/torch.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/strategy/buckets.h"
#include "trainer/strategy/flat_state.h"

namespace muster::strategy {

// What a rank computed in a step, and after reduce() what all did together.
struct StepSums {
  double loss = 0;         // sum over units
  std::int64_t units = 0;  // samples or tokens
  std::int64_t samples = 0;
};

class Sync {
 public:
  // `state` outlives this object.
  Sync(FlatState& state, std::int64_t bucket_bytes);
  ~Sync();
  Sync(const Sync&) = delete;
  Sync& operator=(const Sync&) = delete;

  // The communicator of the next steps; it outlives them.
  void set_communicator(comm::Communicator* communicator);

  void begin_step(comm::Deadline deadline);
  void backward(const torch::Tensor& loss_sum, bool last);
  // Launches what no hook has launched, waits for all of it. Errors: the communicator's.
  Result<StepSums> reduce(const StepSums& local);
  // Norm of the summed gradient (before the division).
  double gradient_norm() const;
  void commit(const job::Optimizer& optimizer, double learning_rate, double divisor,
              std::int64_t step);

 private:
  class ReadyHook;
  void on_gradient(int parameter);
  void launch_ready();
  void run(std::stop_token stop);
  Status reduce_bucket(std::size_t bucket);

  FlatState& state_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by parameter
  std::vector<int> missing_;    // gradients that a bucket still waits for
  std::size_t next_to_launch_ = 0;
  bool armed_ = false;
  comm::Communicator* communicator_ = nullptr;
  comm::Deadline deadline_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::size_t> queue_;
  std::size_t finished_ = 0;
  Status failure_;
  std::jthread thread_;  // last: it uses all of the above
};

// Adds the ranks' sums in rank order, exactly alike on every rank.
Result<StepSums> add_over_ranks(comm::Communicator& communicator, const StepSums& local,
                                comm::Deadline deadline);

}  // namespace muster::strategy
