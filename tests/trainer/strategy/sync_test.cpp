#include "trainer/strategy/sync.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <mutex>
#include <thread>

#include "tests/trainer/comm/ranks.h"

namespace muster::strategy {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// Two layers, the second used twice, and one that takes no part in any loss.
struct Net : torch::nn::Module {
  Net() {
    // Torch's default generator belongs to the process, and ranks are threads here.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    torch::manual_seed(11);
    a = register_module("a", torch::nn::Linear(5, 33));
    b = register_module("b", torch::nn::Linear(33, 33));
    c = register_module("c", torch::nn::Linear(33, 1));
    unused = register_module("unused", torch::nn::Linear(7, 3));
  }
  torch::Tensor loss_sum(const torch::Tensor& x) {
    const auto y = c(torch::tanh(b(torch::tanh(b(torch::tanh(a(x)))))));
    return (y - 3 * torch::sin(5 * x).sum(1, true)).pow(2).sum();
  }
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr}, unused{nullptr};
};

NamedParameters parameters_of(Net& net) {
  NamedParameters named;
  for (const auto& p : net.named_parameters()) named.emplace_back(p.key(), p.value());
  return named;
}

torch::Tensor samples(std::int64_t step, std::int64_t count) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(100 + step);
  return torch::randn({count, 5}, generator);
}

struct Plan {
  std::vector<std::int64_t> shares;
  std::int64_t accumulation = 1;
  std::int64_t steps = 5;
  comm::Faults faults = {};
  std::int64_t bucket_bytes = 512;
};

struct RunResult {
  std::vector<std::string> hashes;  // by rank
  std::vector<double> losses;       // by step
  std::vector<std::uint64_t> bytes;
  std::vector<Error> errors;
  bool views_intact = true;
};

// A rank's communicator, once its buffers are there.
using Connect = std::function<std::unique_ptr<comm::Communicator>(std::shared_ptr<comm::Arena>)>;

void run_rank(const Plan& setup, const Connect& connect, RunResult& result) {
  Net net;
  job::Optimizer optimizer;
  optimizer.learning_rate = 0.01;
  auto state = *FlatState::create(parameters_of(net), optimizer);
  const auto connected = connect(state->arena());
  auto& communicator = *connected;
  Sync sync(*state, setup.bucket_bytes);
  sync.set_communicator(&communicator);
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::int64_t before = 0, total = 0;
  for (std::size_t r = 0; r < setup.shares.size(); ++r) {
    if (r < rank) before += setup.shares[r];
    total += setup.shares[r];
  }
  for (std::int64_t step = 0; step < setup.steps; ++step) {
    sync.begin_step(comm::in(seconds(5)));
    const auto mine = samples(step, total).narrow(0, before, setup.shares[rank]);
    StepSums local;
    const auto parts =
        setup.shares[rank] == 0 ? std::vector<torch::Tensor>{} : mine.chunk(setup.accumulation);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto loss = net.loss_sum(parts[i]);
      sync.backward(loss, i + 1 == parts.size());
      local.loss += loss.item<double>();
      local.units += parts[i].size(0);
      local.samples = local.units;
    }
    const auto hash = state->parameters_sha256();
    auto sums = sync.reduce(local);
    if (!sums.ok()) {
      EXPECT_EQ(state->parameters_sha256(), hash) << "parameters changed before the commit";
      result.errors[rank] = sums.error();
      return;
    }
    EXPECT_EQ(sums->units, total);
    sync.commit(optimizer, optimizer.learning_rate, static_cast<double>(total), step + 1);
    if (rank == 0) result.losses.push_back(sums->loss / static_cast<double>(total));
  }
  result.hashes[rank] = state->parameters_sha256();
  result.bytes[rank] = communicator.traffic().bytes_sent;
  if (!state->views_intact()) result.views_intact = false;
}

RunResult run(const Plan& setup, comm::Transport transport = comm::Transport::local) {
  const auto n = setup.shares.size();
  auto communicators = comm::make_local(static_cast<int>(n), setup.faults);
  comm::Group group;
  for (std::size_t r = 0; r < n; ++r) {
    group.listeners.push_back(*comm::Listener::open("127.0.0.1"));
  }
  group.arenas.resize(n);
  const auto connect = [&](std::size_t r, std::shared_ptr<comm::Arena> arena) {
    if (transport == comm::Transport::local) return std::move(communicators[r]);
    group.arenas[r] = std::move(arena);
    const auto options = comm::options_of(group, static_cast<int>(r), static_cast<int>(n));
    const auto make = transport == comm::Transport::tcp ? comm::make_tcp : comm::make_shared_memory;
    return *make(options, *group.listeners[r], comm::in(seconds(20)));
  };
  RunResult result;
  result.hashes.resize(n);
  result.bytes.resize(n);
  result.errors.resize(n);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      run_rank(
          setup, [&](std::shared_ptr<comm::Arena> arena) { return connect(r, std::move(arena)); },
          result);
    });
  }
  for (auto& t : threads) t.join();
  return result;
}

