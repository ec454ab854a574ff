#include "cli/run_folder.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/cli/temporary_folder.h"

namespace muster::cli {
namespace {

TEST(JobUid, IsAUuidThatStays) {
  const TemporaryFolder folder;
  const auto first = job_uid(folder.path());
  ASSERT_TRUE(first.ok());
  const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  EXPECT_TRUE(std::regex_match(*first, uuid)) << *first;
  EXPECT_EQ(*job_uid(folder.path()), *first);
}

TEST(JobUid, DiffersByFolder) {
  const TemporaryFolder one;
  const TemporaryFolder other;
  EXPECT_NE(*job_uid(one.path()), *job_uid(other.path()));
}

TEST(Epoch, GrowsOverRuns) {
  const TemporaryFolder folder;
  EXPECT_EQ(*next_epoch(folder.path()), 1);
  EXPECT_EQ(*next_epoch(folder.path()), 2);
}

TEST(Epoch, OfADamagedFileIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  folder.write("epoch", "seven");
  const auto epoch = next_epoch(folder.path());
  ASSERT_FALSE(epoch.ok());
  EXPECT_NE(epoch.error().message.find(folder.file("epoch")), std::string::npos);
}

}  // namespace
}  // namespace muster::cli
