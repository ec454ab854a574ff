#include "cli/state_client.h"

#include <gtest/gtest.h>

#include "common/http_server.h"

namespace muster::cli {
namespace {

TEST(PortFile, InEachOfItsForms) {
  for (const auto* text : {R"({"port": 4000, "http": 4001})", "4000 4001\n", "4000\n4001\n",
                           "127.0.0.1:4000\n127.0.0.1:4001\n",
                           R"({"port": "127.0.0.1:4000", "http": "127.0.0.1:4001"})"}) {
    const auto ports = parse_port_file(text);
    ASSERT_TRUE(ports.ok()) << text;
    EXPECT_EQ(ports->ranks, 4000) << text;
    EXPECT_EQ(ports->http, 4001) << text;
  }
}

TEST(PortFile, WithoutAPortIsAnError) {
  for (const auto* text : {"", "{}", "[1]", "none", "99999", "-4", R"({"port": 70000})"}) {
    EXPECT_FALSE(parse_port_file(text).ok()) << text;
  }
}

TEST(FetchState, ReadsJsonAndSendsTheToken) {
  std::string authorization;
  auto server = HttpServer::start("127.0.0.1:0",
                                  {{"/state", [&](const std::string& sent) {
                                      authorization = sent;
                                      return HttpReply{200, "application/json", R"({"step": 3})"};
                                    }}});
  ASSERT_TRUE(server.ok()) << server.error().message;
  const auto state = fetch_state((*server)->port(), "secret");
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ(state->at("step"), 3);
  EXPECT_EQ(authorization, "Bearer secret");
}

TEST(FetchState, OfARefusalOrNonsenseIsAnError) {
  auto server = HttpServer::start("127.0.0.1:0", {{"/state", [](const std::string&) {
                                                     return HttpReply{200, "text/plain", "hello"};
                                                   }}});
  ASSERT_TRUE(server.ok()) << server.error().message;
  EXPECT_FALSE(fetch_state((*server)->port(), "").ok());
  const int closed = (*server)->port();
  server->reset();
  EXPECT_FALSE(fetch_state(closed, "").ok());
}

}  // namespace
}  // namespace muster::cli
