#include "trainer/strategy/schedule.h"

#include <gtest/gtest.h>

namespace muster::strategy {
namespace {

job::Schedule schedule(const std::string& type, std::int64_t warmup = 0) {
  job::Schedule s;
  s.type = type;
  s.warmup_steps = warmup;
  return s;
}

TEST(Schedule, WarmUpRisesToTheBaseRate) {
  const auto s = schedule("constant", 4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 0.8, 0, 100, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 0.8, 3, 100, 0), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 0.8, 50, 100, 0), 0.8);
}

TEST(Schedule, CosineEndsAtTheMinimum) {
  auto s = schedule("cosine", 10);
  s.minimum_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 10, 111, 0), 1);
  EXPECT_NEAR(learning_rate(s, 1, 60, 111, 0), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(s, 1, 110, 111, 0), 0.1, 1e-12);
}

TEST(Schedule, LinearFallsEvenly) {
  auto s = schedule("linear");
  s.minimum_ratio = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 0, 11, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 5, 11, 0), 1.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2, 10, 11, 0), 1);
}

TEST(Schedule, StepFallsEveryPeriodAndByDefaultThreeTimes) {
  auto s = schedule("step");
  s.step_size = 5;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 4, 30, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 5, 30, 0), 0.1);
  EXPECT_NEAR(learning_rate(s, 1, 10, 30, 0), 0.01, 1e-15);
  s.step_size = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 9, 30, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 10, 30, 0), 0.1);
}

TEST(Schedule, ExponentialAndPlateau) {
  auto s = schedule("exponential");
  s.gamma = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 3, 10, 0), 0.125);
  s.type = "plateau";
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, 9, 10, 2), 0.25);
}

TEST(Schedule, ARunOfOneStepHasTheBaseRate) {
  for (const char* type : {"constant", "linear", "cosine", "step", "exponential", "plateau"}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(type), 3, 0, 1, 0), 3) << type;
  }
}

}  // namespace
}  // namespace muster::strategy
