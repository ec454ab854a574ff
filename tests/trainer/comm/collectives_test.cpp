#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/trainer/comm/ranks.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<float> values_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal(0, 100);
  std::vector<float> v(count);
  for (auto& x : v) x = normal(random);
  return v;
}

// ((x0 + x1) + x2) ... in fp32: what every transport must give, bit for bit.
std::vector<float> sum_in_rank_order(int n, std::size_t count) {
  auto sum = values_of(0, count);
  for (int r = 1; r < n; ++r) {
    const auto v = values_of(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += v[i];
  }
  return sum;
}

bool same_bits(const float* a, const std::vector<float>& b) {
  return b.empty() || std::memcmp(a, b.data(), b.size() * 4) == 0;
}

using Case = std::tuple<Transport, int>;
class Collectives : public ::testing::TestWithParam<Case> {
 protected:
  Transport transport() const { return std::get<0>(GetParam()); }
  int n() const { return std::get<1>(GetParam()); }
  Group group_ = connect_all(transport(), n());
  Communicator& rank(int r) { return *group_.ranks[static_cast<std::size_t>(r)]; }
  void SetUp() override {
    for (const auto& e : group_.errors) ASSERT_TRUE(e.ok()) << e.error().message;
  }
};

TEST_P(Collectives, AllReduceAddsInRankOrder) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 1000u, 70001u, 300000u}) {
    const auto expected = sum_in_rank_order(n(), count);
    on_all(n(), [&](int r) {
      auto v = values_of(r, count);
      const auto status = rank(r).all_reduce(v.data(), count, DType::f32, in(seconds(20)));
      EXPECT_TRUE(status.ok()) << status.error().message;
      EXPECT_TRUE(same_bits(v.data(), expected)) << "rank " << r << ", count " << count;
    });
  }
}

TEST_P(Collectives, AllReduceInAnArenaGivesTheSameBits) {
  const std::size_t count = 70001;
  const auto expected = sum_in_rank_order(n(), count);
  on_all(n(), [&](int r) {
    auto* memory =
        static_cast<float*>(*group_.arenas[static_cast<std::size_t>(r)]->allocate(count * 4));
    for (int round = 0; round < 20; ++round) {
      const auto v = values_of(r, count);
      std::copy(v.begin(), v.end(), memory);
      const auto status = rank(r).all_reduce(memory, count, DType::f32, in(seconds(20)));
      EXPECT_TRUE(status.ok());
      EXPECT_TRUE(same_bits(memory, expected)) << "rank " << r << ", round " << round;
    }
  });
}

TEST_P(Collectives, ReduceScatterAndAllGatherTakeUnevenCounts) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < n(); ++r)
    counts.push_back(r == 1 ? 0 : static_cast<std::size_t>(1 + r * 40000));
  const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto expected = sum_in_rank_order(n(), total);
  on_all(n(), [&](int r) {
    auto all = values_of(r, total);
    const auto mine = counts[static_cast<std::size_t>(r)];
    std::vector<float> part(mine);
    EXPECT_TRUE(
        rank(r).reduce_scatter(all.data(), part.data(), counts, DType::f32, in(seconds(20))).ok());
    std::fill(all.begin(), all.end(), 0.0f);
    EXPECT_TRUE(
        rank(r).all_gather(part.data(), all.data(), counts, DType::f32, in(seconds(20))).ok());
    EXPECT_TRUE(same_bits(all.data(), expected)) << "rank " << r;
  });
}

TEST_P(Collectives, BFloat16IsRoundedOnceAndIntegersWrap) {
  on_all(n(), [&](int r) {
    // 1 + n * 2^-8 is lost when every addition rounds to bf16.
    std::vector<std::uint16_t> small(100, r == 0 ? 0x3f80 : 0x3b80);  // 1, 2^-8
    EXPECT_TRUE(rank(r).all_reduce(small.data(), 100, DType::bf16, in(seconds(20))).ok());
    const auto bits = std::bit_cast<std::uint32_t>(1.0f + static_cast<float>(n() - 1) / 256);
    const auto rounded = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    EXPECT_EQ(small[99], rounded);
    std::int64_t large = std::numeric_limits<std::int64_t>::max();
    EXPECT_TRUE(rank(r).all_reduce(&large, 1, DType::i64, in(seconds(20))).ok());
    auto wrapped = std::uint64_t{0};
    for (int i = 0; i < n(); ++i)
      wrapped += static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(static_cast<std::uint64_t>(large), wrapped);
  });
}

