#include "trainer/protocol/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::protocol {

std::vector<std::int64_t> split_batch(std::int64_t global_batch,
                                      const std::vector<double>& weights) {
  const auto n = weights.size();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares(n);
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double part = sum > 0 ? weights[i] / sum : 1.0 / static_cast<double>(n);
    const double exact = static_cast<double>(global_batch) * part;
    shares[i] = static_cast<std::int64_t>(std::floor(exact));
    given += shares[i];
    remainders.emplace_back(static_cast<double>(shares[i]) - exact, i);  // most negative first
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t k = 0; given < global_batch; ++k, ++given) ++shares[remainders[k % n].second];
  return shares;
}

}  // namespace muster::protocol
