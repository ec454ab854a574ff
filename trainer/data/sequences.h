// Texts (bytes as tokens) and token files as windows of a sequence, mapped, not read into memory.
#pragma once

#include "trainer/data/dataset.h"

namespace muster::data {

// `format: text` (a byte is a token, vocabulary 256) and `format: tokens` (little-endian integers
// of tokenBits). Sample i is tokens [i * sequenceLength, (i + 1) * sequenceLength], so that each
// token is predicted once; windows do not span files. validationFraction takes each file's end.
Result<Datasets> open_sequences(const job::Data& data);

}  // namespace muster::data
