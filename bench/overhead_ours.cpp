// bench_overhead: what a step of a rank costs besides training.
//
// Two ranks under the pod's real launcher do steps of a fixed amount of arithmetic, about 10 ms,
// and meet after each, as they would in a collective. With --everything a real coordinator leads
// them: in every step each rank does what Trainer::run() does around the computation (the boundary,
// the phases, the report, the pod's metrics; rank 0 the record in metrics.jsonl too), its client
// sends heartbeats, /state is asked for as often as `muster run` does and /metrics once a second.
// Without it there is nothing but the steps. Prints one JSON object:
//
//   step_ms                wall time of a step, mean over the steps of rank 0
//   calls_us               wall time inside of the calls, a step, mean of the slower rank
//   ranks_cpu_us           CPU time of both ranks' processes that is not the arithmetic, a step
//   coordinator_cpu_us, launcher_cpu_us, poller_cpu_us   CPU time of the other processes, a step
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/log.h"
#include "common/tcp.h"
#include "trainer/coordinator/client.h"
#include "trainer/coordinator/server.h"
#include "trainer/loop/launcher.h"
#include "trainer/loop/metrics_log.h"

namespace {

namespace comm = muster::comm;
namespace coordinator = muster::coordinator;
namespace loop = muster::loop;
using muster::Code;
using muster::Error;
using muster::Result;
using muster::Status;

constexpr int ranks = 2;
const std::atomic<bool> stays{false};
constexpr int warm_up = 20;                             // steps
constexpr std::chrono::milliseconds state_period{250};  // of `muster run`
constexpr std::chrono::milliseconds metrics_period{1000};
const std::string token = "the token of this run";

struct Flags {
  bool everything = false;
  std::int64_t steps = 500;
  std::int64_t work = 0;  // rounds of arithmetic a step
  double step_ms = 10;
};

double seconds_of(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
double now() {
  return seconds_of(CLOCK_MONOTONIC);
}

double cpu_of(pid_t pid) {
  clockid_t clock{};
  return ::clock_getcpuclockid(pid, &clock) == 0 ? seconds_of(clock) : 0;
}

// What one rank has measured.
struct Measured {
  double wall = 0, calls = 0, cpu = 0;  // seconds over all steps; cpu: without the arithmetic
};

// In memory that all processes share.
struct Shared {
  pthread_barrier_t barrier;
  std::atomic<int> measuring{0}, done{0};  // ranks that have begun, and ended, to measure
  std::atomic<int> port{0}, http{0};       // of the coordinator
  Measured measured[ranks];
};

Result<Shared*> make_shared() {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error{Code::io, "cannot map shared memory"};
  auto* shared = new (memory) Shared();
  pthread_barrierattr_t attributes;
  ::pthread_barrierattr_init(&attributes);
  ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&shared->barrier, &attributes, ranks);
  return shared;
}

// The step's computation: as much arithmetic each time, whoever else wants the core.
void compute(std::int64_t work) {
  volatile double sink = 0;
  double x = 1.0;
  for (std::int64_t i = 0; i < work; ++i) x = x * 1.0000001 + 1e-9;
  sink = x;
  (void)sink;
}

std::int64_t calibrate(double milliseconds) {
  constexpr std::int64_t probe = 1'000'000;
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double begin = now();
    compute(probe);
    best = std::min(best, now() - begin);
  }
  return static_cast<std::int64_t>(milliseconds * 1e-3 / best * static_cast<double>(probe));
}

// What a rank does in a step besides computing; the order is that of Trainer::run().
class Bookkeeping {
 public:
  static Result<std::unique_ptr<Bookkeeping>> open(int port, int local_rank,
                                                   const std::string& folder,
                                                   loop::RankMetrics& metrics) {
    auto self = std::unique_ptr<Bookkeeping>(new Bookkeeping(metrics));
    coordinator::Hello hello;
    hello.pod = "worker-" + std::to_string(local_rank);
    hello.pod_uid = hello.pod;
    hello.pid = ::getpid();
    hello.address = {"127.0.0.1:1", hello.pod, comm::machine_id()};
    MUSTER_TRY(client, coordinator::Client::connect(
                           "127.0.0.1:" + std::to_string(port), token, hello, [](const Error&) {},
                           comm::in(std::chrono::seconds(10))));
    self->client_ = std::move(client);
    MUSTER_TRY(assignment,
               self->client_->wait_assignment(comm::in(std::chrono::seconds(10)), stays));
    if (assignment.rank == 0) {
      MUSTER_TRY(log, loop::MetricsLog::open(folder + "/metrics.jsonl", 0));
      self->log_ = std::move(log);
    }
    metrics.rank = assignment.rank;
    metrics.world_size = assignment.world_size;
    return self;
  }

