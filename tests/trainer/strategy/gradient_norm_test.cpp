#include "trainer/strategy/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace muster::strategy {
namespace {

TEST(GradientNorm, AgreesWithLongDoubleAtOddSizes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 4095u, 4096u, 4097u, 100003u}) {
    std::vector<float> v(n);
    for (auto& x : v) x = normal(random);
    long double expected = 0;
    for (const float x : v) expected += static_cast<long double>(x) * x;
    EXPECT_NEAR(sum_of_squares(v.data(), static_cast<std::int64_t>(n)), double(expected),
                1e-12 * double(expected));
  }
}

TEST(GradientNorm, FindsWhatIsNotFinite) {
  std::vector<float> v(5000, 1);
  v[4999] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(sum_of_squares(v.data(), 5000)));
  v[4999] = std::nanf("");
  EXPECT_FALSE(std::isfinite(sum_of_squares(v.data(), 5000)));
}

}  // namespace
}  // namespace muster::strategy
