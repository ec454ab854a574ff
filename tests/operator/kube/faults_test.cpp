// Client, reflector and the real HTTP transport against a server that fails: the store becomes what
// the server holds, without a busy loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "operator/kube/cpprest_transport.h"
#include "operator/kube/reflector.h"
#include "tests/operator/kube/fake_api_server.h"

namespace muster::kube {
namespace {

using Fault = FakeApiServer::Fault;

struct Pod {
  std::string name;
  int value;
};

class Faults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    [[maybe_unused]] static const bool once = (start_http_threads(4), true);
  }

  void SetUp() override {
    Config config;
    config.server = server.address();
    transport = std::move(*make_cpprest_transport(config));
    client = std::make_unique<Client>(*transport, ClientOptions{});
  }

  void start(double idle_seconds = 60) {
    sink = std::make_unique<StoreSink<Pod>>(
        store, "",
        [](const json& o) {
          return std::make_shared<const Pod>(Pod{o["metadata"]["name"], o["value"].get<int>()});
        },
        [](const auto&, const auto&) {});
    reflector = std::make_unique<Reflector>(*client, pods,
                                            ReflectorOptions{.idle_seconds = idle_seconds}, *sink);
    reflector->start();
  }

  void TearDown() override {
    transport->cancel();
    client->stop();
    if (reflector) reflector->stop();
  }

  std::map<std::string, int> seen() const {
    std::map<std::string, int> result;
    for (const auto& pod : store.all()) result[pod->name] = pod->value;
    return result;
  }

  // Waits until the store is the truth: half a minute at most, for slow machines.
  bool converges() {
    for (int i = 0; i < 3000; ++i) {
      if (reflector->synced() && seen() == server.objects()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  FakeApiServer server;
  std::unique_ptr<HttpTransport> transport;
  std::unique_ptr<Client> client;
  Store<Pod> store;
  std::unique_ptr<StoreSink<Pod>> sink;
  std::unique_ptr<Reflector> reflector;
};

TEST_F(Faults, WithoutThemOneStreamIsAll) {
  for (int i = 0; i < 50; ++i) server.put("pod-" + std::to_string(i), i);
  start();
  ASSERT_TRUE(converges());
  for (int i = 0; i < 50; i += 2) server.erase("pod-" + std::to_string(i));
  server.put("pod-1", 100);
  ASSERT_TRUE(converges());
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(Faults, AServerWithoutStreamedListsIsListed) {
  server.put("a", 1);
  server.fail_watches({Fault::refuse_stream});
  start();
  ASSERT_TRUE(converges());
  server.put("b", 2);
  ASSERT_TRUE(converges());
  EXPECT_EQ(server.requests(), 3) << "the refused stream, a list, a watch";
}

// Each fault hits the first watch, and a change falls into the time in which nothing is watched.
class WatchFault : public Faults, public ::testing::WithParamInterface<Fault> {};

TEST_P(WatchFault, IsSurvived) {
  server.put("kept", 1);
  server.put("lost", 2);
  server.fail_watches({Fault::refuse_stream, GetParam()});
  start(GetParam() == Fault::silence ? 0.3 : 60);
  server.erase("lost");
  server.put("kept", 3);
  server.put("new", 4);
  ASSERT_TRUE(converges());
  EXPECT_LE(server.requests(), 8) << "no busy loop";
}

INSTANTIATE_TEST_SUITE_P(All, WatchFault,
                         ::testing::Values(Fault::gone, Fault::too_many, Fault::broken,
                                           Fault::cut_in_line, Fault::error_event, Fault::silence,
                                           Fault::garbage));

// As above, in the middle of the first list.
class ListFault : public Faults, public ::testing::WithParamInterface<Fault> {};

TEST_P(ListFault, IsSurvived) {
  server.put("a", 1);
  server.fail_watches({Fault::refuse_stream});
  server.fail_calls({GetParam()});
  start();
  server.put("b", 2);
  ASSERT_TRUE(converges());
  EXPECT_LE(server.requests(), 8);
}

INSTANTIATE_TEST_SUITE_P(All, ListFault,
                         ::testing::Values(Fault::gone, Fault::too_many, Fault::broken,
                                           Fault::cut_in_line, Fault::garbage));

TEST_F(Faults, AStreamedListThatIsCutIsNotBelieved) {
  server.put("a", 1);
  server.fail_watches({Fault::cut_in_line, Fault::broken});
  start();
  ASSERT_TRUE(converges());
  EXPECT_FALSE(seen().contains("ha"));
}

TEST_F(Faults, ManyInARow) {
  server.put("a", 1);
  server.fail_watches({Fault::broken, Fault::refuse_stream, Fault::gone, Fault::error_event});
  server.fail_calls({Fault::gone});
  start();
  server.put("b", 2);
  server.erase("a");
  ASSERT_TRUE(converges());
  EXPECT_LE(server.requests(), 12);
}

TEST_F(Faults, ACreateIsRepeatedWhenTheServerIsBusyAndNeverDoubled) {
  server.fail_calls({Fault::too_many, Fault::too_many});
  const auto created =
      client->create(pods, "default", {{"metadata", {{"name", "a"}}}, {"value", 7}});
  ASSERT_TRUE(created.ok()) << created.error().message;
  EXPECT_EQ(server.objects(), (std::map<std::string, int>{{"a", 7}}));
  const auto again = client->create(pods, "default", {{"metadata", {{"name", "a"}}}});
  ASSERT_FALSE(again.ok());
  EXPECT_TRUE(again.error().already_exists());
}

TEST_F(Faults, ACreateWhoseAnswerIsCutIsLeftToTheCaller) {
  server.fail_calls({Fault::cut_in_line});
  const int before = server.requests();
  const auto created = client->create(pods, "default", {{"metadata", {{"name", "a"}}}});
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(server.requests(), before + 1);
}

TEST_F(Faults, AConflictIsToldAsSuch) {
  server.put("a", 1);
  auto pod = json{{"metadata", {{"name", "a"}, {"resourceVersion", "1"}}}, {"value", 2}};
  const auto written = client->update(pods, "default", pod);
  ASSERT_FALSE(written.ok());
  EXPECT_TRUE(written.error().conflict());
  EXPECT_EQ(server.objects().at("a"), 1);
}

TEST_F(Faults, AnAnswerThatComesByteByByteIsRead) {
  server.fail_calls({Fault::slow});
  const auto listed = client->list(pods, "default");
  ASSERT_TRUE(listed.ok()) << listed.error().message;
  EXPECT_TRUE((*listed)["items"].empty());
}

TEST_F(Faults, CancellingEndsWhatWaits) {
  server.fail_watches({Fault::silence});
  start();
  while (server.requests() == 0) std::this_thread::yield();
  transport->cancel();
  reflector->stop();
  SUCCEED();
}

}  // namespace
}  // namespace muster::kube
