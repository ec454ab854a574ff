// bench_collectives: how long a collective takes between processes of this machine.
//
// Forks a process for each rank but its own, as a trainer's ranks are processes, connects them over
// one transport, and times all_reduce, reduce_scatter and all_gather of fp32 buffers that lie in
// the rank's arena, where a rank's gradients lie. Before every call the buffer is filled anew, as a
// backward pass would, and the ranks meet at a barrier; after every call the result is checked.
// Both are outside of what is timed. Prints one JSON object: the median of the slower rank in
// microseconds, by operation and bytes.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "trainer/comm/communicator.h"

namespace {

namespace comm = muster::comm;
using muster::Code;
using muster::Error;
using muster::Result;
using muster::Status;

constexpr std::size_t slots = 64;  // measurements that a run can hold
constexpr int period = 1021;       // of the values in a buffer: sums of them are exact in fp32

struct Flags {
  std::string transport = "shared-memory";
  int ranks = 2;
  bool pin = false;
  std::vector<std::size_t> sizes = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  std::vector<int> repetitions = {300, 200, 60, 10, 5};
};

comm::Deadline soon() {
  return comm::in(std::chrono::seconds(60));
}

// Medians of one rank, in memory that the processes share.
struct Medians {
  double microseconds[slots] = {};
};

struct Operation {
  const char* name;
  std::function<void()> fill;
  std::function<Status()> call;
  std::function<bool()> right;
};

// One rank's buffer of `count` elements, and what stands in it before and after a call.
class Buffer {
 public:
  Buffer(comm::Communicator& communicator, float* memory, std::size_t count)
      : communicator_(communicator), memory_(memory), count_(count) {
    const int n = communicator.world_size(), me = communicator.rank();
    mine_.resize(count);
    sum_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto base = static_cast<float>(i % period);
      mine_[i] = base + static_cast<float>(me);
      const auto ranks_added = n * (n - 1) / 2;
      sum_[i] = base * static_cast<float>(n) + static_cast<float>(ranks_added);
    }
    for (int r = 0; r < n; ++r) {
      const auto part = comm::segment(count, comm::DType::f32, r, n);
      counts_.push_back(part.size());
      if (r == me) own_ = part;
    }
  }

  std::vector<Operation> operations() {
    const auto fill = [this] { std::memcpy(memory_, mine_.data(), count_ * sizeof(float)); };
    const auto fill_own = [this] {
      std::memset(memory_, 0, count_ * sizeof(float));
      std::memcpy(memory_ + own_.begin, sum_.data() + own_.begin, own_.size() * sizeof(float));
    };
    const auto own_right = [this] { return right(own_.begin, own_.size()); };
    const auto all_right = [this] { return right(0, count_); };
    return {{"all_reduce", fill,
             [this] { return communicator_.all_reduce(memory_, count_, type, soon()); }, all_right},
            {"reduce_scatter", fill,
             [this] {
               return communicator_.reduce_scatter(memory_, memory_ + own_.begin, counts_, type,
                                                   soon());
             },
             own_right},
            {"all_gather", fill_own,
             [this] {
               return communicator_.all_gather(memory_ + own_.begin, memory_, counts_, type,
                                               soon());
             },
             all_right}};
  }

 private:
  static constexpr auto type = comm::DType::f32;
  bool right(std::size_t begin, std::size_t count) const {
    return std::memcmp(memory_ + begin, sum_.data() + begin, count * sizeof(float)) == 0;
  }

  comm::Communicator& communicator_;
  float* memory_;
  std::size_t count_;
  std::vector<float> mine_, sum_;
  std::vector<std::size_t> counts_;
  comm::Interval own_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<double> time_one(const Operation& operation, comm::Communicator& communicator,
                        int repetitions) {
  const int warm_up = std::max(2, repetitions / 10);
  std::vector<double> times;
  for (int i = -warm_up; i < repetitions; ++i) {
    operation.fill();
    MUSTER_CHECK_OK(communicator.barrier(soon()));
    const auto begin = std::chrono::steady_clock::now();
    MUSTER_CHECK_OK(operation.call());
    const auto end = std::chrono::steady_clock::now();
    if (!operation.right()) {
      return Error{Code::internal, std::string(operation.name) + ": a wrong result"};
    }
    if (i >= 0) times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  return median(std::move(times));
}

Result<std::unique_ptr<comm::Communicator>> connect(const Flags& flags, comm::Options options,
                                                    comm::Listener& listener) {
  return flags.transport == "tcp" ? comm::make_tcp(options, listener, soon())
                                  : comm::make_shared_memory(options, listener, soon());
}

void pin_to_core(int rank) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<unsigned>(rank) % std::thread::hardware_concurrency(), &core);
  ::sched_setaffinity(0, sizeof(core), &core);
}

