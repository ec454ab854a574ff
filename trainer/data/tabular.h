// CSV tables as number and category columns: types inferred and statistics taken from the training
// rows alone, so that the validation rows stay unseen.
#pragma once

#include "trainer/data/csv.h"
#include "trainer/data/dataset.h"

namespace muster::data {

// Opens the files of `format: csv`. Rules:
//   A cell that is empty, NA, N/A, NaN, nan, null, None or ? is missing. A missing number becomes
//   the column's mean, a missing category slot 0, as does a category that training never saw. A
//   missing output is an error, as is a class that training never saw. A column is a number when
//   all its present training values are finite numbers.
Result<Datasets> open_csv(const job::Data& data, std::int64_t seed);

}  // namespace muster::data
