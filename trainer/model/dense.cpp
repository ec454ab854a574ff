#include "trainer/model/dense.h"

#include <torch/torch.h>

#include "trainer/model/batch_tensors.h"

namespace muster::model {
namespace {

using Activation = torch::Tensor (*)(const torch::Tensor&);

Activation find_activation(const std::string& name) {
  if (name == "relu") return [](const torch::Tensor& x) { return at::relu(x); };
  if (name == "gelu") return [](const torch::Tensor& x) { return at::gelu(x); };
  if (name == "tanh") return [](const torch::Tensor& x) { return at::tanh(x); };
  if (name == "sigmoid") return [](const torch::Tensor& x) { return at::sigmoid(x); };
  return nullptr;
}

class Dense final : public Model {
 public:
  Dense(const DenseSpec& spec, const data::Shape& shape)
      : spec_(spec), shape_(shape), activation_(find_activation(spec.activation)) {
    std::int64_t width = shape.number_columns;
    for (const std::int64_t size : shape.category_sizes) {
      if (spec.categories == CategoryInput::embedding) {
        embeddings_.emplace_back(torch::nn::EmbeddingOptions(size, embedding_width(size)));
        width += embedding_width(size);
      } else {
        width += size;
      }
    }
    for (const std::int64_t next : spec.hidden) {
      layers_.emplace_back(torch::nn::LinearOptions(width, next));
      width = next;
    }
    layers_.emplace_back(torch::nn::LinearOptions(width, classifies() ? shape.classes : 1));
  }

  torch::Tensor logits(const data::Batch& batch) override {
    torch::Tensor x =
        batch.samples == 0 ? torch::zeros({0, layers_[0]->options.in_features()}) : inputs(batch);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = activation_(layers_[i](x));
    x = layers_.back()(x);
    return classifies() ? x : x.squeeze(1);
  }

  Losses loss(const data::Batch& batch, bool count_correct) override {
    Losses losses;
    losses.units = batch.samples;
    if (batch.samples == 0) {
      losses.sum = torch::zeros({});
      return losses;
    }
    // In fp64 from here on: a small loss is a difference of larger numbers, and in fp32 it would be
    // mostly rounding, another one for each split of the batch.
    const torch::Tensor outputs = logits(batch).to(torch::kDouble);
    if (!classifies()) {
      losses.sum = at::mse_loss(outputs, values_of(batch).to(torch::kDouble), at::Reduction::Sum);
      return losses;
    }
    const torch::Tensor targets = classes_of(batch);
    losses.sum = at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum);
    if (count_correct) losses.correct = count_hits(outputs, targets);
    return losses;
  }

  std::vector<std::pair<std::string, torch::Tensor>> parameters() override {
    std::vector<std::pair<std::string, torch::Tensor>> all;
    for (std::size_t i = 0; i < embeddings_.size(); ++i) {
      all.emplace_back("embedding." + shape_.category_names[i] + ".weight", embeddings_[i]->weight);
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::string name = "layers." + std::to_string(i);
      all.emplace_back(name + ".weight", layers_[i]->weight);
      all.emplace_back(name + ".bias", layers_[i]->bias);
    }
    return all;
  }

  std::vector<std::pair<std::string, torch::Tensor>> export_tensors() override {
    return parameters();
  }

  nlohmann::json config() const override {
    nlohmann::json config = {{"model_type", "muster_" + spec_.type},
                             {"hidden", spec_.hidden},
                             {"activation", spec_.activation},
                             {"number_columns", shape_.number_columns},
                             {"category_names", shape_.category_names},
                             {"category_sizes", shape_.category_sizes},
                             {"task", classifies() ? "classification" : "regression"},
                             {"preprocessing", shape_.preprocessing}};
    if (classifies()) {
      config["classes"] = shape_.classes;
    } else {
      config["value_mean"] = shape_.value_mean;
      config["value_stddev"] = shape_.value_stddev;
    }
    return config;
  }

 private:
  bool classifies() const { return shape_.task == data::Task::classification; }

  // Embeddings (or one-hot columns) in the columns' order, then the numbers.
  torch::Tensor inputs(const data::Batch& batch) {
    if (shape_.category_sizes.empty()) return numbers_of(batch);
    std::vector<torch::Tensor> parts;
    const torch::Tensor categories = categories_of(batch);
    for (std::size_t i = 0; i < shape_.category_sizes.size(); ++i) {
      const torch::Tensor column = categories.select(1, static_cast<std::int64_t>(i));
      parts.push_back(spec_.categories == CategoryInput::embedding
                          ? embeddings_[i](column)
                          : at::one_hot(column, shape_.category_sizes[i]).to(torch::kFloat));
    }
    if (shape_.number_columns > 0) parts.push_back(numbers_of(batch));
    return at::cat(parts, 1);
  }

  DenseSpec spec_;
  data::Shape shape_;
  Activation activation_;
  std::vector<torch::nn::Embedding> embeddings_;
  std::vector<torch::nn::Linear> layers_;
};

Status check(const DenseSpec& spec, const data::Shape& shape) {
  const std::string path = "spec.model." + (spec.type == "tabular" ? spec.type : "builtin.config");
  if (find_activation(spec.activation) == nullptr) {
    return Error{
        Code::invalid_job,
        path + ".activation: must be relu, gelu, tanh or sigmoid, but is " + spec.activation};
  }
  if (shape.task == data::Task::language_model) {
    return Error{Code::invalid_job, "spec.model: the model " + spec.type +
                                        " needs columns or images, but the data are text; use "
                                        "builtin gpt2 for text"};
  }
  if (shape.number_columns == 0 && shape.category_sizes.empty()) {
    return Error{Code::invalid_job, "spec.data.tabular.inputs: the model " + spec.type +
                                        " needs at least one input column"};
  }
  for (const std::int64_t width : spec.hidden) {
    if (width >= 1) continue;
    return Error{Code::invalid_job,
                 path + ".hidden: must be widths of at least 1, but has " + std::to_string(width)};
  }
  if (shape.task == data::Task::classification && shape.classes < 2) {
    return Error{Code::invalid_data, "the output column has " + std::to_string(shape.classes) +
                                         " class; at least 2 are needed to train a classifier"};
  }
  return {};
}

}  // namespace

std::int64_t embedding_width(std::int64_t size) {
  return std::min<std::int64_t>(50, (size + 1) / 2 + 1);
}

Result<std::unique_ptr<Model>> build_dense(const DenseSpec& spec, const data::Shape& shape) {
  MUSTER_CHECK_OK(check(spec, shape));
  return std::unique_ptr<Model>(std::make_unique<Dense>(spec, shape));
}

}  // namespace muster::model
