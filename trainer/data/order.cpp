#include "trainer/data/order.h"

namespace muster::data {
namespace {

// The finaliser of SplitMix64 (Steele et al., 2014): a good mixer of 64 bits.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size)
    : size_(size), half_bits_(1) {
  std::uint64_t key = mix(mix(seed) ^ epoch);
  for (auto& k : keys_) k = key = mix(key);
  while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {  // walk the cycle until it is back inside: at most 4 rounds on average
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (const auto key : keys_) {
      const auto next = left ^ (mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= size_);
  return i;
}

void samples_at(std::uint64_t seed, std::int64_t size, std::int64_t begin, std::int64_t end,
                std::vector<std::int64_t>& indices) {
  indices.clear();
  while (begin < end) {
    const auto epoch = begin / size;
    const Permutation permutation(seed, static_cast<std::uint64_t>(epoch),
                                  static_cast<std::uint64_t>(size));
    for (; begin < end && begin / size == epoch; ++begin) {
      indices.push_back(
          static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(begin % size))));
    }
  }
}

}  // namespace muster::data
