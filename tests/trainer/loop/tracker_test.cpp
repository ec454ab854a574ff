#include "trainer/loop/tracker.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::loop {
namespace {

TEST(Tracker, StopsAfterPatienceValidationsWithoutImprovement) {
  job::Spec spec;
  spec.training.early_stopping = job::EarlyStopping{"validation_loss", 2};
  Tracker t;
  t = observe(t, spec, 10, {1.0, 0});
  t = observe(t, spec, 20, {0.9, 0});
  t = observe(t, spec, 30, {0.9, 0});
  EXPECT_FALSE(t.stop);
  t = observe(t, spec, 40, {0.95, 0});
  EXPECT_TRUE(t.stop);
  EXPECT_EQ(t.stopping.step, 20);
}

TEST(Tracker, HigherAccuracyIsBetter) {
  job::Spec spec;
  spec.checkpoint.keep_best = "validation_accuracy";
  Tracker t;
  t = observe(t, spec, 1, {1, 0.5});
  t = observe(t, spec, 2, {2, 0.7});
  t = observe(t, spec, 3, {0, 0.6});
  EXPECT_EQ(t.keep.step, 2);
}

TEST(Tracker, PlateauReducesAndStartsCountingAnew) {
  job::Spec spec;
  spec.training.schedule.type = "plateau";
  spec.training.schedule.patience = 2;
  Tracker t;
  for (int i = 0; i < 5; ++i) t = observe(t, spec, i, {1.0, 0});
  EXPECT_EQ(t.reductions, 2);
}

TEST(Tracker, SurvivesACheckpoint) {
  job::Spec spec;
  spec.checkpoint.keep_best = "validation_loss";
  auto t = observe(Tracker{}, spec, 7, {0.25, std::nan("")});
  t.loss = 3.5;
  const auto back = tracker_from_json(to_json(t));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->keep.step, 7);
  EXPECT_EQ(back->keep.value, 0.25);
  EXPECT_EQ(back->loss, 3.5);
  EXPECT_TRUE(std::isnan(back->validation.accuracy));
  EXPECT_TRUE(std::isnan(back->stopping.value));
  EXPECT_FALSE(tracker_from_json(nlohmann::json::object()).ok());
}

}  // namespace
}  // namespace muster::loop
