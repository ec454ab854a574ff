#include "common/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/tcp.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ask(int port, const std::string& request) {
  const auto fd = dial_tcp("127.0.0.1:" + std::to_string(port));
  if (!fd.ok()) return fd.error().message;
  (void)::send(*fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(*fd, buffer, sizeof(buffer), 0)) > 0;) {
    reply.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(*fd);
  return reply;
}

std::string get(int port, const std::string& path, const std::string& header = "") {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + header + "\r\n");
}

std::unique_ptr<HttpServer> serve() {
  auto server = HttpServer::start(
      "127.0.0.1:0",
      {{"/metrics",
        [](const std::string& who) {
          return HttpReply{200, "text/x", "for " + who};
        }},
       {"/broken", [](const std::string&) -> HttpReply { throw std::runtime_error("oh"); }}});
  EXPECT_TRUE(server.ok());
  return *std::move(server);
}

TEST(HttpServer, AnswersItsPathsAndNoOthers) {
  const auto server = serve();
  const auto reply = get(server->port(), "/metrics", "Authorization: Bearer t\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/x\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\n\r\nfor Bearer t"));
  for (const char* path : {"/", "/metricsx", "/metrics/x", "/other"}) {
    EXPECT_THAT(get(server->port(), path), StartsWith("HTTP/1.1 404")) << path;
  }
  EXPECT_THAT(ask(server->port(), "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
}

TEST(HttpServer, AHandlerThatThrowsIsAnErrorOfOneRequest) {
  const auto server = serve();
  EXPECT_THAT(get(server->port(), "/broken"), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(get(server->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, GarbageAndLongRequestsAreTurnedAway) {
  const auto server = serve();
  EXPECT_THAT(ask(server->port(), "nonsense\r\n\r\n"), HasSubstr(" 400 Bad Request"));
  const auto reply = get(server->port(), "/metrics", "X: " + std::string(20'000, 'x') + "\r\n");
  EXPECT_THAT(reply, ::testing::Not(HasSubstr("200 OK")));
  EXPECT_THAT(get(server->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, AnswersSeveralAtOnce) {
  const auto server = serve();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        EXPECT_THAT(get(server->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST(HttpServer, EndsSoonAlsoAfterRequests) {
  std::chrono::steady_clock::duration stopping{0};
  for (int i = 0; i < 5; ++i) {
    auto server = serve();
    (void)get(server->port(), "/metrics");
    const auto begin = std::chrono::steady_clock::now();
    server.reset();
    stopping += std::chrono::steady_clock::now() - begin;
  }
  // Each took 2 s once, and takes some milliseconds: the limit is for a very busy machine.
  EXPECT_LT(stopping, std::chrono::seconds(5));
}

TEST(HttpServer, WhereItCannotListenIsNamed) {
  const auto code = [](const std::string& address) {
    return HttpServer::start(address, {}).error().code;
  };
  const auto server = serve();
  EXPECT_EQ(code("127.0.0.1:" + std::to_string(server->port())), Code::port_in_use);
  EXPECT_EQ(code("nonsense"), Code::invalid_job);
  EXPECT_EQ(code("127.0.0.1:99999"), Code::invalid_job);
  EXPECT_EQ(code("127.0.0.1:80r,443s"), Code::invalid_job);
  EXPECT_EQ(code(":80"), Code::invalid_job);
  EXPECT_EQ(code("192.0.2.1:0"), Code::io);  // of documentation: no machine has it
}

}  // namespace
}  // namespace muster
