#include "cli/summary.h"

#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/temporary_folder.h"

namespace muster::cli {
namespace {

Progress at_step(std::int64_t step) {
  Progress progress;
  progress.step = step;
  progress.loss = 0.5;
  progress.world_size = 2;
  progress.generation = 3;
  return progress;
}

nlohmann::json in_file(const TemporaryFolder& folder) {
  return nlohmann::json::parse(*read_file(folder.file("summary.json")));
}

TEST(Summary, OfASuccessKeepsWhatRankZeroWrote) {
  const TemporaryFolder folder;
  folder.write("summary.json", R"({"steps": 100, "finalLoss": 0.25, "validation": {"loss": 0.3}})");
  ASSERT_TRUE(
      finish_summary(folder.path(), {.action = Decision::succeed}, at_step(98), 12.5, 1).ok());
  const auto summary = in_file(folder);
  EXPECT_EQ(summary.at("state"), "Succeeded");
  EXPECT_EQ(summary.at("steps"), 100);
  EXPECT_EQ(summary.at("finalLoss"), 0.25);
  EXPECT_EQ(summary.at("wallSeconds"), 12.5);
  EXPECT_EQ(summary.at("restarts"), 1);
  EXPECT_EQ(summary.at("recoveries"), 1);
}

TEST(Summary, OfAFailureNamesTheReasonAndTheLastStep) {
  const TemporaryFolder folder;
  const Verdict verdict{Decision::fail, true, "Diverged", "worker-0: \xff diverged", 4, {}};
  ASSERT_TRUE(finish_summary(folder.path(), verdict, at_step(7), 1, 0).ok());
  const auto summary = in_file(folder);
  EXPECT_EQ(summary.at("state"), "Failed");
  EXPECT_EQ(summary.at("reason"), "Diverged");
  EXPECT_EQ(summary.at("steps"), 7);
  EXPECT_EQ(summary.at("worldSize"), 2);
  EXPECT_EQ(summary.at("generation"), 3);
}

TEST(Summary, OfAStopSaysStopped) {
  const TemporaryFolder folder;
  const Verdict verdict{Decision::stop, false, "Stopped", "stopped after a checkpoint", 75, {}};
  ASSERT_TRUE(finish_summary(folder.path(), verdict, at_step(7), 1, 0).ok());
  EXPECT_EQ(in_file(folder).at("state"), "Stopped");
}

TEST(Summary, IsAnErrorWhenItCannotBeWritten) {
  EXPECT_FALSE(finish_summary("/proc/none", {.action = Decision::succeed}, at_step(1), 1, 0).ok());
}

TEST(Describe, ShowsResultsAndOnlyFilesThatAreThere) {
  const TemporaryFolder folder;
  folder.write("metrics.jsonl", "{}\n");
  const auto text = describe_summary({{"state", "Succeeded"},
                                      {"wallSeconds", 12.0},
                                      {"finalLoss", 0.25},
                                      {"validation", {{"accuracy", 0.9853}}}},
                                     folder.path(), folder.file("checkpoints"));
  EXPECT_NE(text.find("Succeeded after 12 s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("98.5 %"), std::string::npos) << text;
  EXPECT_NE(text.find(folder.file("metrics.jsonl")), std::string::npos) << text;
  EXPECT_EQ(text.find("trained model"), std::string::npos) << text;
}

}  // namespace
}  // namespace muster::cli
