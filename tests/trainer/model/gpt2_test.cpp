#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "tests/trainer/model/small_shapes.h"
#include "trainer/model/model.h"

namespace muster::model {
namespace {

using testing::HasSubstr;

job::Model gpt2(nlohmann::json config = nlohmann::json::object()) {
  const nlohmann::json small = {{"layers", 2}, {"heads", 2}, {"hidden", 16}};
  for (const auto& [key, value] : small.items()) {
    if (!config.contains(key)) config[key] = value;
  }
  job::Model spec;
  spec.builtin = job::Model::Builtin{"gpt2", config};
  return spec;
}

std::unique_ptr<Model> must_build(const job::Model& spec, const data::Shape& shape) {
  auto model = build(spec, shape, 3);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *std::move(model);
}

TEST(Gpt2, NamesAndLayoutsAreThoseOfHuggingFace) {
  const auto model = must_build(gpt2(), text_shape(11, 8));
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (const auto& [name, tensor] : model->export_tensors()) sizes[name] = tensor.sizes().vec();
  EXPECT_EQ(sizes.size(), 2 + 2 * 12 + 2);
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes["transformer.wte.weight"], (Sizes{11, 16}));
  EXPECT_EQ(sizes["transformer.wpe.weight"], (Sizes{8, 16}));
  EXPECT_EQ(sizes["transformer.h.0.ln_1.weight"], (Sizes{16}));
  EXPECT_EQ(sizes["transformer.h.1.attn.c_attn.weight"], (Sizes{16, 48}));
  EXPECT_EQ(sizes["transformer.h.1.attn.c_attn.bias"], (Sizes{48}));
  EXPECT_EQ(sizes["transformer.h.1.attn.c_proj.weight"], (Sizes{16, 16}));
  EXPECT_EQ(sizes["transformer.h.1.mlp.c_fc.weight"], (Sizes{16, 64}));
  EXPECT_EQ(sizes["transformer.h.1.mlp.c_proj.weight"], (Sizes{64, 16}));
  EXPECT_EQ(sizes["transformer.ln_f.bias"], (Sizes{16}));
}

TEST(Gpt2, ATiedHeadIsThereOnceAndAnUntiedOneHasItsOwn) {
  const auto tied = must_build(gpt2(), text_shape(11, 8));
  const auto untied = must_build(gpt2({{"tieWeights", false}}), text_shape(11, 8));
  EXPECT_EQ(tied->parameters().size() + 1, untied->parameters().size());
  EXPECT_EQ(untied->parameters().back().first, "lm_head.weight");
  std::set<void*> storages;
  for (const auto& [name, tensor] : tied->parameters()) storages.insert(tensor.data_ptr());
  EXPECT_EQ(storages.size(), tied->parameters().size());
}

TEST(Gpt2, TheTiedGradientIsTheSumOfBothUses) {
  const auto shape = text_shape(11, 8);
  const auto tied = must_build(gpt2(), shape);
  const auto untied = must_build(gpt2({{"tieWeights", false}}), shape);
  auto copies = untied->parameters();
  {
    const torch::NoGradGuard no_grad;
    const auto originals = tied->parameters();
    for (std::size_t i = 0; i < originals.size(); ++i) copies[i].second.copy_(originals[i].second);
    copies.back().second.copy_(originals.front().second);
  }
  const auto batch = counting_batch(shape, 3);
  tied->loss(batch, false).sum.backward();
  untied->loss(batch, false).sum.backward();
  const auto both = copies.front().second.grad() + copies.back().second.grad();
  EXPECT_TRUE(tied->parameters().front().second.grad().allclose(both, 1e-4, 1e-4));
}

TEST(Gpt2, InitialisedAsGpt2) {
  const auto model = must_build(gpt2({{"hidden", 64}, {"layers", 8}}), text_shape(256, 32));
  for (const auto& [name, tensor] : model->parameters()) {
    const auto values = tensor.detach();
    if (name.ends_with(".bias")) {
      EXPECT_TRUE(values.eq(0).all().item<bool>()) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_TRUE(values.eq(1).all().item<bool>()) << name;
    } else {
      const double expected = name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
      EXPECT_NEAR(values.std().item<double>(), expected, expected * 0.05) << name;
    }
  }
}

TEST(Gpt2, LossCountsTokensAndStartsAtTheUniformOne) {
  const auto shape = text_shape(256, 8);
  const auto model = must_build(gpt2(), shape);
  const auto batch = counting_batch(shape, 4);
  const Losses losses = model->loss(batch, false);
  EXPECT_EQ(losses.units, 4 * 8);
  EXPECT_NEAR(losses.sum.item<double>() / 32, std::log(256.0), 0.05);
  EXPECT_EQ(model->logits(batch).sizes(), (std::vector<std::int64_t>{4, 8, 256}));
  losses.sum.backward();
  for (const auto& [name, tensor] : model->parameters()) {
    ASSERT_TRUE(tensor.is_leaf() && tensor.grad().defined()) << name;
    EXPECT_GT(tensor.grad().abs().sum().item<float>(), 0) << name;
  }
}

TEST(Gpt2, NoPositionSeesWhatFollows) {
  const auto shape = text_shape(11, 8);
  const auto model = must_build(gpt2(), shape);
  auto batch = counting_batch(shape, 1);
  const auto before = model->logits(batch);
  batch.tokens[5] = 9;
  const auto after = model->logits(batch);
  EXPECT_TRUE(before.narrow(1, 0, 5).allclose(after.narrow(1, 0, 5)));
  EXPECT_FALSE(before.narrow(1, 5, 3).allclose(after.narrow(1, 5, 3)));
}

TEST(Gpt2, NoSamplesGiveALossOfZeroWithoutAGradient) {
  const auto model = must_build(gpt2(), text_shape(11, 8));
  const Losses losses = model->loss(data::Batch{}, true);
  EXPECT_EQ(losses.sum.item<float>(), 0);
  EXPECT_FALSE(losses.sum.requires_grad());
  EXPECT_EQ(losses.units, 0);
  EXPECT_EQ(model->logits(data::Batch{}).sizes(), (std::vector<std::int64_t>{0, 8, 11}));
}

void train_to_count(Model& model, const data::Batch& batch, int steps) {
  std::vector<torch::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  torch::optim::AdamW optimizer(leaves, torch::optim::AdamWOptions(0.01));
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model.loss(batch, false).sum.div(batch.units).backward();
    optimizer.step();
  }
}

