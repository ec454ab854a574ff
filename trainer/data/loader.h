// Reads micro-batches on a thread of its own, ahead of the training loop, in the order of the plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/data/dataset.h"

namespace muster::data {

// One micro-batch: samples [begin, end) of the run, by cursor.
struct MicroBatch {
  std::int64_t step = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const MicroBatch&) const = default;
};

class Loader {
 public:
  // `plan` returns the next micro-batch to read, or nothing at the end; called on the loader's
  // thread.
  using Plan = std::function<std::optional<MicroBatch>()>;
  Loader(const Dataset& dataset, std::uint64_t seed, std::size_t depth = 4);
  ~Loader();
  // Drops what was read ahead and starts on a new plan: at the start, and after each change of
  // split.
  void start(Plan plan);
  // The next micro-batch of the plan; valid until the next call. Waits for it when it is not there
  // yet. An empty micro-batch (begin == end) gives a batch of 0 samples and takes none of the plan.
  // Errors: those of the data set; Code::internal past the plan's end, before a plan, and when the
  // plan's next is not `expected`.
  Result<const Batch*> next(const MicroBatch& expected);
  // Seconds that next() has waited, since construction.
  double waited_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::data
