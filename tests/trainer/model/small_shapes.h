// Small data for model tests: shapes and batches whose contents follow from the sample's number.
#pragma once

#include "trainer/data/dataset.h"

namespace muster::model {

// Two numbers, and the categories `job` (4 values) and `a.b` (3 values).
inline data::Shape column_shape(data::Task task, std::int64_t classes) {
  data::Shape shape;
  shape.task = task;
  shape.classes = classes;
  shape.number_columns = 2;
  shape.category_names = {"job", "a.b"};
  shape.category_sizes = {4, 3};
  shape.preprocessing = {{"columns", 4}};
  return shape;
}

inline data::Batch column_batch(std::int64_t samples) {
  data::Batch batch;
  batch.samples = batch.units = samples;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto x = static_cast<float>(i % 7) / 7.0F - 0.5F;
    batch.numbers.insert(batch.numbers.end(), {x, 1.0F - x});
    batch.categories.insert(batch.categories.end(), {i % 4, i % 3});
    batch.classes.push_back(i % 4 == 1 ? 1 : 0);
    batch.values.push_back(x * 2.0F);
  }
  return batch;
}

inline data::Shape text_shape(std::int64_t vocabulary, std::int64_t length) {
  data::Shape shape;
  shape.task = data::Task::language_model;
  shape.vocabulary_size = vocabulary;
  shape.sequence_length = length;
  return shape;
}

// Each sample counts upwards from its number.
inline data::Batch counting_batch(const data::Shape& shape, std::int64_t samples) {
  data::Batch batch;
  batch.samples = samples;
  batch.units = samples * shape.sequence_length;
  for (std::int64_t i = 0; i < samples; ++i) {
    for (std::int64_t t = 0; t <= shape.sequence_length; ++t) {
      batch.tokens.push_back((i + t) % shape.vocabulary_size);
    }
  }
  return batch;
}

}  // namespace muster::model
