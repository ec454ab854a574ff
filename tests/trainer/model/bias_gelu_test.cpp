#include "trainer/model/bias_gelu.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

namespace muster::model {
namespace {

TEST(BiasGelu, EqualsTheFormulaInDoublePrecision) {
  // The range where float behaves differently from end to end: saturated, cancelling, tiny.
  const auto x = torch::linspace(-30, 30, 60001).view({-1, 1});
  const auto bias = torch::zeros({1});
  const auto expected = at::gelu(x.to(torch::kDouble), "tanh");
  const auto distance = (bias_gelu(x, bias).to(torch::kDouble) - expected).abs();
  const auto allowed = expected.abs() * 2e-6 + 1e-12;
  EXPECT_TRUE(distance.le(allowed).all().item<bool>()) << (distance / allowed).max();
}

TEST(BiasGelu, GradientsEqualThoseInDoublePrecision) {
  torch::manual_seed(1);
  for (const std::int64_t rows : {1, 3, 700}) {  // below and above what goes to several threads
    const auto x = (torch::randn({rows, 101}) * 3).set_requires_grad(true);
    const auto bias = torch::randn({101}).set_requires_grad(true);
    const auto weights = torch::randn({rows, 101});
    const auto ours = torch::autograd::grad({bias_gelu(x, bias)}, {x, bias}, {weights});
    const auto exact_x = x.detach().to(torch::kDouble).set_requires_grad(true);
    const auto exact_bias = bias.detach().to(torch::kDouble).set_requires_grad(true);
    const auto exact = torch::autograd::grad({at::gelu(exact_x + exact_bias, "tanh")},
                                             {exact_x, exact_bias}, {weights.to(torch::kDouble)});
    EXPECT_TRUE(ours[0].to(torch::kDouble).allclose(exact[0], 1e-5, 2e-6));
    EXPECT_TRUE(ours[1].to(torch::kDouble).allclose(exact[1], 1e-5, 2e-5));
  }
}

TEST(BiasGelu, TakesGradientsThatAreNotContiguous) {
  const auto x = torch::randn({4, 6}).set_requires_grad(true);
  const auto bias = torch::zeros({6});
  const auto weights = torch::randn({6, 4});
  const auto ours = torch::autograd::grad({bias_gelu(x, bias).t()}, {x}, {weights});
  const auto theirs = torch::autograd::grad({at::gelu(x, "tanh").t()}, {x}, {weights});
  EXPECT_TRUE(ours[0].allclose(theirs[0], 1e-5, 1e-5));
}

TEST(BiasGelu, KeepsWhatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = bias_gelu(torch::tensor({{nan, 1e30F, -1e30F}}), torch::zeros({3}));
  EXPECT_TRUE(y[0][0].isnan().item<bool>());
  EXPECT_EQ(y[0][1].item<float>(), 1e30F);
  EXPECT_NEAR(y[0][2].item<float>(), 0, 1e-6);
}

TEST(BiasGelu, OtherTypesTakePyTorchsKernel) {
  const auto x = torch::randn({4, 6}, torch::kDouble);
  const auto bias = torch::randn({6}, torch::kDouble);
  EXPECT_TRUE(bias_gelu(x, bias).equal(at::gelu(x + bias, "tanh")));
}

}  // namespace
}  // namespace muster::model
