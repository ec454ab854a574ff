#include "trainer/loop/rank.h"

#include <signal.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <condition_variable>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/log.h"
#include "trainer/loop/trainer.h"
#include "trainer/model/allocator.h"

namespace muster::loop {
namespace {

std::atomic<bool> leave_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { leave_requested = true; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGINT, SIG_IGN);  // a terminal sends it to everyone; whoever started us decides
  ::signal(SIGPIPE, SIG_IGN);
}

coordinator::Hello introduce(const RankOptions& options, const comm::Listener& listener) {
  struct sysinfo system {};
  ::sysinfo(&system);
  coordinator::Hello hello;
  hello.pod = options.pod;
  hello.pod_uid = options.pod_uid;
  hello.local_rank = options.local_rank;
  hello.pid = ::getpid();
  hello.address = {listener.tcp_address(), listener.unix_address(), comm::machine_id()};
  hello.memory_bytes = static_cast<std::int64_t>(system.totalram) * system.mem_unit;
  return hello;
}

Result<job::TrainingJob> frozen_job(const nlohmann::json& spec) {
  auto parsed = job::parse(spec);
  if (parsed.ok()) return std::move(parsed.job);
  return Error{Code::invalid_job, job::describe(parsed.problems, "the coordinator's job")};
}

Result<Outcome> train(const RankOptions& options, RankMetrics& metrics, coordinator::Client& client,
                      comm::Listener& listener, AbortSwitch& abort_switch) {
  MUSTER_TRY(job, frozen_job(client.spec()));
  const std::string output = options.output.empty() ? job.spec.output : options.output;
  if (!output.empty()) MUSTER_CHECK_OK(make_folder(output));
  if (!job.spec.checkpoint.path.empty()) MUSTER_CHECK_OK(make_folder(job.spec.checkpoint.path));
  client.set_phase(coordinator::Phase::loading);
  const auto seed = job.spec.training.seed;
  MUSTER_TRY(data, data::open(job.spec.data, seed));
  MUSTER_TRY(model, model::build(job.spec.model, data.train->shape(), seed));
  MUSTER_TRY(state, strategy::FlatState::create(model->parameters(), job.spec.training.optimizer));
  Trainer trainer({job, client, listener, abort_switch, data, *model, *state, metrics,
                   leave_requested, output});
  auto outcome = trainer.run();
  abort_switch.attach(nullptr);
  return outcome;
}

// A collective that broke is the symptom; the coordinator's word is the cause.
Error cause_of(const Error& error, const AbortSwitch& abort_switch) {
  const bool symptom = error.code == Code::aborted || error.code == Code::peer_lost ||
                       error.code == Code::deadline_exceeded;
  if (!symptom) return error;
  return abort_switch.wait_reason(5).value_or(error);
}

int report(const Error& error, coordinator::Client& client, const AbortSwitch& abort_switch) {
  if (const auto code = client.sent_home()) {
    log::info(error.message);
    return *code;
  }
  const auto cause = cause_of(error, abort_switch);
  log::error(cause.message);
  if (!abort_switch.reason()) client.fail(cause);
  return exit_code(cause);
}

}  // namespace

void AbortSwitch::attach(comm::Communicator* communicator) {
  const std::lock_guard lock(mutex_);
  communicator_ = communicator;
  if (communicator_ && reason_) communicator_->abort();
}

void AbortSwitch::abort(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_) reason_ = reason;
  if (communicator_) communicator_->abort();
  changed_.notify_all();
}

std::optional<Error> AbortSwitch::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::optional<Error> AbortSwitch::wait_reason(double seconds) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [this] { return reason_.has_value(); });
  return reason_;
}

int run_rank(const RankOptions& options, RankMetrics& metrics) {
  watch_signals();
  model::keep_freed_memory();
  log::set_context("pod", options.pod);
  AbortSwitch abort_switch;
  auto listener = comm::Listener::open(options.host);
  if (!listener.ok()) {
    log::error(listener.error().message);
    return exit_code(listener.error());
  }
  auto client = coordinator::Client::connect(
      options.coordinator, options.token, introduce(options, **listener),
      [&](const Error& reason) { abort_switch.abort(reason); },
      comm::in(std::chrono::milliseconds(static_cast<int>(options.connect_seconds * 1000))));
  if (!client.ok()) {
    log::error(client.error().message);
    return exit_code(client.error());
  }
  try {
    auto outcome = train(options, metrics, **client, **listener, abort_switch);
    if (!outcome.ok()) return report(outcome.error(), **client, abort_switch);
    return *outcome == Outcome::finished ? exit_finished : exit_left;
  } catch (const std::exception& e) {  // Torch's, out of memory among them
    return report(Error{Code::internal, e.what()}, **client, abort_switch);
  }
}

}  // namespace muster::loop
