#include "trainer/model/projection.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::model {
namespace {

using torch::Tensor;

struct Case {
  std::int64_t rows, in, out;
  bool bias, residual;
  WeightLayout layout;
};

Tensor exact(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
             WeightLayout layout) {
  auto y = x.mm(layout == WeightLayout::in_out ? weight : weight.t());
  if (bias.defined()) y = y + bias;
  return residual.defined() ? y + residual : y;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto layout : {WeightLayout::in_out, WeightLayout::out_in}) {
    for (const std::int64_t rows : {1, 7, 64}) {
      all.push_back({rows, 24, 40, true, true, layout});
      all.push_back({rows, 24, 40, true, false, layout});
      all.push_back({rows, 33, 5, false, false, layout});
    }
  }
  return all;
}

TEST(Projection, ValuesAndGradientsEqualThoseInDoublePrecision) {
  torch::manual_seed(1);
  for (const auto& c : cases()) {
    const bool in_out = c.layout == WeightLayout::in_out;
    std::vector<Tensor> leaves{torch::randn({c.rows, c.in}),
                               in_out ? torch::randn({c.in, c.out}) : torch::randn({c.out, c.in})};
    if (c.bias) leaves.push_back(torch::randn({c.out}));
    if (c.residual) leaves.push_back(torch::randn({c.rows, c.out}));
    std::vector<Tensor> doubles;
    for (auto& leaf : leaves) {
      leaf.set_requires_grad(true);
      doubles.push_back(leaf.detach().to(torch::kDouble).set_requires_grad(true));
    }
    const auto bias = [&](auto& from) { return c.bias ? from[2] : Tensor(); };
    const auto residual = [&](auto& from) { return c.residual ? from[3] : Tensor(); };
    const auto y = c.residual ? project_onto(leaves[3], leaves[0], leaves[1], c.layout, leaves[2])
                              : project(leaves[0], leaves[1], c.layout, bias(leaves));
    const auto z = exact(doubles[0], doubles[1], bias(doubles), residual(doubles), c.layout);
    EXPECT_TRUE(y.to(torch::kDouble).allclose(z, 1e-5, 1e-5));
    const auto weights = torch::randn(y.sizes());
    const auto ours = torch::autograd::grad({y}, leaves, {weights});
    const auto theirs = torch::autograd::grad({z}, doubles, {weights.to(torch::kDouble)});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(ours[i].sizes(), leaves[i].sizes());
      EXPECT_TRUE(ours[i].to(torch::kDouble).allclose(theirs[i], 1e-5, 1e-5)) << i;
    }
  }
}

TEST(Projection, AnInputWithoutGradientGetsNone) {
  const auto x = torch::randn({3, 4});
  const auto weight = torch::randn({4, 5}).set_requires_grad(true);
  project(x, weight, WeightLayout::in_out).sum().backward();
  EXPECT_TRUE(weight.grad().allclose(x.sum(0).unsqueeze(1).expand({4, 5})));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Projection, TheSameBitsEachTime) {
  torch::manual_seed(2);
  const auto x = torch::randn({64, 48}), weight = torch::randn({48, 96});
  const auto first = project(x, weight, WeightLayout::in_out);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(project(x.clone(), weight.clone(), WeightLayout::in_out).equal(first));
  }
}

TEST(Projection, OtherTypesTakePyTorchsKernel) {
  const auto x = torch::randn({3, 4}, torch::kDouble);
  const auto weight = torch::randn({4, 5}, torch::kDouble);
  EXPECT_TRUE(project(x, weight, WeightLayout::in_out).equal(x.mm(weight)));
}

}  // namespace
}  // namespace muster::model
