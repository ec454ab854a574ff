#include "trainer/loop/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster::loop {
namespace {

std::vector<nlohmann::json> records(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

class MetricsLogTest : public ::testing::Test {
 protected:
  std::string path_ = ::testing::TempDir() + "/metrics-" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  void write_steps(std::int64_t from, std::int64_t to) {
    auto log = *MetricsLog::open(path_, from);
    for (auto s = from + 1; s <= to; ++s) {
      StepRecord record;
      record.step = s;
      record.loss = 1.0 / static_cast<double>(s);
      ASSERT_TRUE(log->write(record).ok());
    }
  }
};

TEST_F(MetricsLogTest, AResumedRunRepeatsNoStep) {
  write_steps(0, 10);
  write_steps(6, 8);
  const auto all = records(path_);
  ASSERT_EQ(all.size(), 8u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["step"], i + 1);
}

TEST_F(MetricsLogTest, ATornLastLineIsCutOff) {
  write_steps(0, 3);
  std::ofstream(path_, std::ios::app) << "{\"step\": 4, \"lo";
  write_steps(3, 4);
  EXPECT_EQ(records(path_).size(), 4u);
}

TEST_F(MetricsLogTest, NonFiniteNumbersAreOmitted) {
  auto log = *MetricsLog::open(path_, 0);
  StepRecord record;
  record.step = 1;
  record.loss = std::nan("");
  ASSERT_TRUE(log->write(record).ok());
  ASSERT_TRUE(log->write(1, Validation{0.5, std::nan("")}).ok());
  const auto all = records(path_);
  EXPECT_FALSE(all[0].contains("loss"));
  EXPECT_TRUE(all[0]["seconds"].contains("communication"));
  EXPECT_EQ(all[1]["validation"]["loss"], 0.5);
  EXPECT_FALSE(all[1]["validation"].contains("accuracy"));
}

TEST_F(MetricsLogTest, AFolderThatIsNotThereIsNamed) {
  const auto log = MetricsLog::open("/nonexistent/metrics.jsonl", 0);
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.error().message.find("/nonexistent/metrics.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace muster::loop
