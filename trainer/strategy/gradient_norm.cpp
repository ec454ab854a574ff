#include "trainer/strategy/gradient_norm.h"

#include <algorithm>

namespace muster::strategy {
namespace {

constexpr std::int64_t block_elements = 4096;
constexpr int lanes = 16;

// Fixed lanes, so that the compiler may use any vector width without changing the order of
// additions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
double
block_sum(const float* values, std::int64_t count) {
  double partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const double v = values[i + lane];
      partial[lane] += v * v;
    }
  }
  for (; i < count; ++i) {
    const double v = values[i];
    partial[i % lanes] += v * v;
  }
  double sum = 0;
  for (const double p : partial) sum += p;
  return sum;
}

}  // namespace

double sum_of_squares(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    sum += block_sum(values + begin, std::min(block_elements, count - begin));
  }
  return sum;
}

}  // namespace muster::strategy
