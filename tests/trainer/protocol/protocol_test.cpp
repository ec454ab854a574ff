#include <gtest/gtest.h>

#include <numeric>

#include "trainer/protocol/boundary_gate.h"
#include "trainer/protocol/frames.h"
#include "trainer/protocol/handshake.h"
#include "trainer/protocol/membership.h"
#include "trainer/protocol/split.h"

namespace muster::protocol {
namespace {

using nlohmann::json;

TEST(Split, SharesSumAndFollowTheWeights) {
  EXPECT_EQ(split_batch(32, {1, 1, 1}), (std::vector<std::int64_t>{11, 11, 10}));
  EXPECT_EQ(split_batch(8, {1, 7}), (std::vector<std::int64_t>{1, 7}));
  EXPECT_EQ(split_batch(2, {1, 1, 1}), (std::vector<std::int64_t>{1, 1, 0}));
  EXPECT_EQ(split_batch(5, {0, 0}), (std::vector<std::int64_t>{3, 2}));
}

TEST(Frames, ArriveInAnyPieces) {
  const auto bytes = encode({{"type", "a"}, {"x", 1}}) + encode({{"type", "b"}});
  FrameReader reader;
  std::vector<std::string> types;
  for (const char c : bytes) {
    reader.append({&c, 1});
    const auto message = reader.next();
    ASSERT_TRUE(message.ok());
    if (*message) types.push_back((**message)["type"]);
  }
  EXPECT_EQ(types, (std::vector<std::string>{"a", "b"}));
}

TEST(Frames, HugeLengthsGarbageAndDepthAreErrors) {
  FrameReader huge;
  huge.append("\xff\xff\xff\xff");
  EXPECT_FALSE(huge.next().ok());
  FrameReader garbage;
  garbage.append(std::string("\0\0\0\3abc", 7));
  EXPECT_FALSE(garbage.next().ok());
  json deep = 1;
  for (int i = 0; i < 40; ++i) deep = json::array({deep});
  FrameReader reader;
  reader.append(encode({{"type", "x"}, {"v", deep}}));
  EXPECT_FALSE(reader.next().ok());
  FrameReader untyped;
  untyped.append(encode(json::object()));
  EXPECT_FALSE(untyped.next().ok());
}

TEST(Handshake, OnlyTheTokenProves) {
  const json good{{"proof", proof("token", "rank", "a", "b")}};
  EXPECT_TRUE(check_proof(good, "token", "rank", "a", "b").ok());
  EXPECT_EQ(check_proof(good, "other", "rank", "a", "b").error().code, Code::unauthenticated);
  EXPECT_FALSE(check_proof(good, "token", "coordinator", "a", "b").ok());
  EXPECT_FALSE(check_proof(good, "token", "rank", "a", "c").ok());
  EXPECT_FALSE(check_proof({{"proof", 3}}, "token", "rank", "a", "b").ok());
}

TEST(BoundaryGate, WaitsAtAPromisedStepUntilTheCommit) {
  BoundaryGate gate;
  EXPECT_TRUE(gate.pass(0)->empty());
  EXPECT_TRUE(gate.propose(1, 2));
  EXPECT_TRUE(gate.pass(1)->empty());
  EXPECT_FALSE(gate.pass(2).has_value());
  gate.commit(1, {{"stop", true}});
  EXPECT_TRUE(gate.pass(2)->value("stop", false));
}

TEST(BoundaryGate, RefusesAPassedStepAndForgetsAWithdrawnOne) {
  BoundaryGate gate;
  (void)gate.pass(5);
  EXPECT_FALSE(gate.propose(1, 5));
  EXPECT_TRUE(gate.propose(2, 6));
  gate.withdraw(2);
  EXPECT_TRUE(gate.pass(6)->empty());
  gate.commit(2, {{"stop", true}});  // too late to mean anything
  EXPECT_TRUE(gate.pass(7)->empty());
}

class MembershipTest : public ::testing::Test {
 protected:
  void start(int workers, int max_workers) {
    Rules rules;
    rules.workers = workers;
    rules.max_workers = max_workers;
    rules.global_batch = 12;
    rules.checkpoints = true;
    m = std::make_unique<Membership>(rules);
    for (int i = 1; i <= workers; ++i) {
      (void)m->joined(i, {{"pod", "worker-" + std::to_string(i)}}, 0);
      last = m->received(i, {{"type", "ready"}}, 0);
    }
  }
  // All ranks promise to wait; the actions of the last answer.
  Membership::Actions promise(const Membership::Actions& proposals) {
    Membership::Actions out;
    for (const auto& a : proposals) {
      if (a.message.value("type", "") != "proposal") continue;
      out = m->received(
          a.to, {{"type", "answer"}, {"id", a.message["id"]}, {"accepted", true}, {"step", 1}}, 0);
    }
    return out;
  }
  std::unique_ptr<Membership> m;
  Membership::Actions last;
};

TEST_F(MembershipTest, TheFirstGenerationBeginsWhenAllAreReady) {
  start(3, 3);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[2].message["rank"], 2);
  EXPECT_EQ(last[0].message["shares"], json({4, 4, 4}));
  EXPECT_EQ(m->phase(), Phase::running);
}

TEST_F(MembershipTest, ADeathEndsTheAttemptForAllWithItsName) {
  start(3, 3);
  const auto out = m->disconnected(2, 1);
  EXPECT_EQ(m->phase(), Phase::failed);
  EXPECT_NE(m->failure()->message.find("worker-2"), std::string::npos);
  EXPECT_EQ(std::count_if(out.begin(), out.end(),
                          [](auto& a) { return a.message.value("type", "") == "abort"; }),
            3);
}

TEST_F(MembershipTest, SilenceIsADeath) {
  start(2, 2);
  (void)m->received(1, {{"type", "heartbeat"}, {"step", 3}}, 4);
  (void)m->tick(4);
  EXPECT_EQ(m->phase(), Phase::failed);
}

TEST_F(MembershipTest, ALeaverIsReplacedInSharesAndANewcomerGetsState) {
  start(3, 3);
  auto out = promise(m->received(2, {{"type", "leave"}}, 0));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_TRUE(out[0].message["boundary"]["leave"]);
  EXPECT_EQ(out[1].message["boundary"]["regroup"]["shares"], json({6, 6}));
  (void)m->received(1, {{"type", "heartbeat"}, {"step", 99}}, 0);
  (void)m->received(3, {{"type", "heartbeat"}, {"step", 99}}, 0);
  (void)m->joined(9, {{"pod", "worker-9"}}, 0);
  out = promise(m->received(9, {{"type", "ready"}}, 0));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[2].message["newcomers"], json({2}));
  EXPECT_EQ(out[2].message["stateFrom"], 0);
  EXPECT_EQ(m->generation(), 3u);
}

