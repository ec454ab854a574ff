// Which parts of the flat gradient buffer travel together, and in which order.
//
// Backward finishes gradients roughly from the last parameter to the first, so buckets are cut from
// the end of the buffer: a first small one (so that communication starts early), then large ones.
// Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3, and DDP's 1 MiB / 25 MiB.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/checkpoint/index.h"

namespace muster::strategy {

struct Bucket {
  std::int64_t begin = 0;  // elements of the flat buffer
  std::int64_t end = 0;
  std::vector<int> parameters;  // indexes into the layout
};

constexpr std::int64_t first_bucket_bytes = 1 << 20;

// Buckets in launch order; together they cover the whole buffer, padding included.
std::vector<Bucket> make_buckets(const checkpoint::Layout& layout, std::int64_t first_bytes,
                                 std::int64_t bucket_bytes);

}  // namespace muster::strategy