Status run_rank(const Flags& flags, comm::Options options, comm::Listener& listener,
                Medians& medians) {
  if (flags.pin) pin_to_core(options.rank);
  const auto largest = *std::max_element(flags.sizes.begin(), flags.sizes.end());
  MUSTER_TRY(arena, comm::Arena::create(largest + 4096));
  MUSTER_TRY(memory, arena->allocate(largest));
  options.arena = arena;
  MUSTER_TRY(communicator, connect(flags, options, listener));
  std::size_t slot = 0;
  for (std::size_t s = 0; s < flags.sizes.size(); ++s) {
    Buffer buffer(*communicator, static_cast<float*>(memory), flags.sizes[s] / sizeof(float));
    for (const auto& operation : buffer.operations()) {
      MUSTER_TRY(time, time_one(operation, *communicator, flags.repetitions[s]));
      medians.microseconds[slot++] = time;
    }
  }
  return communicator->barrier(soon());
}

nlohmann::json report(const Flags& flags, const Medians* medians) {
  nlohmann::json times;
  std::size_t slot = 0;
  for (const auto size : flags.sizes) {
    for (const auto* name : {"all_reduce", "reduce_scatter", "all_gather"}) {
      double slowest = 0;
      for (int r = 0; r < flags.ranks; ++r) {
        slowest = std::max(slowest, medians[r].microseconds[slot]);
      }
      times[name][std::to_string(size)] = slowest;
      ++slot;
    }
  }
  return {{"transport", flags.transport}, {"ranks", flags.ranks}, {"microseconds", times}};
}

int fail(const Error& error) {
  std::fprintf(stderr, "bench_collectives: %s\n", error.message.c_str());
  return 1;
}

Status run(const Flags& flags, nlohmann::json& result) {
  const auto n = static_cast<std::size_t>(flags.ranks);
  void* shared = ::mmap(nullptr, sizeof(Medians) * n, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error{Code::io, "cannot map shared memory"};
  auto* medians = static_cast<Medians*>(shared);
  comm::Options options{0, flags.ranks, {1, 1}, "a key of this run", {}, nullptr};
  std::vector<std::unique_ptr<comm::Listener>> listeners;
  for (std::size_t r = 0; r < n; ++r) {
    MUSTER_TRY(listener, comm::Listener::open("127.0.0.1"));
    options.peers.push_back(
        {listener->tcp_address(), listener->unix_address(), comm::machine_id()});
    listeners.push_back(std::move(listener));
  }
  std::vector<pid_t> children;
  for (std::size_t r = 1; r < n; ++r) {
    const auto pid = ::fork();
    if (pid < 0) return Error{Code::io, "cannot fork a rank"};
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      options.rank = static_cast<int>(r);
      const auto status = run_rank(flags, options, *listeners[r], medians[r]);
      ::_exit(status.ok() ? 0 : fail(status.error()));
    }
    children.push_back(pid);
  }
  const auto status = run_rank(flags, options, *listeners[0], medians[0]);
  bool all_well = true;
  for (const auto pid : children) {
    int end = 0;
    all_well = ::waitpid(pid, &end, 0) == pid && end == 0 && all_well;
  }
  MUSTER_CHECK_OK(status);
  if (!all_well) return Error{Code::peer_lost, "a rank failed"};
  result = report(flags, medians);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times collectives between processes of this machine; prints JSON."};
  app.footer(
      "Example:\n  bench_collectives --transport tcp --sizes 4096 1048576 --repetitions 300 60");
  Flags flags;
  app.add_option("--transport", flags.transport, "shared-memory or tcp")
      ->check(CLI::IsMember({"shared-memory", "tcp"}));
  app.add_option("--ranks", flags.ranks, "processes")->check(CLI::Range(2, 16));
  app.add_flag("--pin", flags.pin, "each rank on a core of its own");
  app.add_option("--sizes", flags.sizes, "bytes of a buffer, multiples of 4");
  app.add_option("--repetitions", flags.repetitions, "timed calls, one number a size");
  CLI11_PARSE(app, argc, argv);
  if (flags.sizes.size() != flags.repetitions.size() || flags.sizes.size() * 3 > slots) {
    return fail({Code::internal, "--repetitions needs one number for each of at most 21 --sizes"});
  }
  nlohmann::json result;
  if (const auto status = run(flags, result); !status.ok()) return fail(status.error());
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
