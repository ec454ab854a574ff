#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string written(const std::function<void()>& write) {
  ::testing::internal::CaptureStderr();
  write();
  return ::testing::internal::GetCapturedStderr();
}

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override {
    log::set_json(false);
    log::set_level(log::Level::info);
  }
};

TEST_F(LogTest, ALineHasLevelMessageAndFields) {
  const auto text = written([] {
    log::warning("it slowed down", {{"rank", 2}, {"why", "a slow disk"}, {"ratio", 0.5}});
  });
  EXPECT_THAT(text, HasSubstr("warning it slowed down"));
  EXPECT_THAT(text, HasSubstr("rank=2"));
  EXPECT_THAT(text, HasSubstr("ratio=0.5"));
  EXPECT_THAT(text, EndsWith("\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(LogTest, WhatIsBelowTheLevelIsNotWritten) {
  EXPECT_EQ(written([] { log::debug("hidden"); }), "");
  log::set_level(log::Level::error);
  EXPECT_EQ(written([] { log::warning("hidden"); }), "");
  EXPECT_NE(written([] { log::error("shown"); }), "");
}

TEST_F(LogTest, JsonLinesSurviveAnyText) {
  log::set_json(true);
  const std::string nasty = "a \"quoted\"\nsecond line \\ \x01 \xff";
  const auto text = written([&] { log::info(nasty, {{"path", nasty}, {"n", 3}}); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto line = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(line.is_object()) << text;
  EXPECT_EQ(line["n"], 3);
  EXPECT_THAT(line["path"].get<std::string>(), HasSubstr("a \"quoted\"\nsecond line \\"));
}

TEST_F(LogTest, TextLinesStayOneLine) {
  const auto text = written([] { log::info("first\nsecond", {{"x", "a\nb"}}); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace muster
