#include "trainer/loop/pod_metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

namespace muster::loop {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric labelled(const RankMetrics& slot) {
  ClientMetric metric;
  metric.label.push_back({"rank", std::to_string(slot.rank.load())});
  return metric;
}

struct Gauge {
  const char* name;
  const char* help;
  std::function<double(const RankMetrics&)> value;
};

const std::vector<Gauge>& gauges() {
  static const std::vector<Gauge> all = {
      {"muster_trainer_step", "Steps committed.", [](auto& s) { return double(s.step); }},
      {"muster_trainer_generation", "Number of the membership that this rank trains in.",
       [](auto& s) { return double(s.generation); }},
      {"muster_trainer_world_size", "Ranks of the generation.",
       [](auto& s) { return double(s.world_size); }},
      {"muster_trainer_batch_share", "Samples of the global batch that this rank takes.",
       [](auto& s) { return double(s.batch_share); }},
      {"muster_trainer_loss", "Loss of the last step, mean over its samples or tokens.",
       [](auto& s) { return s.loss.load(); }},
      {"muster_trainer_learning_rate", "Learning rate of the last step.",
       [](auto& s) { return s.learning_rate.load(); }},
      {"muster_trainer_gradient_norm", "2-norm of the last step's gradient, before clipping.",
       [](auto& s) { return s.gradient_norm.load(); }},
      {"muster_trainer_samples_per_second", "Speed of the last step over all ranks.",
       [](auto& s) { return s.samples_per_second.load(); }},
      {"muster_trainer_validation_loss", "Loss of the last validation.",
       [](auto& s) { return s.validation_loss.load(); }},
      {"muster_trainer_validation_accuracy", "Accuracy of the last validation.",
       [](auto& s) { return s.validation_accuracy.load(); }},
  };
  return all;
}

const std::vector<Gauge>& counters() {
  static const std::vector<Gauge> all = {
      {"muster_trainer_samples_total", "Samples that this rank has trained on.",
       [](auto& s) { return double(s.samples); }},
      {"muster_trainer_communication_bytes_total",
       "Payload bytes that this rank gave to its peers.",
       [](auto& s) { return double(s.bytes_sent); }},
      {"muster_trainer_checkpoints_total", "Checkpoint shards that this rank has written.",
       [](auto& s) { return double(s.checkpoints); }},
      {"muster_trainer_checkpoint_failures_total", "Checkpoint shards that could not be written.",
       [](auto& s) { return double(s.checkpoint_failures); }},
  };
  return all;
}

MetricFamily split_family(const RankMetrics* slots, int count) {
  MetricFamily family{"muster_trainer_step_phase_seconds_total",
                      "Seconds of all steps by phase; together they are the step.",
                      MetricType::Counter,
                      {}};
  for (int i = 0; i < count; ++i) {
    const auto& s = slots[i];
    const std::pair<const char*, double> phases[] = {{"data", s.data},
                                                     {"forward", s.forward},
                                                     {"backward", s.backward},
                                                     {"communication", s.communication},
                                                     {"optimizer", s.optimizer}};
    for (const auto& [phase, seconds] : phases) {
      auto metric = labelled(s);
      metric.label.push_back({"phase", phase});
      metric.counter.value = seconds;
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

MetricFamily duration_family(const RankMetrics* slots, int count) {
  MetricFamily family{"muster_trainer_step_duration_seconds",
                      "Duration of a step, over the ranks of this pod.",
                      MetricType::Histogram,
                      {}};
  ClientMetric metric;
  std::uint64_t cumulative = 0;
  for (std::size_t b = 0; b <= step_buckets.size(); ++b) {
    for (int i = 0; i < count; ++i) cumulative += slots[i].step_counts[b];
    const double bound =
        b < step_buckets.size() ? step_buckets[b] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({cumulative, bound});
  }
  metric.histogram.sample_count = cumulative;
  for (int i = 0; i < count; ++i) metric.histogram.sample_sum += slots[i].step_seconds;
  family.metric.push_back(std::move(metric));
  return family;
}

}  // namespace

void RankMetrics::observe(const StepRecord& r, std::int64_t own_samples, std::uint64_t sent) {
  step = r.step;
  loss = r.loss;
  learning_rate = r.learning_rate;
  gradient_norm = r.gradient_norm;
  samples_per_second = r.samples_per_second;
  samples += static_cast<std::uint64_t>(own_samples);
  bytes_sent = sent;
  // One writer: load and store need no exchange.
  const auto add = [](std::atomic<double>& to, double value) { to = to + value; };
  add(data, r.seconds.data);
  add(forward, r.seconds.forward);
  add(backward, r.seconds.backward);
  add(communication, r.seconds.communication);
  add(optimizer, r.seconds.optimizer);
  const double total = r.seconds.total();
  std::size_t bucket = 0;
  while (bucket < step_buckets.size() && total > step_buckets[bucket]) ++bucket;
  ++step_counts[bucket];
  add(step_seconds, total);
}

Result<std::shared_ptr<PodMetrics>> PodMetrics::create(int ranks) {
  const auto bytes = sizeof(RankMetrics) * static_cast<std::size_t>(ranks);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{Code::io, std::string("cannot map the metrics' memory: ") + std::strerror(errno)};
  }
  auto pod = std::shared_ptr<PodMetrics>(new PodMetrics());
  pod->slots_ = static_cast<RankMetrics*>(memory);
  pod->count_ = ranks;
  for (int i = 0; i < ranks; ++i) new (pod->slots_ + i) RankMetrics();
  return pod;
}

PodMetrics::~PodMetrics() {
  ::munmap(slots_, sizeof(RankMetrics) * static_cast<std::size_t>(count_));
}

std::string PodMetrics::exposition() const {
  std::vector<MetricFamily> families;
  for (const auto& gauge : gauges()) {
    MetricFamily family{gauge.name, gauge.help, MetricType::Gauge, {}};
    for (int i = 0; i < count_; ++i) {
      auto metric = labelled(slots_[i]);
      metric.gauge.value = gauge.value(slots_[i]);
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  for (const auto& counter : counters()) {
    MetricFamily family{counter.name, counter.help, MetricType::Counter, {}};
    for (int i = 0; i < count_; ++i) {
      auto metric = labelled(slots_[i]);
      metric.counter.value = counter.value(slots_[i]);
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  families.push_back(split_family(slots_, count_));
  families.push_back(duration_family(slots_, count_));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace muster::loop