// Found by the simulator: a rank forgot a committed change for the next proposal.
TEST_F(MembershipTest, NothingIsProposedBeforeTheLastChangeHasHappenedEverywhere) {
  start(2, 3);
  (void)m->joined(9, {{"pod", "worker-9"}}, 0);
  const auto committed = promise(m->received(9, {{"type", "ready"}}, 0));
  ASSERT_EQ(committed.size(), 3u);
  EXPECT_TRUE(m->stop_requested(0).empty());
  for (const MemberId id : {1, 2}) {
    EXPECT_TRUE(m->received(id, {{"type", "heartbeat"}, {"step", 99}}, 0).empty());
  }
  EXPECT_EQ(m->received(9, {{"type", "heartbeat"}, {"step", 99}}, 0).size(), 3u);
}

TEST_F(MembershipTest, ATooLateAnswerMovesTheStep) {
  start(2, 2);
  const auto first = m->stop_requested(0);
  ASSERT_EQ(first.size(), 2u);
  const auto step = first[0].message["step"].get<std::int64_t>();
  const auto out = m->received(1,
                               {{"type", "answer"},
                                {"id", first[0].message["id"]},
                                {"accepted", false},
                                {"step", step + 10}},
                               0);
  ASSERT_EQ(out.size(), 4u);  // two withdrawals, two proposals
  EXPECT_GT(out[2].message["step"].get<std::int64_t>(), step + 10);
}

// A shard of checkpoint 5 as `rank` of generation `n` acknowledges it.
json shard(int rank, std::uint64_t n = 1) {
  json message{{"type", "shard"}, {"step", 5}, {"generation", n}, {"shard", {{"rank", rank}}}};
  if (rank == 0) message["head"] = {{"a", 1}};
  return message;
}

TEST_F(MembershipTest, ACheckpointIsPublishedAfterTheLastShard) {
  start(2, 2);
  EXPECT_TRUE(m->received(1, shard(0), 0).empty());
  EXPECT_TRUE(m->received(1, shard(0), 0).empty());
  const auto out = m->received(2, shard(1), 0);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].kind, Action::publish);
  EXPECT_EQ(out[0].message["shards"].size(), 2u);
}

TEST_F(MembershipTest, AFailedShardIsToldToAllAtOnceAndNothingIsPublished) {
  start(2, 2);
  const auto out = m->received(
      2, {{"type", "shard"}, {"step", 5}, {"generation", 1}, {"error", "no space left"}}, 0);
  ASSERT_EQ(out.size(), 2u);
  for (const auto& a : out) EXPECT_EQ(a.message["error"], "no space left");
  EXPECT_TRUE(m->received(1, shard(0), 0).empty());
  EXPECT_EQ(m->phase(), Phase::running);
}

TEST_F(MembershipTest, AShardOfAnotherRankOrGenerationEndsTheAttempt) {
  for (const auto& lie : {shard(0), shard(1, 7)}) {
    start(2, 2);
    (void)m->received(2, lie, 0);
    EXPECT_EQ(m->phase(), Phase::failed);
    EXPECT_NE(m->failure()->message.find("worker-2"), std::string::npos);
  }
}

