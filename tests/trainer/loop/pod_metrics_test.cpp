#include "trainer/loop/pod_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::loop {
namespace {

using ::testing::HasSubstr;

TEST(PodMetrics, ShowsWhatAForkedRankWrote) {
  auto pod = *PodMetrics::create(2);
  const auto child = ::fork();
  if (child == 0) {
    auto& slot = pod->slot(1);
    slot.rank = 5;
    StepRecord record;
    record.step = 12;
    record.seconds.forward = 0.02;
    slot.observe(record, 32, 4096);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto text = pod->exposition();
  EXPECT_THAT(text, HasSubstr("muster_trainer_step{rank=\"5\"} 12"));
  EXPECT_THAT(text, HasSubstr("muster_trainer_samples_total{rank=\"5\"} 32"));
  EXPECT_THAT(text, HasSubstr("muster_trainer_communication_bytes_total{rank=\"5\"} 4096"));
  EXPECT_THAT(text, HasSubstr("phase=\"forward\"} 0.02"));
  EXPECT_THAT(text, HasSubstr("muster_trainer_step_duration_seconds_bucket{le=\"0.025\"} 1"));
  EXPECT_THAT(text, HasSubstr("muster_trainer_step_duration_seconds_bucket{le=\"0.01\"} 0"));
  EXPECT_THAT(text, HasSubstr("muster_trainer_step_duration_seconds_count 1"));
}

}  // namespace
}  // namespace muster::loop
