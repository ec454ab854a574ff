// The models that Muster builds itself. A model turns a batch into a summed loss; it knows nothing
// of ranks, optimisers or files.
//
//   auto model = model::build(job.spec.model, sets.train->shape(), job.spec.training.seed);
//   auto losses = (*model)->loss(batch, /*count_correct=*/false);
//   (losses.sum / total_units).backward();
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/job/training_job.h"
#include "common/result.h"
#include "trainer/data/dataset.h"

namespace muster::model {

struct Losses {
  torch::Tensor sum;         // fp32 scalar: the loss summed over units, differentiable
  std::int64_t units = 0;    // samples, or tokens for language models
  std::int64_t correct = 0;  // classification and language models, when asked for: argmax hits
};

class Model {
 public:
  virtual ~Model() = default;

  // The summed loss of a batch. A batch of 0 samples gives a sum of 0 that has no gradient
  // (sum.requires_grad() is false): the caller skips its backward pass. The graph reads the batch's
  // memory in place: the batch must live, unchanged, until backward() has returned.
  virtual Losses loss(const data::Batch& batch, bool count_correct) = 0;

  // [samples, classes], [samples] for regression, or [samples, sequence_length, vocabulary_size].
  virtual torch::Tensor logits(const data::Batch& batch) = 0;

  // The leaves that are trained, named, in an order that depends on the specification alone. A
  // tensor that is used twice (a tied head) is there once.
  virtual std::vector<std::pair<std::string, torch::Tensor>> parameters() = 0;

  // What goes into export/config.json.
  virtual nlohmann::json config() const = 0;

  // What goes into export/model.safetensors, under the model's own names and layouts; a tied tensor
  // once. The tensors may share memory with the parameters and need not be contiguous.
  virtual std::vector<std::pair<std::string, torch::Tensor>> export_tensors() = 0;

  // Bytes that a byte-level language model continues `prompt` with; empty for every other model.
  // Draws from a generator of its own: training's random numbers stay as they are.
  virtual std::string sample(const std::string& prompt, std::int64_t tokens, std::uint64_t seed);
};

// Builds and initialises a model under torch::manual_seed(seed), with PyTorch's own random stream:
// Python code that builds the same modules in the same order after torch.manual_seed(seed) has the
// same bits. Errors: Code::invalid_job names the field; Code::unsupported for models of later
// versions.
Result<std::unique_ptr<Model>> build(const job::Model& spec, const data::Shape& shape,
                                     std::int64_t seed);

}  // namespace muster::model
