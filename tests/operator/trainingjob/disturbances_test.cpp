// Suspension, scaling, deadlines, losses and failures.
#include <gmock/gmock.h>

#include "tests/operator/trainingjob/world.h"

namespace muster::trainingjob {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

World running(const std::vector<std::string>& settings = {}) {
  World world(settings);
  world.settle();
  world.run_all();
  world.settle();
  EXPECT_EQ(world.status().phase, "Running");
  return world;
}

TEST(Suspend, TheCoordinatorIsStoppedAndWorkersFollowByThemselves) {
  auto world = running();
  world.edit({"runPolicy.suspend=true"});
  world.settle();
  EXPECT_TRUE(world.pod("coordinator").deleting);
  EXPECT_FALSE(world.pod("worker-0").deleting)
      << "it leaves at the boundary that the coordinator names";
  EXPECT_NE(world.status().phase, "Suspended");
  for (const char* worker : {"worker-0", "worker-1"}) world.fail(worker, exit_left);
  world.terminate();
  world.settle();
  EXPECT_EQ(world.status().phase, "Suspended");
  EXPECT_TRUE(world.status().is("Suspended"));
  EXPECT_THAT(world.events, Contains("Suspended"));
  EXPECT_TRUE(world.status().attempts.empty()) << "a suspension is no failure";
}

TEST(Suspend, AJobThatIsBornSuspendedHasNoPods) {
  World world({"runPolicy.suspend=true"});
  world.settle();
  EXPECT_TRUE(world.pods().empty());
  EXPECT_EQ(world.status().phase, "Suspended");
  EXPECT_EQ(world.status().attempt, 0);
}

TEST(Suspend, ResumingIsANewAttemptAndCountsNothing) {
  auto world = running({"runPolicy.activeDeadlineSeconds=100"});
  world.edit({"runPolicy.suspend=true"});
  world.settle();
  for (const char* worker : {"worker-0", "worker-1"}) world.fail(worker, exit_left);
  world.terminate();
  world.settle();
  world.now += 1000;
  world.settle();
  ASSERT_EQ(world.status().phase, "Suspended") << "deadlines rest meanwhile";
  world.edit({"runPolicy.suspend=false"});
  world.settle();
  EXPECT_THAT(world.names(),
              ElementsAre("penguins-coordinator-1", "penguins-worker-0-1", "penguins-worker-1-1"));
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().failures, 0);
  EXPECT_THAT(world.events, Contains("Resumed"));
  world.run_all();
  world.settle();
  EXPECT_EQ(world.status().phase, "Running");
}

TEST(Elasticity, MoreWorkersJoinAndFewerStay) {
  auto world = running({"elasticPolicy={minReplicas: 1, maxReplicas: 4}"});
  world.edit({"workers.replicas=4"});
  world.settle();
  EXPECT_EQ(world.names().size(), 5u);
  EXPECT_EQ(world.status().attempt, 1) << "without a restart";
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_THAT(world.events, Contains("ScaledUp"));
  world.run_all();
  world.edit({"workers.replicas=1"});
  world.settle();
  EXPECT_THAT(world.names(), ElementsAre("penguins-coordinator-0", "penguins-worker-0-0"));
  EXPECT_THAT(world.events, Contains("ScaledDown"));
  world.terminate();
  world.settle();
  world.edit({"workers.replicas=2"});
  world.settle();
  world.run_all();
  world.settle();
  EXPECT_EQ(world.names().size(), 3u);
  EXPECT_EQ(world.status().attempt, 1);
}

TEST(Elasticity, AWorkerThatIsDeletedIsReplacedUnderANewName) {
  auto world = running();
  world.pod("worker-1").deleting = true;
  world.settle();
  EXPECT_THAT(world.names(),
              ElementsAre("penguins-coordinator-0", "penguins-worker-0-0", "penguins-worker-1-1"));
  EXPECT_EQ(world.status().incarnation("worker-1"), 1);
  EXPECT_THAT(world.events, Contains("WorkerLost"));
  EXPECT_EQ(world.status().attempt, 1);
}

