#include "cli/attempt.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <thread>
#include <vector>

#include "cli/process.h"
#include "cli/state_client.h"
#include "common/crypto.h"
#include "common/exit_code.h"
#include "common/file.h"
#include "common/json_fields.h"

namespace muster::cli {
namespace {

constexpr double start_seconds = 30;          // for the coordinator to listen
constexpr double poll_seconds = 0.25;         // between two looks at GET /state
constexpr double failure_grace_seconds = 30;  // for the others to end after one failed
constexpr double start_grace_seconds = 2;     // the same before the first generation
constexpr double stop_grace_seconds = 10;  // for workers to end after the coordinator has stopped
constexpr double success_grace_seconds = 120;  // for rank 0 to export after the coordinator's end

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// A signal that is ignored (by nohup, by a shell's background job) stays so: waiting would receive
// it.
sigset_t held_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) ::sigaddset(&set, number);
  }
  return set;
}

// The signal that came within `seconds`, or 0.
int wait_signal(double seconds) {
  const auto set = held_signals();
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(seconds);
  timeout.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  return std::max(::sigtimedwait(&set, nullptr, &timeout), 0);
}

bool is_interrupt(int number) {
  return number == SIGINT || number == SIGTERM;
}

// Which of several exit codes tells most: a verdict of the trainer, a signal, anything else.
int weight(int code) {
  if (code == exit_invalid_job || code == exit_invalid_data || code == exit_diverged) return 3;
  if (code > 128) return 2;
  return code == exit_finished || code == exit_left ? 0 : 1;
}

struct Member {
  std::string name;
  std::string log;
  Process process;
  bool seen_end = false;
  int exit_code = 0;
};

class Attempt {
 public:
  explicit Attempt(const AttemptPlan& plan)
      : plan_(plan), token_(crypto::to_hex(crypto::random_bytes(32))) {}

  Result<AttemptEnd> run() {
    MUSTER_CHECK_OK(start_coordinator());
    MUSTER_TRY(listening, wait_for_ports());
    if (listening) MUSTER_CHECK_OK(start_workers());
    watch();
    look_back();
    return judge();
  }

 private:
  std::string log_of(const std::string& name) const {
    return plan_.output + "/logs/" + name + ".log";
  }
  std::string file(const std::string& name) const { return plan_.output + "/.run/" + name; }

  Status start(const std::string& name, std::vector<std::string> command,
               std::map<std::string, std::string> environment) {
    command[0] = plan_.programs + "/" + command[0];
    environment["MUSTER_TOKEN"] = token_;
    MUSTER_TRY(process, Process::start(command, environment, log_of(name)));
    members_.push_back({name, log_of(name), std::move(process)});
    return {};
  }

  Status start_coordinator() {
    MUSTER_CHECK_OK(make_folder(plan_.output + "/logs"));
    MUSTER_CHECK_OK(make_folder(plan_.output + "/.run"));
    for (const auto* name : {"ports", "final-state.json"}) std::filesystem::remove(file(name));
    return start("coordinator",
                 {"muster-coordinator", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                  "--port-file", file("ports"), "--spec", plan_.spec_file, "--job-uid",
                  plan_.job_uid, "--epoch", std::to_string(plan_.epoch), "--attempt",
                  std::to_string(plan_.attempt), "--final-state", file("final-state.json")},
                 {});
  }

  // False when the coordinator ended or the user stopped us before it listened.
  Result<bool> wait_for_ports() {
    const double deadline = steady_seconds() + start_seconds;
    while (steady_seconds() < deadline) {
      if (std::filesystem::exists(file("ports"))) {
        MUSTER_TRY(text, read_file(file("ports"), 4096));
        // A file seen between its creation and its content is empty: look again.
        if (auto ports = parse_port_file(text); ports.ok()) {
          ports_ = *ports;
          return true;
        } else if (!text.empty()) {
          return ports.error();
        }
      }
      if (!members_[0].process.running()) return false;
      if (is_interrupt(wait_signal(0.005))) {
        interrupts_ = 1;
        members_[0].process.kill_group();
        return false;
      }
    }
    return Error{Code::deadline_exceeded,
                 "the coordinator did not listen within 30 s; its log is " + members_[0].log};
  }

