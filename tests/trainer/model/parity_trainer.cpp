// Trains a model on given batches and writes down what happened, for a comparison with PyTorch:
//
//   parity-trainer <folder>
//
// Reads <folder>/case.json and the batches of all steps, one after the other, in raw little-endian
// files; writes names.json, initial.f32, losses.f64, gradients.f32 (the first steps) and final.f32.
// tests/parity/model_parity.py writes the former and judges the latter.
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "trainer/model/model.h"

namespace muster {
namespace {

template <class T>
std::vector<T> read_raw(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};  // this kind of model has no such column
  std::vector<T> values(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

void write_floats(std::ofstream& file, const torch::Tensor& tensor) {
  const auto values = tensor.detach().contiguous();
  file.write(static_cast<const char*>(values.data_ptr()),
             static_cast<std::streamsize>(values.nbytes()));
}

// The part of a column that belongs to a step.
template <class T>
std::vector<T> slice(const std::vector<T>& all, std::int64_t step, std::int64_t steps) {
  const auto size = static_cast<std::int64_t>(all.size()) / steps;
  return {all.begin() + step * size, all.begin() + (step + 1) * size};
}

struct Case {
  job::Model model;
  data::Shape shape;
  std::int64_t seed, steps, samples, gradient_steps;
  data::Batch all;  // the batches of all steps
};

Case read_case(const std::string& folder) {
  std::ifstream file(folder + "/case.json");
  const auto json = nlohmann::json::parse(file);
  Case result;
  const auto& model = json.at("model");
  if (model.contains("tabular")) {
    result.model.tabular =
        job::Model::Tabular{model["tabular"].at("hidden"), model["tabular"].at("activation")};
  } else {
    result.model.builtin = job::Model::Builtin{model.at("name"), model.at("config")};
  }
  const auto& shape = json.at("shape");
  result.shape.task = static_cast<data::Task>(shape.at("task").get<int>());
  shape.at("number_columns").get_to(result.shape.number_columns);
  shape.at("category_names").get_to(result.shape.category_names);
  shape.at("category_sizes").get_to(result.shape.category_sizes);
  shape.at("classes").get_to(result.shape.classes);
  shape.at("vocabulary_size").get_to(result.shape.vocabulary_size);
  shape.at("sequence_length").get_to(result.shape.sequence_length);
  json.at("seed").get_to(result.seed);
  json.at("steps").get_to(result.steps);
  json.at("samples").get_to(result.samples);
  json.at("gradient_steps").get_to(result.gradient_steps);
  result.all.numbers = read_raw<float>(folder + "/numbers.f32");
  result.all.categories = read_raw<std::int64_t>(folder + "/categories.i64");
  result.all.classes = read_raw<std::int64_t>(folder + "/classes.i64");
  result.all.values = read_raw<float>(folder + "/values.f32");
  result.all.tokens = read_raw<std::int64_t>(folder + "/tokens.i64");
  return result;
}

data::Batch batch_of(const Case& test, std::int64_t step) {
  data::Batch batch;
  batch.samples = test.samples;
  batch.numbers = slice(test.all.numbers, step, test.steps);
  batch.categories = slice(test.all.categories, step, test.steps);
  batch.classes = slice(test.all.classes, step, test.steps);
  batch.values = slice(test.all.values, step, test.steps);
  batch.tokens = slice(test.all.tokens, step, test.steps);
  return batch;
}

struct AdamW {
  std::vector<torch::Tensor> parameters, gradients, first, second, steps;

  explicit AdamW(std::vector<torch::Tensor> leaves) : parameters(std::move(leaves)) {
    for (const auto& leaf : parameters) {
      gradients.push_back(torch::zeros_like(leaf));
      first.push_back(torch::zeros_like(leaf));
      second.push_back(torch::zeros_like(leaf));
      steps.push_back(torch::zeros({}));
      leaf.mutable_grad() = gradients.back();
    }
  }

  void step() {
    const torch::NoGradGuard no_grad;
    for (auto& step : steps) step += 1;
    at::_fused_adamw_(parameters, gradients, first, second, {}, steps, /*lr=*/1e-3, 0.9, 0.95,
                      /*weight_decay=*/0.1, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }
};

int train(const std::string& folder) {
  at::set_num_threads(1);
  const Case test = read_case(folder);
  auto built = model::build(test.model, test.shape, test.seed);
  if (!built.ok()) {
    std::cerr << built.error().message << "\n";
    return 1;
  }
  model::Model& model = **built;
  auto names = nlohmann::json::array();
  std::vector<torch::Tensor> leaves;
  std::ofstream initial(folder + "/initial.f32"), final(folder + "/final.f32");
  std::ofstream gradients(folder + "/gradients.f32"), losses(folder + "/losses.f64");
  for (const auto& [name, tensor] : model.parameters()) {
    names.push_back(name);
    leaves.push_back(tensor);
    write_floats(initial, tensor);
  }
  std::ofstream(folder + "/names.json") << names;
  AdamW optimizer(leaves);
  for (std::int64_t step = 0; step < test.steps; ++step) {
    const data::Batch batch = batch_of(test, step);
    for (auto& gradient : optimizer.gradients) gradient.zero_();
    const auto loss = model.loss(batch, false);
    const auto mean = loss.sum / static_cast<double>(loss.units);
    mean.backward();
    const double value = mean.item<double>();
    losses.write(reinterpret_cast<const char*>(&value), sizeof value);
    if (step < test.gradient_steps) {
      for (const auto& gradient : optimizer.gradients) write_floats(gradients, gradient);
    }
    optimizer.step();
  }
  for (const auto& leaf : leaves) write_floats(final, leaf);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: parity-trainer <folder>\n";
    return 2;
  }
  return muster::train(argv[1]);
}
