#include "trainer/strategy/optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

namespace muster::strategy {

void update(FlatState& state, const job::Optimizer& optimizer, double learning_rate, double divisor,
            std::int64_t step) {
  torch::NoGradGuard no_grad;
  const std::optional<torch::Tensor> scale = torch::tensor(static_cast<float>(divisor));
  std::vector<torch::Tensor> values{state.values()}, gradients{state.gradients()};
  std::vector<torch::Tensor> first, second;
  if (!state.moments().empty()) first.push_back(state.moments()[0].second);
  if (state.moments().size() > 1) second.push_back(state.moments()[1].second);
  if (optimizer.type == "sgd") {
    // A zeroed momentum buffer makes the first step like the others: 0 * momentum + gradient.
    at::_fused_sgd_(values, gradients, first, optimizer.weight_decay,
                    first.empty() ? 0.0 : optimizer.momentum, learning_rate, /*dampening=*/0.0,
                    /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, scale);
    return;
  }
  std::vector<torch::Tensor> steps{torch::tensor(static_cast<float>(step))};
  const double beta1 = optimizer.betas[0], beta2 = optimizer.betas[1];
  const auto fused = [&](auto kernel) {
    kernel(values, gradients, first, second, std::vector<torch::Tensor>{}, steps, learning_rate,
           beta1, beta2, optimizer.weight_decay, optimizer.epsilon, /*amsgrad=*/false,
           /*maximize=*/false, scale);
  };
  if (optimizer.type == "adam") {
    fused([](auto&&... a) { at::_fused_adam_(a...); });
  } else {
    fused([](auto&&... a) { at::_fused_adamw_(a...); });
  }
}

}  // namespace muster::strategy
