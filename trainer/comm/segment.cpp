#include <algorithm>

#include "trainer/comm/communicator.h"

namespace muster::comm {

Interval segment(std::size_t count, DType dtype, int rank, int world_size) {
  const auto line = 64 / size_of(dtype);
  const auto n = static_cast<std::size_t>(world_size);
  const auto lines = (count + line - 1) / line;
  const auto share = (lines + n - 1) / n * line;
  const auto r = static_cast<std::size_t>(rank);
  return {std::min(count, r * share), std::min(count, (r + 1) * share)};
}

}  // namespace muster::comm
