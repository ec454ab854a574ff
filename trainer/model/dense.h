// Stacks of fully connected layers over columns: `tabular` (an embedding a category column) and
// `mlp` (category columns one-hot).
#pragma once

#include <memory>

#include "trainer/model/model.h"

namespace muster::model {

enum class CategoryInput { embedding, one_hot };

struct DenseSpec {
  std::string type;                  // tabular | mlp
  std::vector<std::int64_t> hidden;  // width of each hidden layer
  std::string activation;            // relu | gelu | tanh | sigmoid
  CategoryInput categories = CategoryInput::embedding;
};

// Errors: Code::invalid_job for an unknown activation, or data that have no columns.
Result<std::unique_ptr<Model>> build_dense(const DenseSpec& spec, const data::Shape& shape);

// The width of the embedding of a category column with `size` values.
std::int64_t embedding_width(std::int64_t size);

}  // namespace muster::model
