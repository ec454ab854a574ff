#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/trainer/comm/ranks.h"
#include "trainer/comm/mesh.h"

namespace muster::comm {
namespace {

using std::chrono::seconds;

int dial(const std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

TEST(HostilePeer, GarbageAtTheListenerIsTurnedAwayAndTheGroupForms) {
  Group group;
  group.errors.resize(2);
  group.ranks.resize(2);
  for (int r = 0; r < 2; ++r) {
    group.arenas.push_back(nullptr);
    group.listeners.push_back(*Listener::open("127.0.0.1"));
  }
  const int stranger = dial(group.listeners[0]->tcp_address());
  const std::string garbage(4096, '\xff');
  EXPECT_GT(::send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  on_all(2, [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    auto made = make_tcp(options_of(group, r, 2), *group.listeners[i], in(seconds(20)));
    ASSERT_TRUE(made.ok()) << made.error().message;
    group.ranks[i] = *std::move(made);
  });
  ::close(stranger);
}

TEST(HostilePeer, AWrongKeyIsRefused) {
  for (const auto transport : {Transport::tcp, Transport::shared_memory}) {
    const auto group = connect_all(transport, 2, 2, [](Options& o) {
      if (o.rank == 1) o.key = "another key";
    });
    ASSERT_FALSE(group.errors[1].ok());
    EXPECT_EQ(group.errors[1].error().code, Code::unauthenticated);
    EXPECT_FALSE(group.errors[0].ok());
  }
}

TEST(HostilePeer, AnotherGenerationIsRefused) {
  const auto group = connect_all(Transport::tcp, 2, 1, [](Options& o) {
    if (o.rank == 1) o.generation.n = 2;
  });
  EXPECT_FALSE(group.errors[0].ok());
  EXPECT_FALSE(group.errors[1].ok());
}

// A peer that has passed the handshake and then lies.
class LyingPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair_), 0);
    mesh_ = std::make_unique<Mesh>(0, std::vector<int>{-1, pair_[0]}, Generation{1, 1}, Faults{});
  }
  void TearDown() override { ::close(pair_[1]); }

  Status receive_after(const std::string& bytes) {
    EXPECT_EQ(::send(pair_[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    std::byte buffer[16];
    const Transfer in_16{1, buffer, 16};
    return mesh_->exchange({}, {&in_16, 1}, in(seconds(10)));
  }

  static std::string header(std::uint64_t epoch, std::uint64_t n, std::uint64_t sequence,
                            std::uint64_t bytes) {
    std::string h = "TSUM";
    h.append(4, '\0');
    for (const auto v : {epoch, n, sequence, bytes}) h.append(reinterpret_cast<const char*>(&v), 8);
    return h;
  }

  int pair_[2] = {-1, -1};
  std::unique_ptr<Mesh> mesh_;
};

TEST_F(LyingPeer, GarbageIsAnError) {
  EXPECT_EQ(receive_after(std::string(40, 'x')).error().code, Code::protocol);
}
TEST_F(LyingPeer, AStaleGenerationIsAnError) {
  EXPECT_EQ(receive_after(header(1, 0, 0, 16)).error().code, Code::stale_generation);
}
TEST_F(LyingPeer, AHugeLengthIsAnErrorAndNoAllocation) {
  EXPECT_EQ(receive_after(header(1, 1, 0, ~std::uint64_t{0})).error().code, Code::protocol);
}
TEST_F(LyingPeer, AWrongSequenceIsAnError) {
  EXPECT_EQ(receive_after(header(1, 1, 5, 16)).error().code, Code::protocol);
}
TEST_F(LyingPeer, AnHonestOneIsHeard) {
  EXPECT_TRUE(receive_after(header(1, 1, 0, 16) + std::string(16, 'a')).ok());
}

}  // namespace
}  // namespace muster::comm