TEST(Gpt2, LearnsToCountAndSamplesIt) {
  const auto shape = text_shape(256, 8);
  const auto model = must_build(gpt2(), shape);
  auto batch = counting_batch(shape, 26);
  for (auto& token : batch.tokens) token = 'a' + token % 26;
  train_to_count(*model, batch, 120);
  EXPECT_EQ(model->loss(batch, true).correct, batch.units);
  // Longer than the model's context: the window slides.
  const std::string text = model->sample("hi", 20, 1);
  EXPECT_EQ(text.substr(0, 3), "jkl");
  EXPECT_EQ(text.size(), 20);
}

TEST(Gpt2, SamplingIsSeededAndLeavesTrainingsRandomNumbersAlone) {
  const auto model = must_build(gpt2(), text_shape(256, 8));
  torch::manual_seed(5);
  const auto expected = torch::rand({4});
  torch::manual_seed(5);
  const std::string first = model->sample("", 32, 1);
  EXPECT_TRUE(torch::rand({4}).equal(expected));
  EXPECT_EQ(model->sample("", 32, 1), first);
  EXPECT_NE(model->sample("", 32, 2), first);
  EXPECT_EQ(first.size(), 32);
}

// Sampling keeps keys and values of what it has read; the text must be that of the plain way.
TEST(Gpt2, SampledTextFollowsTheLogitsOfTheWholeContext) {
  const torch::NoGradGuard no_grad;
  const auto model = must_build(gpt2(), text_shape(256, 32));
  auto generator = at::detail::createCPUGenerator(5);
  std::vector<std::int64_t> context{'h', 'i'};
  std::string expected;
  while (context.size() < 32) {
    data::Batch batch;
    batch.samples = 1;
    batch.tokens = context;
    batch.tokens.push_back(0);  // a target that nobody looks at
    const auto logits = model->logits(batch)[0][-1];
    const auto next = at::multinomial(at::softmax(logits, -1), 1, false, generator);
    context.push_back(next.item<std::int64_t>());
    expected.push_back(static_cast<char>(context.back()));
  }
  EXPECT_EQ(model->sample("hi", 30, 5), expected);
  EXPECT_EQ(model->sample("hi", 100, 5).substr(0, 30), expected);
  EXPECT_EQ(model->sample("hi", 100, 5).size(), 100u);
  EXPECT_EQ(must_build(gpt2(), text_shape(256, 1))->sample("hi", 5, 5).size(), 5u);
}

TEST(Gpt2, OnlyByteLevelModelsSample) {
  EXPECT_EQ(must_build(gpt2(), text_shape(300, 8))->sample("a", 4, 1), "");
}

TEST(Gpt2, ConfigIsOneThatTransformersReads) {
  const auto config = must_build(gpt2(), text_shape(11, 8))->config();
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["architectures"], nlohmann::json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_head"], 2);
  EXPECT_EQ(config["n_embd"], 16);
  EXPECT_EQ(config["n_positions"], 8);
  EXPECT_EQ(config["vocab_size"], 11);
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(config["tie_word_embeddings"], true);
}

std::string refusal(const job::Model& spec, const data::Shape& shape) {
  const auto model = build(spec, shape, 0);
  return model.ok() ? "accepted" : model.error().message;
}

TEST(Gpt2, RefusesWhatCannotWork) {
  const auto shape = text_shape(11, 8);
  EXPECT_THAT(refusal(gpt2({{"heads", 3}}), shape), HasSubstr("multiple of heads"));
  EXPECT_THAT(refusal(gpt2({{"dropout", 0.1}}), shape), HasSubstr("config.dropout"));
  EXPECT_THAT(refusal(gpt2({{"layer", 2}}), shape), HasSubstr("did you mean layers?"));
  EXPECT_THAT(refusal(gpt2(), column_shape(data::Task::classification, 2)), HasSubstr("text"));
  EXPECT_THAT(refusal(gpt2(), text_shape(0, 8)), HasSubstr("no tokens"));
}

}  // namespace
}  // namespace muster::model
