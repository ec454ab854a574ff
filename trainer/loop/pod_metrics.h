// A pod's metrics: ranks write them into memory that the launcher made before it forked them, and
// the launcher serves them all on one /metrics. No socket and no lock lies between.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/loop/metrics_log.h"

namespace muster::loop {

// Upper bounds of the step duration histogram, in seconds.
inline constexpr std::array<double, 12> step_buckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                        0.1,   0.25,   0.5,   1,    2.5,   10};

// One rank's slot. Written by that rank alone, read by the launcher: each value is atomic by
// itself.
struct RankMetrics {
  std::atomic<std::int64_t> rank{-1}, world_size{0}, generation{0}, step{0}, batch_share{0};
  std::atomic<double> loss{0}, learning_rate{0}, gradient_norm{0}, samples_per_second{0};
  std::atomic<double> validation_loss{0}, validation_accuracy{0};
  std::atomic<std::uint64_t> samples{0}, bytes_sent{0}, checkpoints{0}, checkpoint_failures{0};
  std::atomic<double> data{0}, forward{0}, backward{0}, communication{0}, optimizer{0};
  std::array<std::atomic<std::uint64_t>, step_buckets.size() + 1> step_counts{};
  std::atomic<double> step_seconds{0};

  void observe(const StepRecord& record, std::int64_t own_samples, std::uint64_t sent);
};

class PodMetrics {
 public:
  // Shared, anonymous memory for `ranks` slots: make it before fork().
  static Result<std::shared_ptr<PodMetrics>> create(int ranks);
  ~PodMetrics();
  RankMetrics& slot(int local_rank) { return slots_[local_rank]; }
  int size() const { return count_; }
  // The Prometheus text of all slots; histograms once a pod, gauges once a rank.
  std::string exposition() const;

 private:
  PodMetrics() = default;
  RankMetrics* slots_ = nullptr;
  int count_ = 0;
};

}  // namespace muster::loop
