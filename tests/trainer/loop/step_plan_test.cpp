#include "trainer/loop/step_plan.h"

#include <gtest/gtest.h>

namespace muster::loop {
namespace {

job::Training training_of(std::optional<std::int64_t> epochs, std::optional<std::int64_t> steps) {
  job::Training t;
  t.epochs = epochs;
  t.steps = steps;
  return t;
}

TEST(StepPlan, EpochsTakeEverySampleOnceAndTheLastStepWhatIsLeft) {
  const auto run = make_run(training_of(3, {}), 10, 4);
  EXPECT_EQ(run.total_samples, 30);
  EXPECT_EQ(run.total_steps, 8);
  EXPECT_EQ(step_range(run, 7), (Range{28, 30}));
}

TEST(StepPlan, TheRanksPartsAreTheStepForEverySplit) {
  const auto run = make_run(training_of(1, {}), 103, 10);
  for (const std::vector<std::int64_t>& shares :
       {std::vector<std::int64_t>{10}, {5, 5}, {1, 9}, {3, 0, 7}, {2, 2, 2, 2, 2}}) {
    for (std::int64_t step = 0; step < run.total_steps; ++step) {
      auto at = step_range(run, step).begin;
      for (int r = 0; r < static_cast<int>(shares.size()); ++r) {
        const auto mine = rank_range(run, step, shares, r);
        if (mine.size() > 0) {
          EXPECT_EQ(mine.begin, at);
        }
        at += mine.size();
      }
      EXPECT_EQ(at, step_range(run, step).end);
    }
  }
}

TEST(StepPlan, MicroBatchesFollowSizeOrAccumulation) {
  auto t = training_of(1, {});
  t.gradient_accumulation_steps = 4;
  EXPECT_EQ(micro_batches(t, {0, 8}).size(), 4u);
  EXPECT_EQ(micro_batches(t, {0, 7}), (std::vector<Range>{{0, 2}, {2, 4}, {4, 6}, {6, 7}}));
  t.micro_batch_size = 3;
  EXPECT_EQ(micro_batches(t, {0, 8}), (std::vector<Range>{{0, 3}, {3, 6}, {6, 8}}));
  EXPECT_TRUE(micro_batches(t, {5, 5}).empty());
}

TEST(StepPlan, ValidationsAreDueByStepsOrAtEpochsEnds) {
  auto t = training_of(2, {});
  const auto run = make_run(t, 10, 5);  // 4 steps
  EXPECT_FALSE(validation_due(run, t, 0));
  EXPECT_FALSE(validation_due(run, t, 1));
  EXPECT_TRUE(validation_due(run, t, 2));
  EXPECT_TRUE(validation_due(run, t, 4));
  t.validate_every_steps = 3;
  EXPECT_FALSE(validation_due(run, t, 2));
  EXPECT_TRUE(validation_due(run, t, 3));
  EXPECT_TRUE(validation_due(run, t, 4));
}

TEST(StepPlan, PartsCoverEverythingOnce) {
  for (int n = 1; n < 6; ++n) {
    std::int64_t at = 0;
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(part(17, r, n).begin, at);
      at = part(17, r, n).end;
    }
    EXPECT_EQ(at, 17);
  }
}

}  // namespace
}  // namespace muster::loop