void expect_same_curve(const RunResult& a, const RunResult& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-6 * std::abs(a.losses[i])) << "step " << i;
  }
}

TEST(Sync, AllRanksHoldTheSameParameters) {
  const auto result = run({.shares = {4, 4, 4}});
  EXPECT_FALSE(result.hashes[0].empty());
  EXPECT_EQ(result.hashes[0], result.hashes[1]);
  EXPECT_EQ(result.hashes[0], result.hashes[2]);
}

TEST(Sync, TheCurveDoesNotDependOnWorldSizeSplitOrAccumulation) {
  const auto alone = run({.shares = {24}, .steps = 100});
  expect_same_curve(alone, run({.shares = {12, 12}, .steps = 100}));
  expect_same_curve(alone, run({.shares = {3, 21}, .accumulation = 2, .steps = 100}));
  expect_same_curve(alone, run({.shares = {8, 8, 8}, .accumulation = 4, .steps = 100}));
  expect_same_curve(alone, run({.shares = {1, 9, 4, 3, 7}, .accumulation = 2, .steps = 100}));
}

TEST(Sync, ARankWithShareZeroJoinsWithZeros) {
  const auto result = run({.shares = {12, 0, 12}});
  EXPECT_EQ(result.hashes[0], result.hashes[1]);
  expect_same_curve(run({.shares = {24}}), result);
}

TEST(Sync, TheSameRunTwiceGivesTheSameBits) {
  EXPECT_EQ(run({.shares = {5, 8, 11}}).hashes, run({.shares = {5, 8, 11}}).hashes);
}

TEST(Sync, EveryTransportGivesTheSameBits) {
  for (const std::vector<std::int64_t>& shares :
       {std::vector<std::int64_t>{5, 8, 11}, {1, 9, 4, 3, 7}}) {
    const Plan setup{.shares = shares, .accumulation = 2};
    const auto local = run(setup).hashes;
    EXPECT_FALSE(local[0].empty());
    EXPECT_EQ(run(setup, comm::Transport::shared_memory).hashes, local);
    EXPECT_EQ(run(setup, comm::Transport::tcp).hashes, local);
  }
}

TEST(Sync, GradientsAndParametersStayViewsOfTheFlatBuffers) {
  EXPECT_TRUE(run({.shares = {4, 4}, .steps = 3}).views_intact);
}

TEST(Sync, BytesASampleAtAccumulationFourAreAQuarter) {
  // The same samples in all: 4 steps of 8 without, one step of 32 with accumulation.
  const auto often = run({.shares = {4, 4}, .accumulation = 1, .steps = 4});
  const auto once = run({.shares = {16, 16}, .accumulation = 4, .steps = 1});
  EXPECT_GT(once.bytes[0], 0u);
  EXPECT_EQ(often.bytes[0], 4 * once.bytes[0]);
}

TEST(Sync, ASlowLinkChangesNothing) {
  Plan slow{.shares = {6, 6, 6}};
  slow.faults.delay = [](int, int) { return microseconds(300); };
  EXPECT_EQ(run(slow).hashes, run({.shares = {6, 6, 6}}).hashes);
}

TEST(Sync, BucketSizeChangesNothing) {
  auto large = Plan{.shares = {6, 6, 6}};
  large.bucket_bytes = 25 << 20;
  EXPECT_EQ(run(large).hashes, run({.shares = {6, 6, 6}}).hashes);
}

TEST(Sync, AfterAnAbortNoParameterHasChanged) {
  const Plan setup{.shares = {4, 4}, .steps = 1};
  auto communicators = comm::make_local(2);
  RunResult result;
  result.hashes.resize(2);
  result.bytes.resize(2);
  result.errors.resize(2);
  communicators[0]->abort();  // rank 1 never comes
  std::thread rank0([&] {
    run_rank(
        setup, [&](const auto&) { return std::move(communicators[0]); }, result);
  });
  rank0.join();
  EXPECT_EQ(result.errors[0].code, Code::aborted);
}

}  // namespace
}  // namespace muster::strategy