TEST_P(Collectives, BroadcastSendReceiveAndBarrier) {
  on_all(n(), [&](int r) {
    std::vector<int> data(50000, r);
    EXPECT_TRUE(rank(r).broadcast(data.data(), data.size() * 4, n() - 1, in(seconds(20))).ok());
    EXPECT_EQ(data[49999], n() - 1);
    EXPECT_TRUE(rank(r).barrier(in(seconds(20))).ok());
    int token = r;
    if (r + 1 < n()) {
      EXPECT_TRUE(rank(r).send(&token, 4, r + 1, in(seconds(20))).ok());
    }
    if (r > 0) {
      EXPECT_TRUE(rank(r).recv(&token, 4, r - 1, in(seconds(20))).ok());
      EXPECT_EQ(token, r - 1);
    }
  });
}

TEST_P(Collectives, AStalledPeerRunsIntoTheDeadlineAndBreaksTheCommunicator) {
  if (n() == 1) {
    float alone = 1;  // nobody to wait for
    EXPECT_TRUE(rank(0).all_reduce(&alone, 1, DType::f32, in(milliseconds(1))).ok());
    return;
  }
  on_all(n() - 1, [&](int r) {  // the last rank never comes
    float x = 1;
    const auto status = rank(r).all_reduce(&x, 1, DType::f32, in(milliseconds(200)));
    ASSERT_FALSE(status.ok());
    const auto code = status.error().code;
    EXPECT_TRUE(code == Code::deadline_exceeded || code == Code::peer_lost)
        << status.error().message;
    EXPECT_FALSE(rank(r).all_reduce(&x, 1, DType::f32, in(seconds(20))).ok());
  });
}

TEST_P(Collectives, AbortEndsAPendingCall) {
  if (n() == 1) return rank(0).abort();
  std::thread waiting([&] {
    float x = 1;
    const auto status = rank(0).all_reduce(&x, 1, DType::f32, in(seconds(60)));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::aborted);
  });
  rank(0).abort();
  rank(0).abort();
  waiting.join();
}

TEST_P(Collectives, APeerThatGoesIsNoticed) {
  if (n() == 1) return rank(0).abort();
  group_.ranks.pop_back();
  on_all(n() - 1, [&](int r) {
    float x = 1;
    const auto status = rank(r).all_reduce(&x, 1, DType::f32, in(seconds(60)));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::peer_lost) << status.error().message;
  });
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  static constexpr const char* names[] = {"Local", "SharedMemory", "Tcp"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         ::testing::Combine(::testing::Values(Transport::local,
                                                              Transport::shared_memory,
                                                              Transport::tcp),
                                            ::testing::Values(1, 2, 3, 5)),
                         name_of);

TEST(Traffic, IsTheSameForEveryTransportAndProportionalToThePayload) {
  std::vector<std::uint64_t> bytes;
  for (const auto transport : {Transport::local, Transport::shared_memory, Transport::tcp}) {
    auto group = connect_all(transport, 2);
    on_all(2, [&](int r) {
      std::vector<float> v(64000, 1);
      EXPECT_TRUE(group.ranks[static_cast<std::size_t>(r)]
                      ->all_reduce(v.data(), v.size(), DType::f32, in(seconds(20)))
                      .ok());
    });
    bytes.push_back(group.ranks[0]->traffic().bytes_sent);
  }
  EXPECT_EQ(bytes[0], 64000u * 4);
  EXPECT_EQ(bytes[1], bytes[0]);
  EXPECT_EQ(bytes[2], bytes[0]);
}

TEST(SharedMemory, AKilledProcessIsNoticed) {
  Group group;
  group.errors.resize(2);
  for (int r = 0; r < 2; ++r) {
    group.arenas.push_back(*Arena::create(1 << 20));
    group.listeners.push_back(*Listener::open("127.0.0.1"));
  }
  const auto child = ::fork();
  if (child == 0) {
    auto options = options_of(group, 1, 2);
    auto made = make_shared_memory(options, *group.listeners[1], in(seconds(20)));
    if (made.ok()) ::raise(SIGKILL);
    ::_exit(1);
  }
  auto options = options_of(group, 0, 2);
  auto made = make_shared_memory(options, *group.listeners[0], in(seconds(20)));
  ASSERT_TRUE(made.ok()) << made.error().message;
  float x = 1;
  const auto status = (*made)->all_reduce(&x, 1, DType::f32, in(seconds(30)));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::peer_lost);
  int code = 0;
  ::waitpid(child, &code, 0);
  EXPECT_TRUE(WIFSIGNALED(code));
}

}  // namespace
}  // namespace muster::comm
