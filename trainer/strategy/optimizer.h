// One update of the flat parameters by Torch's fused kernels (AdamW, Adam, SGD with momentum), with
// the semantics of torch.optim: AdamW's decay is decoupled, the others add it to the gradient.
#pragma once

#include <torch/torch.h>

#include "common/job/training_job.h"
#include "trainer/strategy/flat_state.h"

namespace muster::strategy {

// gradients hold sums; they are divided by `divisor` once, inside the kernel, in fp32. `step`
// counts from 1 and is the bias correction's exponent.
void update(FlatState& state, const job::Optimizer& optimizer, double learning_rate, double divisor,
            std::int64_t step);

}  // namespace muster::strategy
