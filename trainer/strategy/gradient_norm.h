// The 2-norm of a flat buffer with the same bits wherever it is computed: fp64 partial sums over
// fixed blocks of 4096 elements, added in block order.
#pragma once

#include <cstdint>

namespace muster::strategy {

// Sum of squares of values[0, count); non-finite when any element is.
double sum_of_squares(const float* values, std::int64_t count);

}  // namespace muster::strategy
