#include <gmock/gmock.h>

#include "tests/operator/trainingjob/world.h"

namespace muster::trainingjob {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A job whose pods run.
World running(const std::vector<std::string>& settings = {}) {
  World world(settings);
  world.settle();
  world.run_all();
  world.settle();
  EXPECT_EQ(world.status().phase, "Running");
  return world;
}

TEST(Plan, AJobGetsACoordinatorAndItsWorkers) {
  World world;
  const auto first = world.look();
  EXPECT_TRUE(first.intent) << "the attempt is written down before anything is created";
  EXPECT_TRUE(first.prepare);
  EXPECT_EQ(first.status.workers.active, 2) << "what is about to be created counts";
  world.settle();
  EXPECT_THAT(world.names(),
              ElementsAre("penguins-coordinator-0", "penguins-worker-0-0", "penguins-worker-1-0"));
  EXPECT_EQ(world.status().phase, "Starting");
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_TRUE(world.status().is("Valid"));
  EXPECT_THAT(world.events, ElementsAre("CreatedPods"));
}

TEST(Plan, AnUndisturbedJobAsksForNothing) {
  auto world = running();
  const auto p = world.look();
  EXPECT_FALSE(p.intent || p.news || p.prepare);
  EXPECT_TRUE(p.create.empty() && p.remove.empty() && p.announce.empty());
}

TEST(Plan, TheCoordinatorSaysWhetherItRuns) {
  World world;
  world.settle();
  world.run_all();
  world.state = {{"phase", "Starting"}};
  world.settle();
  EXPECT_EQ(world.status().phase, "Starting");
  world.state = {{"phase", "Running"},
                 {"progress", {{"step", 3}, {"totalSteps", 12}, {"loss", 0.5}}}};
  world.settle();
  EXPECT_EQ(world.status().phase, "Running");
  EXPECT_EQ(world.status().progress["percentage"], 25);
  EXPECT_EQ(world.status().progress["loss"], "0.5");
  EXPECT_THAT(world.events, Contains("JobRunning"));
}

TEST(Plan, TheEndIsSuccessWithTheResult) {
  auto world = running();
  world.state = {{"phase", "Finished"},
                 {"result",
                  {{"parametersSha256", "abc"},
                   {"steps", 12},
                   {"finalLoss", 0.25},
                   {"validation", {{"loss", 0.5}, {"accuracy", 0.75}}}}}};
  world.finish_all();
  world.settle();
  EXPECT_EQ(world.status().phase, "Succeeded");
  EXPECT_TRUE(world.status().is("Succeeded"));
  EXPECT_FALSE(world.status().is("Running"));
  EXPECT_EQ(world.status().result["parametersSha256"], "abc");
  EXPECT_EQ(world.status().result["finalLoss"], "0.25");
  EXPECT_EQ(world.status().result["validationAccuracy"], "0.75");
  EXPECT_EQ(world.pods().size(), 3u) << "cleanPodPolicy Running leaves what has ended";
}

TEST(Plan, ACoordinatorThatEndedLeavesItsResultInItsMessage) {
  auto world = running();
  world.pod("coordinator").termination_message = R"({"result": {"parametersSha256": "abc"}})";
  world.finish_all();
  world.settle();
  EXPECT_EQ(world.status().result["parametersSha256"], "abc");
}

TEST(Plan, AnotherControllersJobIsLeftAlone) {
  World world({"runPolicy.managedBy=kueue.x-k8s.io/multikueue"});
  const auto p = world.look();
  EXPECT_TRUE(p.create.empty());
  EXPECT_FALSE(p.intent || p.news);
  EXPECT_EQ(to_json(p.status, "x"), to_json(world.status(), "x"));
}

TEST(Plan, AJobThatIsBeingDeletedIsLeftAlone) {
  World world;
  world.job().deleting = true;
  EXPECT_TRUE(world.look().create.empty());
}

TEST(Plan, WhatTheSchemaCouldNotSeeFailsInWords) {
  World world({"model={builtin: {name: mlp, config: {hiden: [3]}}}"});
  world.settle();
  EXPECT_EQ(world.status().phase, "Failed");
  EXPECT_EQ(world.status().find("Failed")->reason, "InvalidSpec");
  EXPECT_THAT(world.status().message, HasSubstr("did you mean hidden?"));
  EXPECT_FALSE(world.status().is("Valid"));
  EXPECT_TRUE(world.pods().empty());
}

TEST(Plan, WhatComesLaterFailsInWords) {
  World world({"strategy.type=zero"});
  world.settle();
  EXPECT_EQ(world.status().find("Failed")->reason, "InvalidSpec");
  EXPECT_THAT(world.status().message, HasSubstr("later version"));
}

TEST(Plan, ASpecThatDriftedIsACondition) {
  auto world = running();
  world.edit({"training.optimizer.learningRate=0.5"});
  world.settle();
  EXPECT_TRUE(world.status().is("SpecDrift"));
  EXPECT_EQ(world.status().phase, "Running");
  world.edit({"training.optimizer.learningRate=0.001"});
  world.settle();
  EXPECT_FALSE(world.status().is("SpecDrift"));
}

TEST(Plan, MoreStepsAreNoDrift) {
  auto world = running();
  world.edit({"training.epochs=7"});
  world.settle();
  EXPECT_FALSE(world.status().is("SpecDrift"));
}

TEST(Plan, ARefusalIsToldInTheApisWordsAndForgotten) {
  World world;
  world.settle();
  world.refusal = Refusal{"PodCreateFailed", "pods \"x\" is forbidden: exceeded quota: few"};
  world.settle();
  const auto* scheduled = world.status().find("Scheduled");
  ASSERT_NE(scheduled, nullptr);
  EXPECT_FALSE(scheduled->status);
  EXPECT_EQ(scheduled->reason, "PodCreateFailed");
  EXPECT_THAT(world.status().message, HasSubstr("exceeded quota"));
  EXPECT_THAT(world.events, Contains("FailedToCreatePods"));
  world.refusal.reset();
  world.settle();
  EXPECT_TRUE(world.status().is("Scheduled"));
  EXPECT_EQ(world.status().message, "");
}

TEST(Plan, APodWithoutItsImageIsToldWithItsName) {
  World world;
  world.settle();
  world.pod("worker-1").trouble = "ImagePullFailed";
  world.pod("worker-1").trouble_message = "image not found";
  world.settle();
  EXPECT_EQ(world.status().find("Scheduled")->reason, "ImagePullFailed");
  EXPECT_EQ(world.status().message, "penguins-worker-1-0: image not found");
}

TEST(Plan, SaysItsWordsOnce) {
  World world;
  world.settle();
  world.pod("worker-1").trouble = "Unschedulable";
  world.pod("worker-1").trouble_message = "0/1 nodes";
  world.settle();
  const auto told = world.events.size();
  for (int i = 0; i < 3; ++i) {
    world.pod("worker-1").trouble_message = "0/" + std::to_string(i + 2) + " nodes";
    world.carry_out(world.look());
  }
  EXPECT_EQ(world.events.size(), told);
}

TEST(Plan, TimeToLiveDeletesTheJob) {
  auto world = running({"runPolicy.ttlSecondsAfterFinished=60"});
  world.finish_all();
  world.settle();
  EXPECT_FALSE(world.deleted());
  world.now += 59;
  EXPECT_NEAR(*world.look().look_again, 1, 1e-6);
  world.now += 1;
  world.settle();
  EXPECT_TRUE(world.deleted());
}

struct Clean {
  const char* policy;
  std::size_t left;
};
class CleanPods : public ::testing::TestWithParam<Clean> {};

TEST_P(CleanPods, AsThePolicySays) {
  auto world = running({std::string("runPolicy.cleanPodPolicy=") + GetParam().policy});
  World::end(world.pod("coordinator"), 0);
  World::end(world.pod("worker-0"), 0);
  World::end(world.pod("worker-1"), 0);
  // One that came too late to take part, and is scaled away.
  auto late = std::make_shared<PodObject>(world.pod("worker-1"));
  late->index = 2;
  late->name = "penguins-worker-2-0";
  late->uid = "late";
  late->phase = PodObject::Phase::running;
  late->exit_code.reset();
  world.pods().push_back(late);
  world.settle();
  ASSERT_EQ(world.status().phase, "Succeeded");
  std::erase_if(world.pods(), [](const auto& pod) { return pod->deleting; });
  EXPECT_EQ(world.pods().size(), GetParam().left);
}

INSTANTIATE_TEST_SUITE_P(All, CleanPods,
                         ::testing::Values(Clean{"None", 4}, Clean{"Running", 3}, Clean{"All", 0}),
                         [](const auto& info) { return info.param.policy; });

// Whatever happens to pods, in any order: the plan settles, no two pods share a place or a name
// (World checks both), and once all is well again the job succeeds or has failed for good.
TEST(Plan, SettlesAfterAnySequenceOfEvents) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    unsigned random = seed * 2654435761u;
    const auto next = [&](unsigned below) {
      random = random * 1664525u + 1013904223u;
      return (random >> 16) % below;
    };
    World world({"elasticPolicy={minReplicas: 1, maxReplicas: 5}", "runPolicy.backoffLimit=3"});
    for (int event = 0; event < 40; ++event) {
      ASSERT_LT(world.settle(), 20);
      world.now += next(10);
      if (world.pods().empty()) continue;
      auto& pod = *world.pods()[next(static_cast<unsigned>(world.pods().size()))];
      switch (next(9)) {
        case 0:
          pod.deleting = true;
          break;
        case 1:
          if (!pod.ended()) World::end(pod, 1);
          break;
        case 2:
          if (!pod.ended()) World::end(pod, exit_left);
          break;
        case 3:
          if (!pod.ended()) World::end(pod, 137);
          break;
        case 4:
          pod.disruption = "NodeLost";
          pod.deleting = true;
          break;
        case 5:
          world.edit({"workers.replicas=" + std::to_string(1 + next(5))});
          break;
        case 6:
          world.edit({next(2) == 0 ? "runPolicy.suspend=true" : "runPolicy.suspend=false"});
          break;
        case 7:
          world.terminate();
          break;
        default:
          world.run_all();
          break;
      }
    }
    world.edit({"runPolicy.suspend=false"});
    for (int round = 0; round < 60 && !world.status().finished(); ++round) {
      world.now += 31;
      world.settle();
      world.terminate();
      world.settle();
      world.run_all();
      world.settle();
      if (world.status().phase == "Running") world.finish_all();
    }
    world.settle();
    EXPECT_TRUE(world.status().finished())
        << world.status().phase << ": " << world.status().message;
  }
}

}  // namespace
}  // namespace muster::trainingjob
