#include "trainer/data/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace muster::data {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint64_t> images(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size) {
  const Permutation permutation(seed, epoch, size);
  std::vector<std::uint64_t> out(size);
  for (std::uint64_t i = 0; i < size; ++i) out[i] = permutation(i);
  return out;
}

std::vector<std::int64_t> samples(std::uint64_t seed, std::int64_t size, std::int64_t begin,
                                  std::int64_t end) {
  std::vector<std::int64_t> out;
  samples_at(seed, size, begin, end, out);
  return out;
}

class Bijection : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Bijection, TakesEachNumberOnce) {
  std::vector<std::uint64_t> each(GetParam());
  std::iota(each.begin(), each.end(), 0);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{0}}) {
      auto out = images(seed, epoch, GetParam());
      std::sort(out.begin(), out.end());
      EXPECT_EQ(out, each) << "seed " << seed << ", epoch " << epoch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bijection, ::testing::Values(1, 2, 3, 7, 10, 1000, 65537));

TEST(Order, StaysInsideOfTheLargestSizes) {
  for (const auto size : {(std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    const Permutation permutation(3, 0, size);
    EXPECT_LT(permutation(0), size);
    EXPECT_LT(permutation(size - 1), size);
    EXPECT_NE(permutation(0), permutation(size - 1));
  }
}

TEST(Order, DiffersBetweenEpochsAndSeeds) {
  const auto order = images(1, 0, 1000);
  const auto same_places = [&order](const std::vector<std::uint64_t>& other) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < order.size(); ++i) same += order[i] == other[i] ? 1 : 0;
    return same;
  };
  EXPECT_EQ(same_places(images(1, 0, 1000)), 1000u);
  // Two independent orders have one place in common on average; 10 is one in a million.
  EXPECT_LT(same_places(images(1, 1, 1000)), 10u);
  EXPECT_LT(same_places(images(2, 0, 1000)), 10u);
  std::vector<std::uint64_t> sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_LT(same_places(sorted), 10u);
}

// Neighbours of the data set do not stay neighbours: the mean distance is that of a random order.
TEST(Order, TearsNeighboursApart) {
  const auto order = images(7, 0, 10000);
  double distance = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    distance += std::abs(static_cast<double>(order[i]) - static_cast<double>(order[i - 1]));
  }
  EXPECT_NEAR(distance / 9999, 10000 / 3.0, 200);
}

// A checkpoint resumes in the middle of an order: another one would lose and double samples.
// The values are those of a second implementation, in Python.
TEST(Order, IsTheSameInEveryVersion) {
  EXPECT_THAT(images(0, 0, 7), ElementsAre(4, 0, 2, 5, 6, 1, 3));
  EXPECT_THAT(images(0, 1, 7), ElementsAre(0, 5, 2, 4, 6, 3, 1));
  EXPECT_THAT(images(42, 0, 10), ElementsAre(1, 8, 5, 0, 2, 7, 6, 9, 4, 3));
  const Permutation large(123456789, 17, 1000000007);
  EXPECT_EQ(large(0), 414377994u);
  EXPECT_EQ(large(1), 757551487u);
  EXPECT_EQ(large(1000000006), 297592633u);
}

TEST(Order, AnyCutOfTheRunGivesTheSameSamples) {
  const auto whole = samples(9, 10, 0, 35);
  ASSERT_EQ(whole.size(), 35u);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = whole.begin() + epoch * 10;
    std::vector<std::int64_t> one(begin, begin + 10);
    std::sort(one.begin(), one.end());
    EXPECT_THAT(one, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)) << "epoch " << epoch;
  }
  for (const std::int64_t step : {1, 4, 7, 35}) {
    std::vector<std::int64_t> joined;
    for (std::int64_t begin = 0; begin < 35; begin += step) {
      const auto part = samples(9, 10, begin, std::min<std::int64_t>(begin + step, 35));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << "steps of " << step;
  }
}

TEST(Order, AnEmptyRangeHasNoSamplesAndOldOnesAreDropped) {
  std::vector<std::int64_t> indices = {1, 2, 3};
  samples_at(0, 10, 5, 5, indices);
  EXPECT_THAT(indices, ElementsAre());
  samples_at(0, 1, 100, 103, indices);
  EXPECT_THAT(indices, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace muster::data