TEST(Elasticity, AnEvictedWorkerIsReplacedAndNotCounted) {
  auto world = running({"runPolicy.backoffLimit=0"});
  world.evict("worker-0");
  world.settle();
  world.terminate();
  world.settle();
  EXPECT_EQ(world.status().failures, 0);
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_EQ(world.names().size(), 3u);
}

TEST(Elasticity, NobodyIsReplacedOnceTheRunIsOver) {
  auto world = running();
  World::end(world.pod("coordinator"), 0);
  World::end(world.pod("worker-0"), 0);
  world.fail("worker-1", exit_left);
  world.settle();
  EXPECT_EQ(world.status().phase, "Succeeded");
}

TEST(Elasticity, AWorkerThatCameTooLateIsNotWaitedForLong) {
  auto world = running();
  World::end(world.pod("coordinator"), 0);
  world.pod("coordinator").finished = world.now;
  World::end(world.pod("worker-0"), 0);
  world.settle();
  EXPECT_EQ(world.status().phase, "Running") << "worker-1 may be about to end";
  EXPECT_LE(world.look().look_again.value_or(100), 5);
  world.now += 6;
  world.settle();
  EXPECT_EQ(world.status().phase, "Succeeded");
  EXPECT_TRUE(world.pod("worker-1").deleting);
}

TEST(Failure, AWorkerThatFailsStartsAnotherAttempt) {
  auto world = running();
  world.pod("worker-1").termination_message = "terminate called\nout of luck\n";
  world.pod("worker-1").node = "node-7";
  world.fail("worker-1", 1);
  world.settle();
  EXPECT_EQ(world.status().attempt, 2);
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().failures, 1);
  EXPECT_THAT(world.names(),
              ElementsAre("penguins-coordinator-1", "penguins-worker-0-1", "penguins-worker-1-1"));
  ASSERT_EQ(world.status().attempts.size(), 1u);
  const auto& record = world.status().attempts[0];
  EXPECT_EQ(record.reason, "WorkerFailed");
  EXPECT_EQ(record.pod, "penguins-worker-1-0");
  EXPECT_EQ(record.node, "node-7");
  EXPECT_EQ(record.exit_code, 1);
  EXPECT_THAT(record.message, HasSubstr("out of luck"));
}

TEST(Failure, TheSecondTryWaits) {
  auto world = running();
  world.fail("worker-1", 1);
  world.settle();
  world.fail("worker-1", 1);
  world.settle();
  EXPECT_EQ(world.status().phase, "Restarting");
  EXPECT_TRUE(world.names().empty());
  world.now += 1;
  world.settle();
  EXPECT_EQ(world.status().attempt, 3);
}

TEST(Failure, TheBackoffLimitEndsIt) {
  auto world = running({"runPolicy.backoffLimit=1"});
  for (int i = 0; i < 2; ++i) {
    world.fail("worker-0", 1);
    world.settle();
    world.now += 60;
    world.settle();
  }
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_EQ(world.status().find("Failed")->reason, "BackoffLimitExceeded");
  world.terminate();
  EXPECT_TRUE(world.names().empty());
}

TEST(Failure, WrongDataFailAtOnce) {
  auto world = running();
  world.fail("worker-0", exit_invalid_data);
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "NonRetryableExitCode");
  EXPECT_THAT(world.status().message, HasSubstr("the data are wrong"));
}

TEST(Failure, ADivergedRunSaysSo) {
  auto world = running();
  world.fail("worker-0", exit_diverged);
  world.settle();
  EXPECT_TRUE(world.status().is("Diverged"));
}

TEST(Failure, TheRulesOfTheJobComeFirst) {
  auto world = running({"failurePolicy={rules: [{onExitCodes: [42], action: Fail}]}"});
  world.fail("worker-0", 42);
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "FailurePolicy");
}

