// How the global batch is divided among the ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::protocol {

// Shares proportional to the weights (all equal when they sum to 0), summing to `global_batch`, by
// largest remainder; ties go to the lower rank.
std::vector<std::int64_t> split_batch(std::int64_t global_batch,
                                      const std::vector<double>& weights);

}  // namespace muster::protocol
