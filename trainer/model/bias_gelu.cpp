#include "trainer/model/bias_gelu.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "trainer/model/gelu_kernel.h"

namespace muster::model {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& bias) {
    context->save_for_backward({x, bias});
    const std::int64_t width = x.size(1);
    torch::Tensor y = torch::empty_like(x);
    const float* in = x.const_data_ptr<float>();
    const float* shift = bias.const_data_ptr<float>();
    float* out = y.mutable_data_ptr<float>();
    at::parallel_for(0, x.size(0), kGrain / width + 1, [&](std::int64_t begin, std::int64_t end) {
      bias_gelu_forward(in + begin * width, shift, out + begin * width, end - begin, width);
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outer_gradients) {
    const auto saved = context->get_saved_variables();
    const std::int64_t width = saved[0].size(1);
    const torch::Tensor outer = outer_gradients[0].contiguous();
    torch::Tensor gradient = torch::empty_like(saved[0]);
    const float* in = saved[0].const_data_ptr<float>();
    const float* shift = saved[1].const_data_ptr<float>();
    const float* from = outer.const_data_ptr<float>();
    float* to = gradient.mutable_data_ptr<float>();
    at::parallel_for(0, outer.size(0), kGrain / width + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       bias_gelu_backward(in + begin * width, shift, from + begin * width,
                                          to + begin * width, end - begin, width);
                     });
    return {gradient, gradient.sum(0)};
  }
};

bool fits_kernel(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat &&
         tensor.is_contiguous();
}

}  // namespace

torch::Tensor bias_gelu(const torch::Tensor& x, const torch::Tensor& bias) {
  if (x.dim() == 2 && fits_kernel(x) && fits_kernel(bias)) return BiasGelu::apply(x, bias);
  return at::gelu(x + bias, "tanh");
}

}  // namespace muster::model
