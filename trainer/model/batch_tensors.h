// A batch's memory as tensors, without copying: they are valid as long as the batch is unchanged.
#pragma once

#include <torch/types.h>

#include "trainer/data/dataset.h"

namespace muster::model {

torch::Tensor numbers_of(const data::Batch& batch);     // fp32 [samples, number_columns]
torch::Tensor categories_of(const data::Batch& batch);  // int64 [samples, category_columns]
torch::Tensor classes_of(const data::Batch& batch);     // int64 [samples]
torch::Tensor values_of(const data::Batch& batch);      // fp32 [samples]
torch::Tensor tokens_of(const data::Batch& batch);      // int64 [samples, sequence_length + 1]

// How often the largest logit is the target's: logits [n, classes], targets [n].
std::int64_t count_hits(const torch::Tensor& logits, const torch::Tensor& targets);

}  // namespace muster::model
