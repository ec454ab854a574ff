#include "operator/kube/reflector_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ApiError error(int status, const char* reason = "") {
  return ApiError({Code::protocol, ""}, status, reason);
}

// A server that cannot stream lists.
ReflectorState paging() {
  ReflectorState state;
  state.on_error(error(400), 0);
  return state;
}

TEST(ReflectorState, BeginsWithAStreamedList) {
  ReflectorState state;
  EXPECT_THAT(state.query(300),
              HasSubstr("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
  EXPECT_EQ(state.pause(0.5), 0);
  state.on_version("7");  // of an object within the list: no place to go on from
  EXPECT_TRUE(std::holds_alternative<StreamingList>(state.step()));
  EXPECT_FALSE(state.synced());
  state.on_initial_events_end("42", 1);
  EXPECT_TRUE(state.synced());
  EXPECT_THAT(state.query(300), HasSubstr("resourceVersion=42"));
  EXPECT_THAT(state.query(300), Not(HasSubstr("sendInitialEvents")));
}

TEST(ReflectorState, FallsBackToPages) {
  auto state = paging();
  EXPECT_THAT(state.query(300), HasSubstr("limit=500"));
  EXPECT_THAT(state.query(300), HasSubstr("resourceVersion=0"));
  state.on_page("40", "next", 1);
  EXPECT_THAT(state.query(300), HasSubstr("continue=next"));
  EXPECT_THAT(state.query(300), Not(HasSubstr("resourceVersion")));
  EXPECT_FALSE(state.synced());
  state.on_page("42", "", 1);
  EXPECT_TRUE(state.synced());
  EXPECT_THAT(state.query(300), HasSubstr("watch=true"));
  EXPECT_THAT(state.query(300), HasSubstr("resourceVersion=42"));
}

TEST(ReflectorState, AStreamThatEndsBeforeItsBookmarkWasNone) {
  ReflectorState state;
  state.on_end(30, 1000, 31);
  EXPECT_TRUE(std::holds_alternative<Paging>(state.step()));
}

TEST(ReflectorState, AnExpiredTokenBeginsTheListAnewAtTheNewest) {
  auto state = paging();
  state.on_page("40", "next", 1);
  state.on_error(error(410, "Expired"), 2);
  EXPECT_EQ(std::get<Paging>(state.step()).continue_token, "");
  EXPECT_EQ(std::get<Paging>(state.step()).resource_version, "");
}

TEST(ReflectorState, AWatchGoesOnWhereItEnded) {
  ReflectorState state;
  state.on_initial_events_end("42", 0);
  state.on_version("57");
  state.on_end(300, 12, 300);
  EXPECT_EQ(std::get<Watching>(state.step()).resource_version, "57");
  EXPECT_EQ(state.pause(0), 0);
}

TEST(ReflectorState, OnlyGoneLeadsToAnotherList) {
  for (const auto& e : {error(0), error(429), error(500), error(503)}) {
    ReflectorState state;
    state.on_initial_events_end("42", 0);
    state.on_error(e, 10);
    ASSERT_TRUE(std::holds_alternative<Watching>(state.step())) << e.status;
    EXPECT_EQ(std::get<Watching>(state.step()).resource_version, "42");
    EXPECT_GT(state.pause(0), 0.7);
  }
  ReflectorState state;
  state.on_initial_events_end("42", 0);
  state.on_error(error(410, "Gone"), 10);
  EXPECT_TRUE(std::holds_alternative<StreamingList>(state.step()));
  EXPECT_TRUE(state.synced()) << "the store is old, but it is there";
}

TEST(ReflectorState, AWatchThatEndsAtOnceIsAFailure) {
  ReflectorState state;
  state.on_initial_events_end("42", 0);
  state.on_end(0.2, 0, 1);
  EXPECT_GT(state.pause(0), 0);
}

TEST(ReflectorState, FailuresBackOffToHalfAMinute) {
  ReflectorState state;
  state.on_initial_events_end("42", 0);
  double before = 0;
  for (int i = 0; i < 12; ++i) {
    state.on_error(error(500), i);
    EXPECT_GE(state.pause(0), before);
    before = state.pause(0);
  }
  EXPECT_EQ(before, 30);
  EXPECT_EQ(state.pause(0.5), 45);
}

TEST(ReflectorState, HealthForgetsFailures) {
  ReflectorState state;
  state.on_initial_events_end("42", 0);
  for (int i = 0; i < 5; ++i) state.on_error(error(500), i);
  state.on_end(200, 3, 300);
  EXPECT_EQ(state.pause(0), 0);
}

TEST(ReflectorState, ARefusalToLetUsInIsNoReasonToStopStreaming) {
  for (const int status : {401, 403, 429}) {
    ReflectorState state;
    state.on_error(error(status), 1);
    EXPECT_TRUE(std::holds_alternative<StreamingList>(state.step())) << status;
  }
}

}  // namespace
}  // namespace muster::kube
