#include <cmath>
#include <numeric>

#include "trainer/loop/trainer.h"

namespace muster::loop {
namespace {

std::vector<std::int64_t> chunk_indices(const data::Dataset& dataset, std::int64_t chunk,
                                        std::int64_t size) {
  const auto begin = chunk * size;
  const auto end = std::min(begin + size, dataset.size());
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

}  // namespace

// The set is cut into chunks of one micro-batch, whatever the world size, and ranks take whole
// chunks: every chunk is computed alike by whoever computes it.
Result<Validation> validate_over_ranks(model::Model& model, const data::Dataset& dataset,
                                       comm::Communicator& communicator, std::int64_t micro_batch,
                                       std::chrono::steady_clock::duration timeout) {
  const torch::NoGradGuard no_grad;
  const auto size = std::max<std::int64_t>(1, micro_batch);
  const auto chunks = (dataset.size() + size - 1) / size;
  const auto mine = part(chunks, communicator.rank(), communicator.world_size());
  const bool classifies = dataset.shape().task != data::Task::regression;
  strategy::StepSums local;
  data::Batch batch;
  for (auto chunk = mine.begin; chunk < mine.end; ++chunk) {
    MUSTER_CHECK_OK(dataset.read(chunk_indices(dataset, chunk, size), batch));
    const auto losses = model.loss(batch, classifies);
    local.loss += losses.sum.item<double>();
    local.units += losses.units;
    local.samples += losses.correct;
  }
  strategy::StepSums sums = local;
  if (communicator.world_size() > 1) {
    MUSTER_TRY(added, strategy::add_over_ranks(communicator, local, comm::in(timeout)));
    sums = added;
  }
  const auto units = static_cast<double>(std::max<std::int64_t>(1, sums.units));
  return Validation{sums.loss / units,
                    classifies ? static_cast<double>(sums.samples) / units : std::nan("")};
}

}  // namespace muster::loop
