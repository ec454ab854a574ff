// Which samples a step, a rank and a micro-batch take: arithmetic on (run, step, shares), no state.
//
// A run is the samples [0, total_samples) by cursor; step k takes [k * B, (k + 1) * B), its last
// one what is left. Within a step the ranks' shares lie one after the other in rank order, so the
// union is the same for every split.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/job/training_job.h"

namespace muster::loop {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Run {
  std::int64_t dataset_size = 0;
  std::int64_t global_batch = 0;   // samples a step
  std::int64_t total_samples = 0;  // of the whole run
  std::int64_t total_steps = 0;
};

// Exactly one of training.epochs and steps is set; sizes are positive.
Run make_run(const job::Training& training, std::int64_t dataset_size, std::int64_t global_batch);

Range step_range(const Run& run, std::int64_t step);
// shares sum to run.global_batch.
Range rank_range(const Run& run, std::int64_t step, std::span<const std::int64_t> shares, int rank);
// At most microBatchSize samples each, or as many micro-batches as gradientAccumulationSteps.
// Nothing for an empty range.
std::vector<Range> micro_batches(const job::Training& training, Range mine);

// After `steps` committed steps: is a validation due? (every validateEverySteps; without it at the
// end of each epoch; always at the end)
bool validation_due(const Run& run, const job::Training& training, std::int64_t steps);
bool checkpoint_due(const job::Checkpoint& checkpoint, std::int64_t steps);

// Part `rank` of [0, count), in equal contiguous parts.
Range part(std::int64_t count, int rank, int world_size);

}  // namespace muster::loop
