#include "common/tcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(Tcp, HostAndPortAreResolved) {
  EXPECT_EQ(resolve_tcp("127.0.0.1:80")->text(), "127.0.0.1:80");
  EXPECT_EQ(resolve_tcp("localhost:0")->text(), "127.0.0.1:0");
}

TEST(Tcp, WhatIsNoAddressIsNamed) {
  for (const char* address : {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "a:b", "127.0.0.1:65536",
                              "127.0.0.1:-1", "127.0.0.1:8x", "127.0.0.1: 8"}) {
    const auto resolved = resolve_tcp(address);
    ASSERT_FALSE(resolved.ok()) << address;
    EXPECT_EQ(resolved.error().code, Code::invalid_job);
    EXPECT_THAT(resolved.error().message, HasSubstr("'" + std::string(address) + "'"));
  }
}

TEST(Tcp, ListensAndDials) {
  int port = 0;
  const auto listener = listen_tcp("127.0.0.1:0", port);
  ASSERT_TRUE(listener.ok());
  ASSERT_GT(port, 0);
  const auto address = "127.0.0.1:" + std::to_string(port);
  const auto peer = dial_tcp(address);
  ASSERT_TRUE(peer.ok());
  const auto again = listen_tcp(address, port);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::port_in_use);
  EXPECT_THAT(again.error().message, HasSubstr(address + ": Address already in use; choose"));
  ::close(*peer);
  ::close(*listener);
  const auto refused = dial_tcp(address);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::io);
  EXPECT_THAT(refused.error().message, HasSubstr(address));
}

}  // namespace
}  // namespace muster
