// The small parts: store, rate limiter, times, deadlines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "operator/kube/base64.h"
#include "operator/kube/deadlines.h"
#include "operator/kube/rate_limiter.h"
#include "operator/kube/reflector.h"
#include "operator/kube/store.h"
#include "operator/kube/time.h"

namespace muster::kube {
namespace {

using ::testing::ElementsAre;

struct Thing {
  std::string name, owner;
};
std::shared_ptr<const Thing> thing(const std::string& name, const std::string& owner) {
  return std::make_shared<const Thing>(Thing{name, owner});
}
std::vector<std::string> names(const std::vector<std::shared_ptr<const Thing>>& things) {
  std::vector<std::string> result;
  for (const auto& one : things) result.push_back(one->name);
  return result;
}

TEST(Store, FindsByIndexAndForgetsWhatChanged) {
  Store<Thing> store({{"owner", [](const Thing& t) { return t.owner; }}});
  store.put("b", thing("b", "x"));
  store.put("a", thing("a", "x"));
  store.put("c", thing("c", ""));
  EXPECT_THAT(names(store.by("owner", "x")), ElementsAre("a", "b"));
  const auto before = store.put("a", thing("a", "y"));
  EXPECT_EQ(before->owner, "x");
  EXPECT_THAT(names(store.by("owner", "x")), ElementsAre("b"));
  EXPECT_THAT(names(store.by("owner", "y")), ElementsAre("a"));
  EXPECT_TRUE(store.by("owner", "").empty());
  EXPECT_TRUE(store.by("nothing", "x").empty());
  EXPECT_NE(store.erase("b"), nullptr);
  EXPECT_EQ(store.erase("b"), nullptr);
  EXPECT_TRUE(store.by("owner", "x").empty());
  EXPECT_EQ(store.size(), 2u);
}

TEST(StoreSink, AReplacementIsADifference) {
  Store<Thing> store;
  std::vector<std::string> changes;
  StoreSink<Thing> sink(
      store, "one", [](const json& o) { return thing(key_of(o), ""); },
      [&](const auto& before, const auto& after) {
        changes.push_back((before ? "-" + before->name : "") + (after ? "+" + after->name : ""));
      });
  const auto object = [](const char* space, const char* name) {
    return json{{"metadata", {{"namespace", space}, {"name", name}}}};
  };
  store.put("two/x", thing("two/x", ""));  // another reflector's
  sink.put(object("one", "a"));
  sink.put(object("one", "b"));
  changes.clear();
  sink.begin_replace();
  sink.put(object("one", "b"));
  sink.put(object("one", "c"));
  sink.end_replace();
  EXPECT_THAT(changes, ElementsAre("-one/b+one/b", "+one/c", "-one/a"));
  EXPECT_EQ(store.size(), 3u);
}

TEST(RateLimiter, LetsABurstThroughAndThenItsRate) {
  RateLimiter limiter(10, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.reserve(100), 0);
  EXPECT_NEAR(limiter.reserve(100), 0.1, 1e-9);
  EXPECT_NEAR(limiter.reserve(100), 0.2, 1e-9);
  EXPECT_EQ(limiter.reserve(101), 0) << "the store fills again";
  RateLimiter none(0, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(none.reserve(0), 0);
}

TEST(Time, ReadsAndWritesKubernetesTimes) {
  EXPECT_EQ(parse_time("1970-01-01T00:01:40Z"), 100);
  EXPECT_NEAR(*parse_time("2026-12-01T16:54:58.250000Z"), 1796144098.25, 1e-6);
  EXPECT_EQ(format_time(100.9), "1970-01-01T00:01:40Z");
  EXPECT_EQ(format_micro_time(100.25), "1970-01-01T00:01:40.250000Z");
  for (const char* wrong :
       {"", "yesterday", "2026-13-01T00:00:00Z", "2026-12-01", "2026-12-01T00:00:00"}) {
    EXPECT_EQ(parse_time(wrong), std::nullopt) << wrong;
  }
}

TEST(Base64, DecodesWhatKubeconfigsHold) {
  EXPECT_EQ(base64_decode("Q0VSVA=="), "CERT");
  EXPECT_EQ(base64_decode("Q0VS\nVA=="), "CERT");
  EXPECT_FALSE(base64_decode("Q0VSVA=").has_value());
  EXPECT_FALSE(base64_decode("Q$==").has_value());
}

TEST(Deadlines, CallBackUnlessRemoved) {
  Deadlines deadlines;
  std::promise<void> first;
  std::atomic<bool> removed_fired{false};
  const auto removed = deadlines.add(0.05, [&] { removed_fired = true; });
  deadlines.remove(removed);
  deadlines.add(0.1, [&] { first.set_value(); });
  first.get_future().wait();
  EXPECT_FALSE(removed_fired);
}

}  // namespace
}  // namespace muster::kube
