// A model's parameters, gradients and moments as flat fp32 buffers of one layout.
//
// Every parameter starts at a multiple of 64 bytes; the padding is zero and stays zero. Parameters
// and their .grad are views into the buffers, for the life of the model: nothing may replace them.
// The gradient buffer lies in the arena, where peers of this machine reduce it in place.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/training_job.h"
#include "common/result.h"
#include "trainer/checkpoint/index.h"
#include "trainer/checkpoint/shard.h"
#include "trainer/comm/communicator.h"

namespace muster::strategy {

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

// fp32, on the CPU, in the given order.
checkpoint::Layout make_layout(const NamedParameters& parameters);

class FlatState {
 public:
  // Moves the parameters' values into the flat buffer and makes them views of it.
  static Result<std::unique_ptr<FlatState>> create(NamedParameters parameters,
                                                   const job::Optimizer& optimizer);

  const checkpoint::Layout& layout() const { return layout_; }
  const NamedParameters& parameters() const { return named_; }
  const std::shared_ptr<comm::Arena>& arena() const { return arena_; }
  torch::Tensor& values() { return values_; }
  torch::Tensor& gradients() { return gradients_; }
  // exp_avg and exp_avg_sq, or momentum_buffer; each [total].
  std::vector<std::pair<std::string, torch::Tensor>>& moments() { return moments_; }

  // "parameters" and the moments, for checkpoints and newcomers.
  std::vector<checkpoint::StateBuffer> buffers();
  void zero_gradients();
  // False when something replaced a parameter's storage or .grad.
  bool views_intact() const;
  // SHA-256 over the parameters' bytes in layout order, without padding.
  std::string parameters_sha256() const;

 private:
  FlatState() = default;
  checkpoint::Layout layout_;
  NamedParameters named_;
  std::shared_ptr<comm::Arena> arena_;
  torch::Tensor values_, gradients_;
  std::vector<std::pair<std::string, torch::Tensor>> moments_;
};

}  // namespace muster::strategy