  Status start_workers() {
    const auto cores = std::max(1u, std::thread::hardware_concurrency());
    const auto threads = std::max<std::int64_t>(1, cores / plan_.workers);
    std::map<std::string, std::string> environment;
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      environment["OMP_NUM_THREADS"] = std::to_string(threads);
    }
    if (plan_.transport != "auto") environment["MUSTER_TRANSPORT"] = plan_.transport;
    for (std::int64_t i = 0; i < plan_.workers; ++i) {
      const auto name = "worker-" + std::to_string(i);
      std::vector<std::string> command{"muster-trainer",
                                       "--coordinator",
                                       "127.0.0.1:" + std::to_string(ports_.ranks),
                                       "--pod",
                                       name,
                                       "--ranks",
                                       "1",
                                       "--output",
                                       plan_.output};
      if (plan_.metrics_port) {
        command.push_back("--metrics");
        command.push_back("127.0.0.1:" + std::to_string(*plan_.metrics_port + i));
      }
      MUSTER_CHECK_OK(start(name, command, environment));
    }
    return {};
  }

  void watch() {
    double next_look = 0;
    while (reap(), anyone_running()) {
      const double now = steady_seconds();
      if (plan_.deadline && now >= *plan_.deadline) deadline_exceeded_ = true;
      if (deadline_exceeded_ || (kill_at_ && now >= *kill_at_)) kill_all();
      if (now >= next_look) {
        look();
        next_look = steady_seconds() + poll_seconds;
      }
      if (is_interrupt(wait_signal(std::max(next_look - steady_seconds(), 0.001)))) interrupt();
    }
  }

  void interrupt() {
    ++interrupts_;
    if (interrupts_ > 1) {
      plan_.on_note("stopping at once");
      kill_all();
      return;
    }
    plan_.on_note("finishing the step and writing a checkpoint; Ctrl-C again stops at once");
    members_[0].process.signal(SIGTERM);
  }

  void kill_all() {
    for (auto& member : members_) member.process.kill_group();
    killed_ = true;
  }

  bool anyone_running() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return !member.seen_end; });
  }

  void end_within(double seconds) {
    const double at = steady_seconds() + seconds;
    kill_at_ = std::min(kill_at_.value_or(at), at);
  }

  void reap() {
    for (auto& member : members_) {
      const auto code = member.seen_end ? std::nullopt : member.process.poll();
      if (!code) continue;
      member.seen_end = true;
      member.exit_code = *code;
      note_end(member);
    }
  }

  // Whoever ends decides how long the others may still take.
  void note_end(const Member& member) {
    const bool coordinator = &member == &members_[0];
    if (!killed_ && weight(member.exit_code) > 0) {
      // The coordinator ends with the code of the worker that failed: the worker is to blame.
      const int more = culprit_ ? weight(member.exit_code) - weight(culprit_->exit_code) : 1;
      if (more > 0 || (more == 0 && culprit_ == &members_[0])) culprit_ = &member;
      end_within(begun_ ? failure_grace_seconds : start_grace_seconds);
    } else if (coordinator) {
      // A worker that has not even joined when we are stopped would go on dialling.
      const double stopping = begun_ ? stop_grace_seconds : start_grace_seconds;
      end_within(interrupts_ > 0 ? stopping : success_grace_seconds);
    } else if (workers_running() == 0) {
      end_within(failure_grace_seconds);
    }
  }

  std::int64_t workers_running() const {
    return std::count_if(members_.begin() + 1, members_.end(),
                         [](const Member& member) { return !member.seen_end; });
  }

  void look() {
    if (ports_.http == 0 || members_[0].seen_end) return;
    if (const auto state = fetch_state(ports_.http, token_); state.ok()) {
      const auto progress = progress_from_state(*state);
      begun_ = begun_ || progress.generation > 0;
      plan_.on_progress(progress);
    }
  }

  // What the coordinator left when it ended: an object, or null.
  nlohmann::json final_state() const {
    const auto text = read_file(file("final-state.json"));
    if (!text.ok()) return nullptr;
    auto state = nlohmann::json::parse(*text, nullptr, false);
    return state.is_object() ? state : nlohmann::json();
  }

  // The last steps came after the last look.
  void look_back() {
    if (const auto state = final_state(); state.is_object()) {
      plan_.on_progress(progress_from_state(state));
    }
  }

  // The coordinator's own words of why it ended, when it left any.
  std::string coordinator_message() const {
    const auto state = final_state();
    if (!state.is_object()) return "";
    for (const auto* key : {"message", "reason"}) {
      const auto found = state.find(key);
      if (found != state.end() && found->is_string() && !found->get<std::string>().empty()) {
        return found->get<std::string>();
      }
    }
    return "";
  }

  AttemptEnd judge() const {
    AttemptEnd end;
    const bool all_finished = std::all_of(members_.begin(), members_.end(), [](const Member& m) {
      return m.exit_code == exit_finished;
    });
    if (deadline_exceeded_) {
      end.reason = "DeadlineExceeded";
      end.message = "runPolicy.activeDeadlineSeconds are over";
      end.exit_code = exit_failed;
    } else if (all_finished && members_.size() > 1) {
      return end;
    } else if (interrupts_ > 0 || members_[0].exit_code == exit_left) {
      end.stopped = true;
      end.message = stop_message();
      end.exit_code = exit_left;
    } else {
      blame(end);
    }
    return end;
  }

  std::string stop_message() const {
    const auto state = final_state();
    const auto step = state.is_object() ? integer_field(state, "checkpointStep") : -1;
    if (step >= 0) return "a checkpoint of step " + std::to_string(step) + " is written";
    if (interrupts_ > 1) return "at once; what came after the last checkpoint is lost";
    return progress_from_state(state).step == 0 ? "before the first step"
                                                : "no checkpoint could be written";
  }

  void blame(AttemptEnd& end) const {
    const Member& member = culprit_ ? *culprit_ : members_[0];
    const bool coordinator = &member == &members_[0];
    end.exit_code = weight(member.exit_code) > 0 ? member.exit_code : int{exit_failed};
    end.reason = coordinator ? "CoordinatorFailed" : "WorkerFailed";
    end.message = member.name + ": " + trainingjob::describe_exit_code(end.exit_code);
    if (const auto words = coordinator_message(); !words.empty()) end.message += "; " + words;
    plan_.on_note("the end of " + member.log + ":");
    for (const auto& line : last_lines(member.log, 8)) plan_.on_note("  " + line);
  }

  const AttemptPlan& plan_;
  const std::string token_;
  std::deque<Member> members_;  // the coordinator first; references stay valid
  CoordinatorPorts ports_;
  int interrupts_ = 0;
  bool killed_ = false;
  bool begun_ = false;  // the workers have found each other
  bool deadline_exceeded_ = false;
  std::optional<double> kill_at_;
  const Member* culprit_ = nullptr;
};

}  // namespace

void hold_signals() {
  const auto set = held_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

bool interrupted_within(double seconds) {
  const double deadline = steady_seconds() + seconds;
  for (double left = seconds; left > 0; left = deadline - steady_seconds()) {
    if (is_interrupt(wait_signal(left))) return true;
  }
  return false;
}

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Result<AttemptEnd> run_attempt(const AttemptPlan& plan) {
  return Attempt(plan).run();
}

}  // namespace muster::cli
