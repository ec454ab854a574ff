#include "trainer/loop/step_plan.h"

#include <algorithm>

namespace muster::loop {

Run make_run(const job::Training& training, std::int64_t dataset_size, std::int64_t global_batch) {
  Run run{dataset_size, global_batch, 0, 0};
  if (training.steps) {
    run.total_steps = *training.steps;
    run.total_samples = *training.steps * global_batch;
  } else {
    run.total_samples = training.epochs.value_or(1) * dataset_size;
    run.total_steps = (run.total_samples + global_batch - 1) / global_batch;
  }
  return run;
}

Range step_range(const Run& run, std::int64_t step) {
  const auto begin = std::min(step * run.global_batch, run.total_samples);
  return {begin, std::min(begin + run.global_batch, run.total_samples)};
}

Range rank_range(const Run& run, std::int64_t step, std::span<const std::int64_t> shares,
                 int rank) {
  const auto all = step_range(run, step);
  auto begin = all.begin;
  for (int r = 0; r < rank; ++r) begin += shares[static_cast<std::size_t>(r)];
  const auto end = begin + shares[static_cast<std::size_t>(rank)];
  return {std::min(begin, all.end), std::min(end, all.end)};
}

std::vector<Range> micro_batches(const job::Training& training, Range mine) {
  std::vector<Range> parts;
  const auto accumulation = std::max<std::int64_t>(1, training.gradient_accumulation_steps);
  const auto size =
      training.micro_batch_size.value_or((mine.size() + accumulation - 1) / accumulation);
  for (auto begin = mine.begin; begin < mine.end; begin += size) {
    parts.push_back({begin, std::min(begin + size, mine.end)});
  }
  return parts;
}

bool validation_due(const Run& run, const job::Training& training, std::int64_t steps) {
  if (steps == 0) return false;
  if (steps == run.total_steps) return true;
  if (training.validate_every_steps > 0) return steps % training.validate_every_steps == 0;
  const auto before = step_range(run, steps - 1);
  return before.begin / run.dataset_size != before.end / run.dataset_size;
}

bool checkpoint_due(const job::Checkpoint& checkpoint, std::int64_t steps) {
  return checkpoint.every_steps > 0 && steps > 0 && steps % checkpoint.every_steps == 0;
}

Range part(std::int64_t count, int rank, int world_size) {
  return {count * rank / world_size, count * (rank + 1) / world_size};
}

}  // namespace muster::loop
