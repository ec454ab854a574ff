#include "trainer/comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace muster::comm {
namespace {

TEST(Reduce, EveryOutputGetsTheSumAtAnyAlignment) {
  for (const std::size_t shift : {0u, 1u, 3u}) {
    std::vector<float> a(5000), b(5000), shifted(5000 + shift);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = 1.0f / static_cast<float>(i + 1);
      b[i] = static_cast<float>(i) * 0.1f;
    }
    const auto before = a;
    const void* inputs[] = {a.data(), b.data()};
    void* outputs[] = {a.data(), shifted.data() + shift};
    add_in_order_to_all(inputs, outputs, 5000, DType::f32);
    for (std::size_t i = 0; i < 5000; ++i) {
      ASSERT_EQ(a[i], before[i] + b[i]);
      ASSERT_EQ(a[i], shifted[i + shift]);
    }
  }
}

TEST(Reduce, TheSumMayLieInAnInput) {
  std::vector<float> a(3000, 1), b(3000, 2);
  const void* inputs[] = {a.data(), b.data()};
  add_in_order(inputs, b.data(), 3000, DType::f32);
  EXPECT_EQ(b[2999], 3);
}

TEST(Reduce, NotANumberStaysOneInBFloat16) {
  const std::uint16_t nan = 0x7fc0, one = 0x3f80;
  std::uint16_t out = 0;
  const void* inputs[] = {&nan, &one};
  add_in_order(inputs, &out, 1, DType::bf16);
  EXPECT_GT(out & 0x7fff, 0x7f80);
}

TEST(Segment, CoversEverythingInMultiplesOf64Bytes) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 10007u}) {
    for (const int n : {1, 2, 3, 5}) {
      std::size_t at = 0;
      for (int r = 0; r < n; ++r) {
        const auto s = segment(count, DType::f32, r, n);
        EXPECT_EQ(s.begin, at);
        if (s.end != count) {
          EXPECT_EQ(s.end % 16, 0u);
        }
        at = s.end;
      }
      EXPECT_EQ(at, count);
    }
  }
}

}  // namespace
}  // namespace muster::comm
