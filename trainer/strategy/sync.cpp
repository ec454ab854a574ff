#include "trainer/strategy/sync.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <bit>
#include <cmath>

#include "trainer/strategy/gradient_norm.h"
#include "trainer/strategy/optimizer.h"

namespace muster::strategy {

class Sync::ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(Sync& sync, int parameter) : sync_(sync), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable&) override { sync_.on_gradient(parameter_); }

 private:
  Sync& sync_;
  int parameter_;
};

Sync::Sync(FlatState& state, std::int64_t bucket_bytes)
    : state_(state),
      buckets_(make_buckets(state.layout(), first_bucket_bytes, bucket_bytes)),
      bucket_of_(state.parameters().size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const int p : buckets_[b].parameters) {
      bucket_of_[static_cast<std::size_t>(p)] = static_cast<int>(b);
    }
  }
  for (std::size_t p = 0; p < state.parameters().size(); ++p) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        state.parameters()[p].second, std::make_unique<ReadyHook>(*this, static_cast<int>(p)));
  }
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

Sync::~Sync() {
  for (const auto& [name, tensor] : state_.parameters()) {
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
  }
  thread_.request_stop();
}

void Sync::set_communicator(comm::Communicator* communicator) {
  const std::lock_guard lock(mutex_);
  communicator_ = communicator;
  failure_ = {};
}

void Sync::begin_step(comm::Deadline deadline) {
  state_.zero_gradients();
  missing_.clear();
  for (const auto& bucket : buckets_)
    missing_.push_back(static_cast<int>(bucket.parameters.size()));
  next_to_launch_ = 0;
  armed_ = false;
  const std::lock_guard lock(mutex_);
  finished_ = 0;
  deadline_ = deadline;
}

void Sync::backward(const torch::Tensor& loss_sum, bool last) {
  // Hooks count only on the last micro-batch: before it, gradients are partial.
  armed_ = last && communicator_->world_size() > 1;
  loss_sum.backward();
  armed_ = false;
}

void Sync::on_gradient(int parameter) {
  if (!armed_) return;
  --missing_[static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(parameter)])];
  launch_ready();
}

// Buckets leave in one order on all ranks: a later one waits for those before it.
void Sync::launch_ready() {
  bool launched = false;
  {
    const std::lock_guard lock(mutex_);
    while (next_to_launch_ < buckets_.size() && missing_[next_to_launch_] == 0) {
      queue_.push_back(next_to_launch_++);
      launched = true;
    }
  }
  if (launched) changed_.notify_all();
}

void Sync::run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    const auto bucket = queue_.front();
    const bool healthy = failure_.ok();
    lock.unlock();
    const Status status = healthy ? reduce_bucket(bucket) : Status();
    lock.lock();
    queue_.pop_front();
    if (!status.ok()) failure_ = status;
    ++finished_;
    changed_.notify_all();
  }
}

Status Sync::reduce_bucket(std::size_t bucket) {
  const auto& b = buckets_[bucket];
  return communicator_->all_reduce(state_.gradients().data_ptr<float>() + b.begin,
                                   static_cast<std::size_t>(b.end - b.begin), comm::DType::f32,
                                   deadline_);
}

Result<StepSums> Sync::reduce(const StepSums& local) {
  if (communicator_->world_size() == 1) return local;
  std::fill(missing_.begin(), missing_.end(), 0);
  launch_ready();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_ == buckets_.size(); });
    if (!failure_.ok()) return failure_.error();
  }
  return add_over_ranks(*communicator_, local, deadline_);
}

double Sync::gradient_norm() const {
  return std::sqrt(
      sum_of_squares(state_.gradients().const_data_ptr<float>(), state_.layout().total));
}

void Sync::commit(const job::Optimizer& optimizer, double learning_rate, double divisor,
                  std::int64_t step) {
  update(state_, optimizer, learning_rate, divisor, step);
}

Result<StepSums> add_over_ranks(comm::Communicator& communicator, const StepSums& local,
                                comm::Deadline deadline) {
  const std::int64_t mine[3] = {std::bit_cast<std::int64_t>(local.loss), local.units,
                                local.samples};
  const auto n = static_cast<std::size_t>(communicator.world_size());
  std::vector<std::int64_t> all(3 * n);
  const std::vector<std::size_t> counts(n, 3);
  MUSTER_CHECK_OK(communicator.all_gather(mine, all.data(), counts, comm::DType::i64, deadline));
  StepSums sums;
  for (std::size_t r = 0; r < n; ++r) {
    sums.loss += std::bit_cast<double>(all[3 * r]);
    sums.units += all[3 * r + 1];
    sums.samples += all[3 * r + 2];
  }
  return sums;
}

}  // namespace muster::strategy
