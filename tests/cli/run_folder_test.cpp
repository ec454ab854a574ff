#include "cli/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/temporary_folder.h"

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

TEST(RunFolder, OneRunAtATime) {
  const TemporaryFolder folder;
  {
    const auto first = lock_folder(folder.path());
    ASSERT_TRUE(first.ok());
    const auto second = lock_folder(folder.path());
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find(folder.path()), std::string::npos);
  }
  EXPECT_TRUE(lock_folder(folder.path()).ok());
}

TEST(RunFolder, FieldsThatChangedAreNamedWhenThereIsACheckpoint) {
  const TemporaryFolder folder;
  const auto job = [&](int seed, int epochs) {
    return nlohmann::json{
        {"spec",
         {{"training", {{"seed", seed}, {"epochs", epochs}}},
          {"checkpoint", {{"path", folder.file("checkpoints")}, {"resume", "auto"}}}}}};
  };
  EXPECT_EQ(changed_fields(folder.path(), job(1, 1)), "");
  folder.write("job.json", job(1, 1).dump());
  EXPECT_EQ(changed_fields(folder.path(), job(2, 1)), "") << "there is no checkpoint yet";
  std::filesystem::create_directory(folder.file("checkpoints"));
  folder.write("checkpoints/index-3.json", "x");
  EXPECT_EQ(changed_fields(folder.path(), job(1, 9)), "");
  EXPECT_EQ(changed_fields(folder.path(), job(2, 9)), "spec.training.seed");
}

}  // namespace
}  // namespace muster::cli
