// CSV tables as number and category columns: types inferred and statistics taken from the training
// rows alone, so that the validation rows stay unseen.
#pragma once

#include "trainer/data/csv.h"
#include "trainer/data/dataset.h"

namespace muster::data {

// Opens the files of `format: csv`. Rules:
//   A cell that is empty, NA, N/A, NaN, nan, null, None or ?, spaces around it aside, is missing. A
//   missing number becomes the column's mean, a missing category slot 0, as does a category that
//   training never saw. A missing output is an error, as is a class that training never saw.
//   A column of type auto is a number when all its present training values are numbers. A column
//   of more than 20 different numbers and at most a tenth of texts is an error at the first text.
//   Numbers are finite and fit 32 bits; all else in a number column is an error. They are taken
//   as deviations from the mean of the training rows; a constant column as differences from it.
//   validationFraction takes round(fraction * rows) rows, chosen by the seed.
Result<Datasets> open_csv(const job::Data& data, std::int64_t seed);

}  // namespace muster::data