TEST_F(MembershipTest, ASecondConnectionOfOneIdentityFencesTheFirst) {
  Rules rules;
  rules.workers = 1;
  m = std::make_unique<Membership>(rules);
  const json hello{{"pod", "worker-1"}, {"podUid", "u"}, {"localRank", 0}};
  (void)m->joined(1, hello, 0);
  (void)m->received(1, {{"type", "ready"}}, 0);
  const auto out = m->joined(2, hello, 1);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0].kind, Action::drop);
  EXPECT_EQ(out[0].to, 1);
  EXPECT_EQ(m->phase(), Phase::failed);
}

TEST_F(MembershipTest, AnotherLocalRankOfThePodIsNotFenced) {
  start(1, 2);
  EXPECT_TRUE(m->joined(8, {{"pod", "w"}, {"podUid", "u"}, {"localRank", 0}}, 0).empty());
  EXPECT_TRUE(m->joined(9, {{"pod", "w"}, {"podUid", "u"}, {"localRank", 1}}, 0).empty());
}

TEST_F(MembershipTest, AJoinPastTheEndSendsTheNewcomerHome) {
  start(1, 2);
  (void)m->joined(9, {{"pod", "worker-9"}}, 0);
  ASSERT_EQ(promise(m->received(9, {{"type", "ready"}}, 0)).size(), 2u);
  const auto out = m->received(1, {{"type", "finished"}, {"step", 1}, {"result", {{"x", 1}}}}, 0);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0].to, 9);
  EXPECT_EQ(out[0].message["type"], "over");
  EXPECT_EQ(m->phase(), Phase::succeeded);
  EXPECT_EQ(m->state()["result"]["x"], 1);
}

TEST_F(MembershipTest, AStopPastTheEndIsASuccess) {
  start(1, 1);
  ASSERT_EQ(promise(m->stop_requested(0)).size(), 1u);
  (void)m->received(1, {{"type", "finished"}, {"step", 1}}, 0);
  EXPECT_EQ(m->phase(), Phase::succeeded);
}

TEST_F(MembershipTest, AStopIsOverWhenEverybodyHasSaidSo) {
  start(2, 2);
  ASSERT_EQ(promise(m->stop_requested(0)).size(), 2u);
  EXPECT_EQ(m->phase(), Phase::stopping);
  (void)m->received(1, {{"type", "left"}, {"step", 2}}, 0);
  EXPECT_EQ(m->phase(), Phase::stopping);
  (void)m->received(2, {{"type", "left"}, {"step", 2}}, 0);
  EXPECT_EQ(m->phase(), Phase::stopped);
}

TEST_F(MembershipTest, ADeathBeforeTheCommittedStopIsADeath) {
  start(2, 2);
  ASSERT_EQ(promise(m->stop_requested(0)).size(), 2u);
  (void)m->disconnected(1, 0);
  EXPECT_EQ(m->phase(), Phase::failed);
}

TEST_F(MembershipTest, ALeaverIsNeededUntilTheOthersHavePassedItsBoundary) {
  for (const bool passed : {false, true}) {
    start(3, 3);
    const auto out = promise(m->received(2, {{"type", "leave"}}, 0));
    ASSERT_EQ(out.size(), 3u);
    for (const MemberId id : {1, 3}) {
      (void)m->received(id, {{"type", "heartbeat"}, {"step", passed ? 99 : 1}}, 4);
    }
    (void)m->tick(4);  // the leaver is silent
    EXPECT_EQ(m->phase(), passed ? Phase::running : Phase::failed);
  }
}

TEST_F(MembershipTest, OneThatWaitsMayLeaveAtOnceAndItsSilenceHurtsNobody) {
  start(1, 1);
  (void)m->joined(8, {{"pod", "worker-8"}}, 0);
  (void)m->received(8, {{"type", "ready"}}, 0);
  const auto out = m->received(8, {{"type", "leave"}}, 0);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message, json({{"type", "over"}, {"stopped", true}}));
  (void)m->joined(9, {{"pod", "worker-9"}}, 0);
  (void)m->received(1, {{"type", "heartbeat"}, {"step", 1}}, 4);
  const auto later = m->tick(4);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].kind, Action::drop);
  EXPECT_EQ(m->phase(), Phase::running);
}

TEST_F(MembershipTest, WhatIsOfAnotherTypeIsIgnored) {
  start(1, 1);
  (void)m->received(1, {{"type", "heartbeat"}, {"step", "x"}, {"samples", json::array()}}, 0);
  EXPECT_EQ(m->state()["progress"], json::object());
  (void)m->received(1, {{"type", "answer"}, {"id", "x"}, {"accepted", 1}}, 0);
  (void)m->received(1, {{"type", "finished"}, {"step", nullptr}, {"ownSamples", "x"}}, 0);
  EXPECT_EQ(m->phase(), Phase::succeeded);
}

}  // namespace
}  // namespace muster::protocol
