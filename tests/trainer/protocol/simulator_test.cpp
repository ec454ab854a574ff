#include "tests/trainer/protocol/simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace muster::protocol {
namespace {

// SIMULATOR_SEED=n runs one seed alone.
TEST(Simulator, TheInvariantsHoldFor2000Seeds) {
  const char* alone = std::getenv("SIMULATOR_SEED");
  const std::uint64_t first = alone ? std::strtoull(alone, nullptr, 10) : 1;
  const std::uint64_t last = alone ? first : 2000;
  for (auto seed = first; seed <= last; ++seed) {
    const auto broken = Simulation(seed).run();
    ASSERT_EQ(broken, "") << "SIMULATOR_SEED=" << seed;
  }
}

}  // namespace
}  // namespace muster::protocol
