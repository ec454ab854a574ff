// What a model is trained on: samples by number, as plain memory. No Torch here.
//
//   auto sets = data::open(job.spec.data, seed);      // train and validation
//   data::Batch batch;
//   sets->train->read(indices, batch);
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/job/training_job.h"
#include "common/result.h"

namespace muster::data {

// Samples as rows of row-major matrices. What a format does not have is empty.
struct Batch {
  std::int64_t samples = 0;
  // Units that the loss is summed over and divided by: samples, or tokens for language models.
  std::int64_t units = 0;
  std::vector<float> numbers;  // [samples, number_columns], normalised by the training split
  std::vector<std::int64_t>
      categories;  // [samples, category_columns]; 0 = missing or never seen in training
  std::vector<std::int64_t> classes;  // [samples], classification
  std::vector<float> values;          // [samples], regression; normalised like the inputs
  std::vector<std::int64_t>
      tokens;  // [samples, sequence_length + 1]: inputs are [:, :-1], targets [:, 1:]
};

enum class Task { classification, regression, language_model };

// What a model must know to fit the data.
struct Shape {
  Task task = Task::classification;
  std::int64_t number_columns = 0;
  std::vector<std::string> category_names;   // a column each
  std::vector<std::int64_t> category_sizes;  // distinct values + 1 (slot 0)
  std::int64_t classes = 0;                  // classification
  std::int64_t vocabulary_size = 0;          // language model
  std::int64_t sequence_length = 0;
  double value_mean = 0, value_stddev = 1;  // regression: how values were normalised
  // Everything needed to prepare new inputs (columns, means, deviations, categories, class names);
  // goes into the export's config.json.
  nlohmann::json preprocessing = nlohmann::json::object();
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // samples
  virtual const Shape& shape() const = 0;
  // Fills `batch` (its vectors are reused) with the samples of these numbers, in this order.
  // Thread safe. Errors: Code::invalid_data, Code::io.
  virtual Status read(std::span<const std::int64_t> indices, Batch& batch) const = 0;
};

struct Datasets {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null when the job has none
};

// Opens all files, infers types, computes statistics over the training split alone.
// Errors: Code::invalid_data names file, line, column, value and remedy.
Result<Datasets> open(const job::Data& data, std::int64_t seed);

}  // namespace muster::data
