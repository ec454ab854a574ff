// Which samples a step takes: arithmetic on (seed, cursor), whoever computes them.
//
// Sample number c of a run (the cursor) is sample `permutation(seed, c / size)(c % size)` of the
// data set. Step k takes the next B of them: no sample is lost or doubled, at any number of
// workers. Source: format-preserving encryption by cycle walking over a Feistel network (Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", 2002); O(1) memory, O(1) expected time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::data {

// A keyed bijection on [0, size).
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size);
  std::uint64_t operator()(std::uint64_t i) const;  // i < size

 private:
  std::uint64_t keys_[4];
  std::uint64_t size_;
  unsigned half_bits_;
};

// The data set's numbers of the run's samples [begin, end).
void samples_at(std::uint64_t seed, std::int64_t size, std::int64_t begin, std::int64_t end,
                std::vector<std::int64_t>& indices);

}  // namespace muster::data
