// x W + b as one differentiable operation: the matrix products that a transformer spends its time
// in.
#pragma once

#include <torch/types.h>

namespace muster::model {

// How a weight lies in memory: GPT-2's checkpoints have [in, out], torch.nn.Linear has [out, in].
enum class WeightLayout { in_out, out_in };

// x: [n, in]; bias: [out] or undefined. Returns [n, out]. fp32 on a CPU where oneDNN is the faster
// library (see below) is computed by it, everything else by PyTorch's addmm; the two agree to
// within rounding. Differentiable once.
torch::Tensor project(const torch::Tensor& x, const torch::Tensor& weight, WeightLayout layout,
                      const torch::Tensor& bias = {});

// residual + x W + b, without a pass over memory of its own. residual: [n, out].
torch::Tensor project_onto(const torch::Tensor& residual, const torch::Tensor& x,
                           const torch::Tensor& weight, WeightLayout layout,
                           const torch::Tensor& bias);

// Whether oneDNN computes the products on this machine. MKL, which PyTorch uses, takes its AVX-512
// kernels on Intel's processors alone; elsewhere oneDNN is about a fifth faster.
bool onednn_is_faster();

}  // namespace muster::model
