#include "trainer/loop/launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "common/exit_code.h"
#include "common/http_server.h"
#include "common/log.h"

namespace muster::loop {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, s);
  return set;
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Ranks {
 public:
  void add(pid_t pid) { pids_.push_back(pid); }
  bool running() const { return !pids_.empty(); }
  void signal(int number) const {
    for (const auto pid : pids_) ::kill(pid, number);
  }
  // Collects those that have ended.
  void reap() {
    int status = 0;
    for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
         pid = ::waitpid(-1, &status, WNOHANG)) {
      if (std::erase(pids_, pid) == 0) continue;  // an orphan that PID 1 inherited
      note(pid, code_of(status));
    }
  }
  int exit_code() const { return failed_ != 0 ? failed_ : left_ ? exit_left : exit_finished; }

 private:
  void note(pid_t pid, int code) {
    if (code == exit_finished) return;
    if (code == exit_left) {
      left_ = true;
      return;
    }
    if (failed_ != 0) return;
    log::error("a rank ended", {{"pid", pid}, {"exit_code", code}});
    failed_ = code;
    signal(SIGKILL);
  }
  std::vector<pid_t> pids_;
  int failed_ = 0;
  bool left_ = false;
};

[[noreturn]] void run_rank(const std::function<int(int, RankMetrics&)>& rank, int local_rank,
                           RankMetrics& metrics, pid_t launcher, const sigset_t& old_mask) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(exit_failed);
  ::sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  const int code = rank(local_rank, metrics);
  // Static destructors of Torch's threads have nothing left to save.
  ::_exit(code);
}

}  // namespace

Result<int> launch(const LauncherOptions& options,
                   const std::function<int(int, RankMetrics&)>& rank) {
  MUSTER_TRY(metrics, PodMetrics::create(options.ranks));
  const auto signals = watched_signals();
  sigset_t old_mask;
  ::sigprocmask(SIG_BLOCK, &signals, &old_mask);
  Ranks ranks;
  const auto launcher = ::getpid();
  for (int i = 0; i < options.ranks; ++i) {
    const auto pid = ::fork();
    if (pid == 0) run_rank(rank, i, metrics->slot(i), launcher, old_mask);
    if (pid < 0) {
      ranks.signal(SIGKILL);
      return Error{Code::io, std::string("cannot fork a rank: ") + std::strerror(errno)};
    }
    ranks.add(pid);
  }
  std::unique_ptr<HttpServer> server;
  if (!options.metrics_address.empty()) {
    auto started = HttpServer::start(
        options.metrics_address,
        {{"/metrics",
          [metrics](const std::string&) {
            return HttpReply{200, "text/plain; version=0.0.4", metrics->exposition()};
          }},
         {"/healthz", [](const std::string&) { return HttpReply{}; }}});
    if (!started.ok()) {
      ranks.signal(SIGKILL);
      return started.error();
    }
    server = *std::move(started);
    log::info("serving /metrics", {{"port", server->port()}});
  }
  while (ranks.running()) {
    siginfo_t info{};
    const int number = ::sigwaitinfo(&signals, &info);
    if (number == SIGTERM || number == SIGINT) ranks.signal(SIGTERM);
    ranks.reap();
  }
  return ranks.exit_code();
}

}  // namespace muster::loop