  Status before_computing(std::int64_t step) {
    MUSTER_TRY(boundary, client_->boundary(step));
    if (boundary.stop || boundary.leave) return Error{Code::internal, "stopped"};
    client_->set_phase(coordinator::Phase::data);
    client_->set_phase(coordinator::Phase::forward);
    client_->set_phase(coordinator::Phase::backward);
    client_->set_phase(coordinator::Phase::communication);
    return {};
  }

  Status after_computing(std::int64_t step) {
    client_->set_phase(coordinator::Phase::optimizer);
    const loop::StepRecord record{
        step + 1, (step + 1) * 16, 2.3456789 / static_cast<double>(step + 1),
        3e-4,     1.2345678,       {1e-5, 3e-3, 5e-3, 1e-3, 1e-3},
        1600.123};
    metrics_.observe(record, 8, static_cast<std::uint64_t>(step) * 1'000'000);
    coordinator::Report report;
    report.step = record.step;
    report.total_steps = 1 << 20;
    report.phase = coordinator::Phase::optimizer;
    report.samples = record.samples;
    report.loss = record.loss;
    report.learning_rate = record.learning_rate;
    report.gradient_norm = record.gradient_norm;
    report.samples_per_second = record.samples_per_second;
    report.validation_loss = report.validation_accuracy = 0.5;
    client_->report(report);
    return log_ ? log_->write(record) : Status();
  }

  Status finish() { return client_->finish({}); }

 private:
  explicit Bookkeeping(loop::RankMetrics& metrics) : metrics_(metrics) {}
  loop::RankMetrics& metrics_;
  std::unique_ptr<coordinator::Client> client_;
  std::unique_ptr<loop::MetricsLog> log_;
};

Status run_steps(const Flags& flags, Shared& shared, int local_rank, Bookkeeping* bookkeeping) {
  double wall = 0, calls = 0, computing = 0, cpu = 0;
  for (std::int64_t step = 0; step < warm_up + flags.steps; ++step) {
    if (step == warm_up) {
      ::pthread_barrier_wait(&shared.barrier);
      ++shared.measuring;
      wall = now();
      cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
      calls = computing = 0;
    }
    const double t0 = now();
    if (bookkeeping) MUSTER_CHECK_OK(bookkeeping->before_computing(step));
    const double t1 = now(), c1 = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    compute(flags.work);
    ::pthread_barrier_wait(&shared.barrier);
    computing += seconds_of(CLOCK_THREAD_CPUTIME_ID) - c1;
    const double t2 = now();
    if (bookkeeping) MUSTER_CHECK_OK(bookkeeping->after_computing(step));
    calls += now() - t2 + t1 - t0;
  }
  const auto steps = static_cast<double>(flags.steps);
  shared.measured[local_rank] = {(now() - wall) / steps, calls / steps,
                                 (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu - computing) / steps};
  ++shared.done;
  return {};
}

Status run_rank(const Flags& flags, Shared& shared, int local_rank, const std::string& folder,
                loop::RankMetrics& metrics) {
  if (!flags.everything) return run_steps(flags, shared, local_rank, nullptr);
  MUSTER_TRY(bookkeeping, Bookkeeping::open(shared.port, local_rank, folder, metrics));
  MUSTER_CHECK_OK(run_steps(flags, shared, local_rank, bookkeeping.get()));
  return bookkeeping->finish();
}

int fail(const Error& error) {
  std::fprintf(stderr, "bench_overhead: %s\n", error.message.c_str());
  return 1;
}

pid_t in_child(const std::function<int()>& work) {
  const auto pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::_exit(work());
}

int lead(Shared& shared) {
  coordinator::ServerOptions options;
  options.http = "127.0.0.1:0";
  options.token = token;
  options.spec = nlohmann::json::object();
  options.rules.workers = options.rules.max_workers = ranks;
  auto server = coordinator::Server::open(options);
  if (!server.ok()) return fail(server.error());
  shared.http = (*server)->http_port();
  shared.port = (*server)->port();
  (*server)->run();
  return (*server)->exit_code();
}

// Whether a child has ended; it stays to be waited for.
bool ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

