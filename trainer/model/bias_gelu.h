// gelu(x + bias) as one differentiable operation.
#pragma once

#include <torch/types.h>

namespace muster::model {

// x: [n, width], bias: [width]. The tanh approximation; the gradient is that of PyTorch's
// at::gelu(x + bias, "tanh") to within rounding. fp32 on the CPU takes Muster's kernel, everything
// else PyTorch's. Differentiable once.
torch::Tensor bias_gelu(const torch::Tensor& x, const torch::Tensor& bias);

}  // namespace muster::model
