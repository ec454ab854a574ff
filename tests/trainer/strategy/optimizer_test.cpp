#include "trainer/strategy/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::strategy {
namespace {

// The flat update beside torch.optim's own classes over separate tensors.
void compare(const job::Optimizer& ours, torch::optim::Optimizer& theirs,
             std::vector<torch::Tensor>& reference, FlatState& state) {
  for (int step = 1; step <= 10; ++step) {
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const auto gradient = torch::randn_like(reference[i]);
      reference[i].mutable_grad() = gradient.clone();
      state.parameters()[i].second.mutable_grad().copy_(gradient * 8);
    }
    theirs.step();
    update(state, ours, ours.learning_rate, 8, step);
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    EXPECT_TRUE(torch::allclose(state.parameters()[i].second, reference[i], 1e-5, 1e-6));
  }
  EXPECT_TRUE(state.views_intact());
}

struct Pair {
  explicit Pair(const job::Optimizer& optimizer) {
    torch::manual_seed(3);
    NamedParameters named;
    for (const auto n : {1, 15, 16, 17, 1007}) {
      reference.push_back(torch::randn({n}).requires_grad_());
      named.emplace_back("p" + std::to_string(n),
                         reference.back().detach().clone().requires_grad_());
    }
    state = *FlatState::create(named, optimizer);
  }
  std::vector<torch::Tensor> reference;
  std::unique_ptr<FlatState> state;
};

TEST(Optimizer, AdamWEqualsTorch) {
  job::Optimizer o;
  o.learning_rate = 0.01;
  o.weight_decay = 0.1;
  Pair pair(o);
  torch::optim::AdamW theirs(pair.reference, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  compare(o, theirs, pair.reference, *pair.state);
}

TEST(Optimizer, AdamEqualsTorch) {
  job::Optimizer o;
  o.type = "adam";
  o.learning_rate = 0.01;
  o.weight_decay = 0.1;
  Pair pair(o);
  torch::optim::Adam theirs(pair.reference, torch::optim::AdamOptions(0.01).weight_decay(0.1));
  compare(o, theirs, pair.reference, *pair.state);
}

TEST(Optimizer, SgdWithMomentumAndWithoutEqualsTorch) {
  for (const double momentum : {0.9, 0.0}) {
    job::Optimizer o;
    o.type = "sgd";
    o.learning_rate = 0.01;
    o.momentum = momentum;
    o.weight_decay = 0.1;
    Pair pair(o);
    torch::optim::SGD theirs(pair.reference,
                             torch::optim::SGDOptions(0.01).momentum(momentum).weight_decay(0.1));
    compare(o, theirs, pair.reference, *pair.state);
  }
}

TEST(Optimizer, PaddingStaysZero) {
  job::Optimizer o;
  o.weight_decay = 0.1;
  Pair pair(o);
  pair.state->zero_gradients();
  update(*pair.state, o, 0.1, 4, 1);
  EXPECT_EQ(pair.state->values().narrow(0, 1, 15).abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace muster::strategy
