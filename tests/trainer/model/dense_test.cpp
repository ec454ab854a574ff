#include "trainer/model/dense.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "tests/trainer/model/small_shapes.h"
#include "trainer/model/model.h"

namespace muster::model {
namespace {

using testing::HasSubstr;

job::Model tabular(std::vector<std::int64_t> hidden = {8}, std::string activation = "relu") {
  job::Model spec;
  spec.tabular = job::Model::Tabular{std::move(hidden), std::move(activation)};
  return spec;
}

job::Model mlp(const nlohmann::json& config) {
  job::Model spec;
  spec.builtin = job::Model::Builtin{"mlp", config};
  return spec;
}

std::unique_ptr<Model> must_build(const job::Model& spec, const data::Shape& shape,
                                  std::int64_t seed = 0) {
  auto model = build(spec, shape, seed);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *std::move(model);
}

std::vector<std::string> names(Model& model) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : model.parameters()) all.push_back(name);
  return all;
}

TEST(Dense, NamesAndSizesTheParametersOfATable) {
  const auto model = must_build(tabular(), column_shape(data::Task::classification, 2));
  EXPECT_THAT(names(*model), testing::ElementsAre("embedding.job.weight", "embedding.a.b.weight",
                                                  "layers.0.weight", "layers.0.bias",
                                                  "layers.1.weight", "layers.1.bias"));
  const auto parameters = model->parameters();
  EXPECT_EQ(parameters[0].second.sizes(), (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(parameters[1].second.sizes(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(parameters[2].second.sizes(), (std::vector<std::int64_t>{8, 3 + 3 + 2}));
  EXPECT_EQ(parameters[4].second.sizes(), (std::vector<std::int64_t>{2, 8}));
}

TEST(Dense, EmbeddingsGrowWithTheColumnUpToFifty) {
  EXPECT_EQ(embedding_width(2), 2);
  EXPECT_EQ(embedding_width(10), 6);
  EXPECT_EQ(embedding_width(100000), 50);
}

TEST(Dense, EveryParameterGetsAGradient) {
  for (const auto task : {data::Task::classification, data::Task::regression}) {
    const auto shape = column_shape(task, 2);
    for (const auto& spec : {tabular({8}, "gelu"), mlp({{"activation", "tanh"}})}) {
      const auto model = must_build(spec, shape);
      const auto batch = column_batch(12);
      const Losses losses = model->loss(batch, false);
      EXPECT_EQ(losses.units, 12);
      losses.sum.backward();
      for (const auto& [name, tensor] : model->parameters()) {
        ASSERT_TRUE(tensor.is_leaf() && tensor.grad().defined()) << name;
        EXPECT_GT(tensor.grad().abs().sum().item<float>(), 0) << name;
      }
    }
  }
}

TEST(Dense, TheLossIsASumOverSamples) {
  for (const auto task : {data::Task::classification, data::Task::regression}) {
    const auto model = must_build(tabular(), column_shape(task, 2));
    double apart = 0;
    for (std::int64_t i = 0; i < 12; ++i) {
      data::Batch one = column_batch(i + 1);
      one.samples = 1;
      one.numbers.erase(one.numbers.begin(), one.numbers.end() - 2);
      one.categories.erase(one.categories.begin(), one.categories.end() - 2);
      one.classes = {one.classes.back()};
      one.values = {one.values.back()};
      apart += model->loss(one, false).sum.item<double>();
    }
    EXPECT_NEAR(model->loss(column_batch(12), false).sum.item<double>(), apart, 1e-4);
  }
}

TEST(Dense, NoSamplesGiveALossOfZeroWithoutAGradient) {
  const auto model = must_build(tabular(), column_shape(data::Task::classification, 2));
  const Losses losses = model->loss(data::Batch{}, true);
  EXPECT_EQ(losses.sum.item<float>(), 0);
  EXPECT_FALSE(losses.sum.requires_grad());
  EXPECT_EQ(losses.units, 0);
  EXPECT_EQ(losses.correct, 0);
  EXPECT_EQ(model->logits(data::Batch{}).sizes(), (std::vector<std::int64_t>{0, 2}));
}

TEST(Dense, CountsHitsOnlyWhenAsked) {
  const auto model = must_build(tabular(), column_shape(data::Task::classification, 2));
  auto batch = column_batch(12);
  const auto guesses = model->logits(batch).argmax(1);
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto guess = guesses[i].item<std::int64_t>();
    batch.classes[static_cast<std::size_t>(i)] = i < 5 ? guess : 1 - guess;
  }
  EXPECT_EQ(model->loss(batch, true).correct, 5);
  EXPECT_EQ(model->loss(batch, false).correct, 0);
}

TEST(Dense, LearnsWhichJobItIs) {
  const auto model = must_build(tabular(), column_shape(data::Task::classification, 2));
  std::vector<torch::Tensor> leaves;
  for (const auto& [name, tensor] : model->parameters()) leaves.push_back(tensor);
  torch::optim::AdamW optimizer(leaves, torch::optim::AdamWOptions(0.02));
  const auto batch = column_batch(24);
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    model->loss(batch, false).sum.div(24).backward();
    optimizer.step();
  }
  EXPECT_EQ(model->loss(batch, true).correct, 24);
}

TEST(Dense, SeedsDecideTheInitialBits) {
  const auto shape = column_shape(data::Task::classification, 2);
  const auto first = must_build(tabular(), shape, 7)->parameters();
  const auto again = must_build(tabular(), shape, 7)->parameters();
  const auto other = must_build(tabular(), shape, 8)->parameters();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(first[i].second.equal(again[i].second)) << first[i].first;
    EXPECT_FALSE(first[i].second.equal(other[i].second)) << first[i].first;
  }
}

TEST(Dense, MlpTakesCategoriesOneHot) {
  const auto model =
      must_build(mlp({{"hidden", {5}}}), column_shape(data::Task::classification, 2));
  EXPECT_EQ(names(*model).front(), "layers.0.weight");
  EXPECT_EQ(model->parameters()[0].second.sizes(), (std::vector<std::int64_t>{5, 4 + 3 + 2}));
}

TEST(Dense, NoHiddenLayersMakeALinearModel) {
  const auto model = must_build(tabular({}), column_shape(data::Task::regression, 0));
  EXPECT_EQ(names(*model).size(), 4);
  EXPECT_EQ(model->logits(column_batch(3)).sizes(), (std::vector<std::int64_t>{3}));
}

TEST(Dense, ConfigSaysHowToPrepareInputs) {
  auto shape = column_shape(data::Task::regression, 0);
  shape.value_mean = 3.5;
  const auto config = must_build(tabular(), shape)->config();
  EXPECT_EQ(config["model_type"], "muster_tabular");
  EXPECT_EQ(config["preprocessing"]["columns"], 4);
  EXPECT_EQ(config["value_mean"], 3.5);
  EXPECT_EQ(config["category_sizes"], (nlohmann::json{4, 3}));
}

std::string refusal(const job::Model& spec, const data::Shape& shape) {
  const auto model = build(spec, shape, 0);
  return model.ok() ? "accepted" : model.error().message;
}

TEST(Dense, RefusesWhatCannotWork) {
  const auto shape = column_shape(data::Task::classification, 2);
  EXPECT_THAT(refusal(tabular({8}, "swish"), shape), HasSubstr("spec.model.tabular.activation"));
  EXPECT_THAT(refusal(tabular({0}), shape), HasSubstr("spec.model.tabular.hidden"));
  EXPECT_THAT(refusal(mlp({{"hiden", {3}}}), shape), HasSubstr("did you mean hidden?"));
  EXPECT_THAT(refusal(tabular(), text_shape(16, 4)), HasSubstr("gpt2"));
  EXPECT_THAT(refusal(tabular(), data::Shape{}), HasSubstr("at least one input column"));
  EXPECT_THAT(refusal(tabular(), column_shape(data::Task::classification, 1)),
              HasSubstr("at least 2"));
  EXPECT_THAT(refusal(job::Model{}, shape), HasSubstr("spec.model"));
  job::Model later;
  later.builtin = job::Model::Builtin{"resnet18", {}};
  EXPECT_EQ(build(later, shape, 0).error().code, Code::unsupported);
}

}  // namespace
}  // namespace muster::model
