#include "trainer/model/projection.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <cpuid.h>
#include <torch/torch.h>

#include <cstring>

namespace muster::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool made_by_intel() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  char vendor[13] = {};
  std::memcpy(vendor, &ebx, 4);
  std::memcpy(vendor + 4, &edx, 4);
  std::memcpy(vendor + 8, &ecx, 4);
  return std::strcmp(vendor, "GenuineIntel") == 0;
}

// x W^T + b by oneDNN, any strides; W: [out, in].
Tensor onednn_linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  using Signature =
      Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&, c10::string_view,
             c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>);
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                    .typed<Signature>();
  return operation.call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

// The same with `other` added.
Tensor onednn_linear_onto(const Tensor& other, const Tensor& x, const Tensor& weight,
                          const std::optional<Tensor>& bias) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&,
                           const std::optional<Tensor>&, c10::string_view);
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_linear_pointwise", "binary")
                                    .typed<Signature>();
  return operation.call(x, other, weight, bias, "add");
}

std::optional<Tensor> given(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

class Projection : public torch::autograd::Function<Projection> {
 public:
  static Tensor forward(AutogradContext* context, const std::optional<Tensor>& residual,
                        const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                        bool in_out) {
    context->save_for_backward({x, weight});
    context->saved_data["in_out"] = in_out;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["residual"] = residual.has_value();
    const Tensor rows = in_out ? weight.t() : weight;
    return residual ? onednn_linear_onto(*residual, x, rows, bias) : onednn_linear(x, rows, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const auto saved = context->get_saved_variables();
    const bool in_out = context->saved_data["in_out"].toBool();
    const Tensor dy = outer[0].contiguous();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    Tensor dx, db;
    if (context->needs_input_grad(1)) dx = onednn_linear(dy, in_out ? weight : weight.t(), {});
    const Tensor dw = in_out ? onednn_linear(x.t(), dy.t(), {}) : onednn_linear(dy.t(), x.t(), {});
    if (context->saved_data["bias"].toBool()) db = dy.sum(0);
    return {context->saved_data["residual"].toBool() ? dy : Tensor(), dx, dw, db, Tensor()};
  }
};

bool by_onednn(const Tensor& x) {
  static const bool faster = onednn_is_faster();
  return faster && x.device().is_cpu() && x.scalar_type() == torch::kFloat && x.dim() == 2;
}

}  // namespace

bool onednn_is_faster() {
  return at::globalContext().hasMKLDNN() && at::globalContext().userEnabledMkldnn() &&
         !made_by_intel();
}

Tensor project(const Tensor& x, const Tensor& weight, WeightLayout layout, const Tensor& bias) {
  const bool in_out = layout == WeightLayout::in_out;
  if (by_onednn(x))
    return Projection::apply(std::optional<Tensor>(), x, weight, given(bias), in_out);
  const Tensor columns = in_out ? weight : weight.t();
  return bias.defined() ? at::addmm(bias, x, columns) : at::mm(x, columns);
}

Tensor project_onto(const Tensor& residual, const Tensor& x, const Tensor& weight,
                    WeightLayout layout, const Tensor& bias) {
  const bool in_out = layout == WeightLayout::in_out;
  if (by_onednn(x)) return Projection::apply(given(residual), x, weight, given(bias), in_out);
  return (residual + bias).addmm_(x, in_out ? weight : weight.t());
}

}  // namespace muster::model
