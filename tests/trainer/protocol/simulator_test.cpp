#include "tests/trainer/protocol/simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace muster::protocol {
namespace {

// SIMULATOR_SEED=n runs one seed alone; SIMULATOR_SEEDS=n runs 1 to n.
TEST(Simulator, TheInvariantsHoldFor2000Seeds) {
  const char* alone = std::getenv("SIMULATOR_SEED");
  const char* many = std::getenv("SIMULATOR_SEEDS");
  const std::uint64_t first = alone ? std::strtoull(alone, nullptr, 10) : 1;
  const std::uint64_t last = alone ? first : many ? std::strtoull(many, nullptr, 10) : 2000;
  for (auto seed = first; seed <= last; ++seed) {
    const auto broken = Simulation(seed).run();
    ASSERT_EQ(broken, "") << "SIMULATOR_SEED=" << seed;
  }
}

}  // namespace
}  // namespace muster::protocol
