#include "trainer/loop/launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "common/exit_code.h"

namespace muster::loop {
namespace {

// launch() masks signals and forks, so each case runs in a process of its own.
int exit_code_of(int ranks, int (*rank)(int)) {
  const auto code = launch({ranks, ""}, [rank](int local, RankMetrics&) { return rank(local); });
  return code.ok() ? *code : 100;
}

TEST(LauncherDeathTest, EndsWithTheRanksCode) {
  EXPECT_EXIT(std::_Exit(exit_code_of(2, [](int) { return 0; })), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(exit_code_of(2, [](int r) { return r == 1 ? 75 : 0; })),
              ::testing::ExitedWithCode(exit_left), "");
}

TEST(LauncherDeathTest, AFailedRankTakesTheOthersAlong) {
  EXPECT_EXIT(std::_Exit(exit_code_of(2,
                                      [](int r) {
                                        if (r == 0) return 3;
                                        ::pause();  // ends only by the launcher's hand
                                        return 0;
                                      })),
              ::testing::ExitedWithCode(3), "");
}

TEST(LauncherDeathTest, AKilledRankIsAFailure) {
  EXPECT_EXIT(std::_Exit(exit_code_of(1,
                                      [](int) {
                                        ::raise(SIGKILL);
                                        return 0;
                                      })),
              ::testing::ExitedWithCode(137), "");
}

}  // namespace
}  // namespace muster::loop
