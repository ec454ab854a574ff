// The server and its clients over real sockets, in threads of one process.
#include "trainer/coordinator/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/exit_code.h"
#include "common/tcp.h"
#include "trainer/coordinator/client.h"
#include "trainer/coordinator/socket.h"
#include "trainer/protocol/handshake.h"

namespace muster::coordinator {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr auto patience = std::chrono::seconds(20);
const std::atomic<bool> stays{false};

// A server that runs in a thread of its own.
class Running {
 public:
  explicit Running(protocol::Rules rules, const std::string& folder = "") {
    ServerOptions options;
    options.http = "127.0.0.1:0";
    options.token = "secret";
    options.job_uid = "uid";
    options.spec_hash = "hash";
    options.checkpoint_folder = folder;
    options.spec = {{"spec", 1}};
    options.rules = std::move(rules);
    auto opened = Server::open(std::move(options));
    EXPECT_TRUE(opened.ok());
    server_ = *std::move(opened);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Running() {
    server_->abandon();
    join();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  Server& operator*() { return *server_; }
  Server* operator->() { return server_.get(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  std::unique_ptr<Client> connect(const std::string& pod, const std::string& token = "secret") {
    Hello hello;
    hello.pod = pod;
    hello.pod_uid = pod + "-uid";
    auto client = Client::connect(
        address(), token, hello, [this](const Error&) { ++aborts; }, comm::in(patience));
    if (client.ok()) return *std::move(client);
    error = client.error();
    return nullptr;
  }

  std::atomic<int> aborts{0};
  std::optional<Error> error;

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

protocol::Rules rules(int workers, int max_workers) {
  protocol::Rules r;
  r.workers = workers;
  r.max_workers = max_workers;
  r.global_batch = 12;
  return r;
}

std::vector<Assignment> assign(const std::vector<Client*>& clients) {
  std::vector<Assignment> assignments(clients.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      auto got = clients[i]->wait_assignment(comm::in(patience), stays);
      ASSERT_TRUE(got.ok()) << got.error().message;
      assignments[i] = *got;
    });
  }
  for (auto& t : threads) t.join();
  return assignments;
}

// Passes boundaries until one says something.
Result<Boundary> walk(Client& client, std::int64_t& step) {
  while (true) {
    auto boundary = client.boundary(step);
    if (!boundary.ok()) return boundary;
    if (boundary->stop || boundary->leave || boundary->checkpoint || boundary->regroup) {
      return boundary;
    }
    ++step;
    Report report;
    report.step = step;
    report.own_samples = 6 * step;
    client.report(report);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stands for the step's work
  }
}

void wait_for_bytes(const FrameSocket& socket) {
  pollfd fd{socket.fd(), POLLIN, 0};
  (void)::poll(&fd, 1, 1000);
}

TEST(Server, TwoRanksAreAssignedFinishAndTheServerEnds) {
  Running server(rules(2, 2));
  auto a = server.connect("worker-0"), b = server.connect("worker-1");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->spec(), json({{"spec", 1}}));
  EXPECT_EQ(a->job_uid(), "uid");
  const auto assignments = assign({a.get(), b.get()});
  EXPECT_EQ(assignments[0].world_size, 2);
  EXPECT_EQ(assignments[0].rank + assignments[1].rank, 1);
  EXPECT_EQ(assignments[0].shares, (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(assignments[0].key, assignments[1].key);
  EXPECT_EQ(server->state()["phase"], "Running");
  ASSERT_TRUE(a->finish({{"x", 1}}).ok());
  ASSERT_TRUE(b->finish({}).ok());
  a.reset();
  b.reset();
  server.join();
  EXPECT_EQ(server->exit_code(), exit_finished);
  EXPECT_EQ(server->state()["result"]["x"], 1);
  EXPECT_EQ(server.aborts, 0);
}

TEST(Server, AStopComesToAllAtOneBoundary) {
  Running server(rules(2, 2));
  auto a = server.connect("worker-0"), b = server.connect("worker-1");
  ASSERT_TRUE(a && b);
  (void)assign({a.get(), b.get()});
  std::int64_t steps[2] = {0, 0};
  std::thread other([&] {
    const auto boundary = walk(*b, steps[1]);
    EXPECT_TRUE(boundary.ok() && boundary->stop);
    EXPECT_TRUE(b->left().ok());
  });
  server->request_stop();
  const auto boundary = walk(*a, steps[0]);
  ASSERT_TRUE(boundary.ok());
  EXPECT_TRUE(boundary->stop);
  EXPECT_TRUE(a->left().ok());
  other.join();
  EXPECT_EQ(steps[0], steps[1]);
  a.reset();
  b.reset();
  server.join();
  EXPECT_EQ(server->exit_code(), exit_left);
  EXPECT_EQ(server->state()["ledger"]["samplesComputed"], 6 * (steps[0] + steps[1]));
}

TEST(Server, ANewcomerJoinsAndALeaverLeaves) {
  Running server(rules(1, 2));
  auto a = server.connect("worker-0");
  ASSERT_TRUE(a);
  (void)assign({a.get()});
  auto b = server.connect("worker-1");
  ASSERT_TRUE(b);
  Assignment second;
  std::thread newcomer([&] {
    auto got = b->wait_assignment(comm::in(patience), stays);
    ASSERT_TRUE(got.ok());
    second = *got;
  });
  std::int64_t step = 0;
  auto boundary = walk(*a, step);
  newcomer.join();
  ASSERT_TRUE(boundary.ok() && boundary->regroup);
  EXPECT_EQ(boundary->regroup->world_size, 2);
  EXPECT_EQ(second.step, step);
  EXPECT_EQ(second.state_from, 0);
  EXPECT_EQ(second.newcomers, (std::vector<int>{1}));
  a->request_leave();
  std::int64_t other_step = step;
  std::thread stayer([&] {
    const auto told = walk(*b, other_step);
    ASSERT_TRUE(told.ok() && told->regroup);
    EXPECT_EQ(told->regroup->world_size, 1);
  });
  boundary = walk(*a, step);
  stayer.join();
  ASSERT_TRUE(boundary.ok());
  EXPECT_TRUE(boundary->leave);
  EXPECT_TRUE(a->left().ok());
  a.reset();
  EXPECT_TRUE(b->finish({}).ok());
  b.reset();
  server.join();
  EXPECT_EQ(server->exit_code(), exit_finished);
}

TEST(Server, ALostRankAbortsTheOthersWithItsName) {
  Running server(rules(2, 2));
  auto a = server.connect("worker-0"), b = server.connect("worker-1");
  ASSERT_TRUE(a && b);
  (void)assign({a.get(), b.get()});
  b.reset();
  std::int64_t step = 0;
  const auto boundary = walk(*a, step);
  ASSERT_FALSE(boundary.ok());
  EXPECT_EQ(boundary.error().code, Code::peer_lost);
  EXPECT_THAT(boundary.error().message, HasSubstr("worker-1"));
  a.reset();
  server.join();
  EXPECT_EQ(server->exit_code(), exit_failed);
  EXPECT_EQ(server->state()["failure"]["pod"], "worker-1");
}

TEST(Server, OneThatWaitsAndIsToldToLeaveIsSentHome) {
  Running server(rules(2, 2));
  auto a = server.connect("worker-0");
  ASSERT_TRUE(a);
  const std::atomic<bool> leaves{true};
  EXPECT_FALSE(a->wait_assignment(comm::in(patience), leaves).ok());
  EXPECT_EQ(a->sent_home(), int{exit_left});
}

TEST(Server, TheFailureOfOneShardIsToldToAll) {
  Running server(rules(2, 2), "/nowhere");
  auto a = server.connect("worker-0"), b = server.connect("worker-1");
  ASSERT_TRUE(a && b);
  (void)assign({a.get(), b.get()});
  b->checkpoint_failed(4, 1, Error{Code::io, "no space left"});
  for (auto* client : {a.get(), b.get()}) {
    const auto published = client->wait_published(4, comm::in(patience));
    ASSERT_FALSE(published.ok());
    EXPECT_EQ(published.error().message, "no space left");
  }
}

TEST(Server, AWrongTokenIsRefused) {
  Running server(rules(1, 1));
  EXPECT_EQ(server.connect("worker-0", "guessed"), nullptr);
  ASSERT_TRUE(server.error);
  EXPECT_THAT(server.error->message, HasSubstr("token"));
  EXPECT_TRUE(server->state()["members"].empty());
}

// What a stranger may send: the server drops it and goes on.
TEST(Server, GarbageIsDropped) {
  Running server(rules(1, 1));
  const std::string attacks[] = {
      "GET / HTTP/1.1\r\n\r\n", std::string("\xff\xff\xff\xff", 4) + std::string(64, 'x'),
      protocol::encode({{"type", 7}}),
      protocol::encode({{"type", "proof"}, {"nonce", 3}, {"hello", 1}}),
      protocol::encode(
          {{"type", "proof"}, {"nonce", "x"}, {"proof", "y"}, {"hello", json::object()}})};
  for (const auto& attack : attacks) {
    const auto fd = dial_tcp(server.address());
    ASSERT_TRUE(fd.ok());
    ASSERT_EQ(::write(*fd, attack.data(), attack.size()), static_cast<ssize_t>(attack.size()));
    FrameSocket socket(*fd);
    std::vector<json> messages;
    Status status;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (status.ok() && std::chrono::steady_clock::now() < end) {
      wait_for_bytes(socket);
      status = socket.receive(messages);
    }
    EXPECT_FALSE(status.ok()) << attack;
  }
  EXPECT_TRUE(server.connect("worker-0"));
}

// A coordinator that proves the token and then sends `message`.
class Impostor {
 public:
  explicit Impostor(json message) {
    int port = 0;
    listener_ = *listen_tcp("127.0.0.1:0", port);
    address = "127.0.0.1:" + std::to_string(port);
    thread_ = std::thread([this, message = std::move(message)] { serve(message); });
  }
  ~Impostor() {
    thread_.join();
    ::close(listener_);
  }
  std::string address;

 private:
  void serve(const json& message) {
    int fd = -1;
    while (fd < 0) fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    FrameSocket socket(fd);
    socket.queue({{"type", "challenge"}, {"version", protocol::protocol_version}, {"nonce", "n"}});
    std::vector<json> messages;
    while (messages.empty()) {
      (void)socket.flush();
      if (!socket.receive(messages).ok() && messages.empty()) return;
    }
    const auto theirs = messages[0]["nonce"].get<std::string>();
    socket.queue({{"type", "welcome"},
                  {"proof", protocol::proof("secret", "coordinator", "n", theirs)},
                  {"jobUid", 7},
                  {"spec", json::object()}});
    socket.queue(message);
    while (socket.flush().ok()) {
      messages.clear();
      wait_for_bytes(socket);
      if (!socket.receive(messages).ok()) return;
    }
  }
  int listener_ = -1;
  std::thread thread_;
};

TEST(Client, WhatIsOfAnotherTypeIsAnErrorAndNoCrash) {
  const json messages[] = {{{"type", "assignment"}, {"epoch", "x"}},
                           {{"type", "assignment"},
                            {"epoch", 1},
                            {"n", 1},
                            {"rank", 5},
                            {"worldSize", 2},
                            {"key", ""},
                            {"peers", json::array()},
                            {"shares", json::array()},
                            {"step", 0},
                            {"stateFrom", -1},
                            {"newcomers", json::array()},
                            {"checkpoint", ""}},
                           {{"type", "abort"}, {"code", "x"}, {"message", 3}},
                           {{"type", "abort"}, {"code", 99999}},
                           {{"type", "over"}, {"stopped", "yes"}}};
  for (const auto& message : messages) {
    Impostor impostor(message);
    auto client = Client::connect(
        impostor.address, "secret", {}, [](const Error&) {}, comm::in(patience));
    ASSERT_TRUE(client.ok()) << client.error().message;
    EXPECT_FALSE((*client)->wait_assignment(comm::in(patience), stays).ok()) << message;
  }
}

TEST(Client, AChangeOfAnotherTypeIsAnError) {
  for (const json& boundary : {json("x"), json({{"stop", "x"}}), json({{"regroup", 3}})}) {
    Impostor impostor({{"type", "proposal"}, {"id", "x"}, {"step", "y"}});
    Impostor changing({{"type", "commit"}, {"id", 1}, {"boundary", boundary}});
    for (auto* one : {&impostor, &changing}) {
      auto client = Client::connect(
          one->address, "secret", {}, [](const Error&) {}, comm::in(patience));
      ASSERT_TRUE(client.ok());
      EXPECT_TRUE((*client)->boundary(0).ok());  // nothing was proposed that it could wait for
    }
  }
}

TEST(Client, ACoordinatorOfAnotherVersionIsNamed) {
  int port = 0;
  const int listener = *listen_tcp("127.0.0.1:0", port);
  std::thread old([listener] {
    int fd = -1;
    while (fd < 0) fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    FrameSocket socket(fd);
    socket.queue({{"type", "challenge"}, {"version", 999}, {"nonce", "n"}});
    (void)socket.flush();
    std::vector<json> messages;
    while (socket.receive(messages).ok()) wait_for_bytes(socket);
  });
  const auto client = Client::connect(
      "127.0.0.1:" + std::to_string(port), "secret", {}, [](const Error&) {}, comm::in(patience));
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message, HasSubstr("another version"));
  old.join();
  ::close(listener);
}

}  // namespace
}  // namespace muster::coordinator
