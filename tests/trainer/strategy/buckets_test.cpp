#include "trainer/strategy/buckets.h"

#include <gtest/gtest.h>

namespace muster::strategy {
namespace {

checkpoint::Layout layout_of(const std::vector<std::int64_t>& sizes) {
  checkpoint::Layout layout;
  for (const auto size : sizes) {
    layout.parameters.push_back(
        {"p" + std::to_string(layout.parameters.size()), {size}, layout.total});
    layout.total += (size + 15) / 16 * 16;
  }
  return layout;
}

TEST(Buckets, CoverTheBufferFromTheEndWithoutGapOrOverlap) {
  const auto layout = layout_of({1, 15, 16, 17, 10007, 3});
  const auto buckets = make_buckets(layout, 256, 4096);
  auto end = layout.total;
  std::vector<int> seen;
  for (const auto& b : buckets) {
    EXPECT_EQ(b.end, end);
    EXPECT_LT(b.begin, b.end);
    end = b.begin;
    seen.insert(seen.end(), b.parameters.begin(), b.parameters.end());
  }
  EXPECT_EQ(end, 0);
  EXPECT_EQ(seen, (std::vector<int>{5, 4, 3, 2, 1, 0}));
}

TEST(Buckets, TheFirstIsSmallTheOthersLarge) {
  const auto layout = layout_of(std::vector<std::int64_t>(100, 64));  // 256 bytes each
  const auto buckets = make_buckets(layout, 512, 2560);
  ASSERT_GE(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].parameters.size(), 2u);
  EXPECT_EQ(buckets[1].parameters.size(), 10u);
}

TEST(Buckets, AModelWithoutParametersHasNone) {
  EXPECT_TRUE(make_buckets({}, 512, 1024).empty());
}

}  // namespace
}  // namespace muster::strategy
