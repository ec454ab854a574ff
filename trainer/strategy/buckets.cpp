#include "trainer/strategy/buckets.h"

#include <algorithm>

namespace muster::strategy {

std::vector<Bucket> make_buckets(const checkpoint::Layout& layout, std::int64_t first_bytes,
                                 std::int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket open{layout.total, layout.total, {}};
  std::int64_t limit = first_bytes;
  for (int i = static_cast<int>(layout.parameters.size()) - 1; i >= 0; --i) {
    open.begin = layout.parameters[static_cast<std::size_t>(i)].offset;
    open.parameters.push_back(i);
    if ((open.end - open.begin) * 4 < limit) continue;
    limit = bucket_bytes;
    const auto next_end = open.begin;
    buckets.push_back(std::move(open));
    open = Bucket{next_end, next_end, {}};
  }
  if (!open.parameters.empty()) buckets.push_back(std::move(open));
  return buckets;
}

}  // namespace muster::strategy