TEST(Failure, AReasonThatIsIgnoredNeverCounts) {
  auto world =
      running({"runPolicy.backoffLimit=0",
               "failurePolicy={rules: [{onReasons: [OutOfMemory], action: RestartIgnoreLimit}]}"});
  for (int i = 0; i < 3; ++i) {
    world.pod("worker-0").out_of_memory = true;
    world.fail("worker-0", 137);
    world.settle();
    world.now += 60;
    world.settle();
    world.run_all();
    world.settle();
  }
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_EQ(world.status().failures, 0);
  EXPECT_EQ(world.status().restarts, 3);
  EXPECT_EQ(world.status().attempts[0].reason, "OutOfMemory");
}

TEST(Failure, ALostCoordinatorIsADisruption) {
  auto world = running({"runPolicy.backoffLimit=0"});
  world.pod("coordinator").deleting = true;
  world.settle();
  EXPECT_EQ(world.status().attempt, 2);
  EXPECT_EQ(world.status().failures, 0);
}

TEST(Failure, AWorkerThatOnlyFollowedAnotherWaitsForTheVerdict) {
  auto world = running();
  world.fail("worker-0", 1);
  world.pod("worker-0").finished = world.now;
  world.settle();
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_LE(world.look().look_again.value_or(100), 1);
  world.fail("worker-1", exit_invalid_data);
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "NonRetryableExitCode");
}

TEST(Failure, WithoutAVerdictItIsJudgedByItself) {
  auto world = running();
  world.fail("worker-0", 1);
  world.pod("worker-0").finished = world.now;
  world.now += 2;
  world.settle();
  EXPECT_EQ(world.status().attempt, 2);
}

TEST(Failure, TheCoordinatorsVerdictNamesTheCulprit) {
  auto world = running();
  world.pod("coordinator").termination_message =
      R"({"failure": {"pod": "penguins-worker-1-0", "exitCode": 3, "message": "row 7 has 4 columns"}})";
  world.fail("coordinator", 1);
  world.settle();
  EXPECT_EQ(world.status().attempts[0].pod, "penguins-worker-1-0");
  EXPECT_THAT(world.status().message, HasSubstr("row 7 has 4 columns"));
  EXPECT_EQ(world.status().phase, "Failed");
}

TEST(Failure, TheLastTenAttemptsAreKept) {
  auto world = running({"runPolicy.backoffLimit=50"});
  for (int i = 0; i < 14; ++i) {
    world.fail("worker-0", 1);
    world.settle();
    world.now += 60;
    world.settle();
  }
  ASSERT_EQ(world.status().attempts.size(), 10u);
  EXPECT_EQ(world.status().attempts.back().number, 14);
}

TEST(Deadlines, TheWholeJob) {
  auto world = running({"runPolicy.activeDeadlineSeconds=100"});
  world.now += 99;
  EXPECT_NEAR(*world.look().look_again, 1, 1e-6);
  world.now += 1;
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "DeadlineExceeded");
  world.terminate();
  EXPECT_TRUE(world.names().empty());
}

TEST(Deadlines, UntilItRuns) {
  World world({"runPolicy.preRunningDeadlineSeconds=100"});
  world.settle();
  world.refusal = Refusal{"PodCreateFailed", "exceeded quota"};
  world.settle();
  world.now += 100;
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "PreRunningDeadlineExceeded");
  EXPECT_THAT(world.status().message, HasSubstr("exceeded quota"));
}

TEST(Deadlines, OnceItRanThePreRunningDeadlineIsOver) {
  auto world = running({"runPolicy.preRunningDeadlineSeconds=100"});
  world.now += 1000;
  world.settle();
  EXPECT_EQ(world.status().phase, "Running");
}

TEST(Deadlines, WithoutAStepTheAttemptIsRestarted) {
  auto world = running({"runPolicy.progressDeadlineSeconds=60"});
  world.state = {{"phase", "Running"}, {"progress", {{"step", 3}}}};
  world.now += 50;
  world.carry_out(world.look());
  world.now += 59;
  world.carry_out(world.look());
  EXPECT_EQ(world.status().attempt, 1);
  world.now += 2;
  world.settle();
  EXPECT_EQ(world.status().attempt, 2);
  EXPECT_EQ(world.status().attempts[0].reason, "ProgressDeadlineExceeded");
}

}  // namespace
}  // namespace muster::trainingjob