// GET `path` of a server of this machine; the reply is read and forgotten.
bool ask(int port, const char* path) {
  auto socket = muster::dial_tcp("127.0.0.1:" + std::to_string(port));
  if (!socket.ok()) return false;
  ::fcntl(*socket, F_SETFL, ::fcntl(*socket, F_GETFL) & ~O_NONBLOCK);
  const auto request =
      "GET " + std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
  bool well = ::send(*socket, request.data(), request.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(request.size());
  char reply[1 << 14];
  ssize_t bytes = ::recv(*socket, reply, sizeof(reply), 0);
  well = well && bytes > 12 && std::string_view(reply + 8, 4) == " 200";
  while (bytes > 0) bytes = ::recv(*socket, reply, sizeof(reply), 0);
  ::close(*socket);
  return well;
}

// Asks for /state and /metrics until the ranks have measured; the number of failed requests.
int poll_servers(const Flags& flags, const Shared& shared, int metrics_port, pid_t launcher) {
  int failures = 0;
  auto next_state = std::chrono::steady_clock::now(), next_metrics = next_state;
  while (shared.done < ranks && !ended(launcher)) {
    if (std::chrono::steady_clock::now() >= next_state) {
      if (flags.everything) failures += ask(shared.http, "/state") ? 0 : 1;
      next_state += state_period;
    }
    if (std::chrono::steady_clock::now() >= next_metrics) {
      if (flags.everything) failures += ask(metrics_port, "/metrics") ? 0 : 1;
      next_metrics += metrics_period;
    }
    std::this_thread::sleep_until(std::min(next_state, next_metrics));
  }
  return failures;
}

// A word in memory that other processes write: looked at, for half a minute at most.
void wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<int> free_port() {
  int port = 0;
  MUSTER_TRY(listener, muster::listen_tcp("127.0.0.1:0", port));
  ::close(listener);
  return port;
}

Result<nlohmann::json> run(const Flags& flags, const std::string& folder) {
  MUSTER_TRY(shared, make_shared());
  MUSTER_TRY(metrics_port, free_port());
  pid_t leader = 0;
  if (flags.everything) {
    leader = in_child([&] { return lead(*shared); });
    wait_until([&] { return shared->port != 0 || ended(leader); });
    if (shared->port == 0) return Error{Code::internal, "the coordinator did not start"};
  }
  const auto launcher = in_child([&] {
    loop::LauncherOptions options{ranks, ""};
    if (flags.everything) options.metrics_address = "127.0.0.1:" + std::to_string(metrics_port);
    const auto code = loop::launch(options, [&](int local_rank, loop::RankMetrics& metrics) {
      const auto status = run_rank(flags, *shared, local_rank, folder, metrics);
      return status.ok() ? 0 : fail(status.error());
    });
    return code.ok() ? *code : fail(code.error());
  });
  wait_until([&] { return shared->measuring == ranks || ended(launcher); });
  if (shared->measuring != ranks) {
    for (const auto pid : {leader, launcher}) {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    return Error{Code::internal, "the ranks did not start"};
  }
  const double leader_cpu = leader ? cpu_of(leader) : 0, launcher_cpu = cpu_of(launcher),
               own_cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const int failures = poll_servers(flags, *shared, metrics_port, launcher);
  const auto a_step = [&](double seconds) {
    return seconds / static_cast<double>(flags.steps) * 1e6;
  };
  const auto& [first, second] = shared->measured;
  nlohmann::json result{
      {"step_ms", first.wall * 1e3},
      {"calls_us", std::max(first.calls, second.calls) * 1e6},
      {"ranks_cpu_us", (first.cpu + second.cpu) * 1e6},
      {"coordinator_cpu_us", a_step(leader ? cpu_of(leader) - leader_cpu : 0)},
      {"launcher_cpu_us", a_step(cpu_of(launcher) - launcher_cpu)},
      {"poller_cpu_us", a_step(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_cpu)},
  };
  int launcher_end = 0, leader_end = 0;
  ::waitpid(launcher, &launcher_end, 0);
  if (leader) ::waitpid(leader, &leader_end, 0);
  if (launcher_end != 0 || leader_end != 0) return Error{Code::internal, "a process failed"};
  if (failures > 0) return Error{Code::internal, std::to_string(failures) + " requests failed"};
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures what a training step costs besides training; prints JSON."};
  app.footer("Example:\n  bench_overhead --everything --steps 500");
  Flags flags;
  bool only_calibrate = false;
  app.add_flag("--everything", flags.everything, "with coordinator, metrics and metrics.jsonl");
  app.add_option("--steps", flags.steps, "steps that are measured")->check(CLI::PositiveNumber);
  app.add_option("--step-ms", flags.step_ms, "length of a step's computation");
  app.add_option("--work", flags.work, "the computation as --calibrate printed it");
  app.add_flag("--calibrate", only_calibrate, "print the amount of work of --step-ms and end");
  CLI11_PARSE(app, argc, argv);
  muster::log::set_level(muster::log::Level::warning);
  if (flags.work == 0) flags.work = calibrate(flags.step_ms);
  if (only_calibrate) {
    std::printf("%s\n", nlohmann::json{{"work", flags.work}}.dump().c_str());
    return 0;
  }
  std::string folder = std::filesystem::temp_directory_path() / "muster-overhead-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return fail({Code::io, "cannot make a folder"});
  const auto result = run(flags, folder);
  std::filesystem::remove_all(folder);
  if (!result.ok()) return fail(result.error());
  std::printf("%s\n", result->dump().c_str());
  return 0;
}
