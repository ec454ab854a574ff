#include "trainer/model/batch_tensors.h"

#include <torch/torch.h>

namespace muster::model {
namespace {

template <class T>
torch::Tensor rows(const std::vector<T>& memory, std::int64_t samples) {
  const auto type = c10::CppTypeToScalarType<T>::value;
  const auto size = static_cast<std::int64_t>(memory.size());
  if (samples == 0 || size == 0) return torch::empty({samples, 0}, type);
  // Torch has no tensors of constant memory; nothing here writes into them.
  return torch::from_blob(const_cast<T*>(memory.data()), {samples, size / samples}, type);
}

}  // namespace

torch::Tensor numbers_of(const data::Batch& batch) {
  return rows(batch.numbers, batch.samples);
}
torch::Tensor categories_of(const data::Batch& batch) {
  return rows(batch.categories, batch.samples);
}
torch::Tensor classes_of(const data::Batch& batch) {
  return rows(batch.classes, batch.samples).flatten();
}
torch::Tensor values_of(const data::Batch& batch) {
  return rows(batch.values, batch.samples).flatten();
}
torch::Tensor tokens_of(const data::Batch& batch) {
  return rows(batch.tokens, batch.samples);
}

std::int64_t count_hits(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::NoGradGuard no_grad;
  return logits.argmax(-1).eq(targets).sum().item<std::int64_t>();
}

}  // namespace muster::model
