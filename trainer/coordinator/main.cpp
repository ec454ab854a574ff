// muster-coordinator: one for each job.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/job/job.h"
#include "common/log.h"
#include "trainer/checkpoint/index.h"
#include "trainer/coordinator/server.h"

namespace {

using muster::Code;
using muster::Error;
using muster::Result;

struct Flags {
  std::string listen = "127.0.0.1:0", http, port_file, spec_file, job_uid, final_state;
  std::string termination_message;
  std::uint64_t epoch = 1;
  int attempt = 1;
  bool json_logs = false;
};

Result<muster::job::TrainingJob> read_job(const std::string& file) {
  std::string text;
  if (const char* spec = std::getenv("MUSTER_SPEC"); file.empty() && spec != nullptr) {
    text = spec;
  } else {
    MUSTER_TRY(content, muster::read_file(file));
    text = content;
  }
  MUSTER_TRY(documents, muster::job::read_documents(text, file.empty() ? "MUSTER_SPEC" : file));
  auto parsed = muster::job::parse(documents[0]);
  if (parsed.ok()) return std::move(parsed.job);
  return Error{Code::invalid_job, muster::job::describe(parsed.problems, file)};
}

std::int64_t global_batch(const muster::job::Spec& spec) {
  const auto& t = spec.training;
  if (t.per_worker_batch_size) {
    return *t.per_worker_batch_size * spec.workers.replicas * t.gradient_accumulation_steps;
  }
  return t.global_batch_size.value_or(32);
}

Result<muster::protocol::Rules> rules_of(const muster::job::Spec& spec, const Flags& flags) {
  muster::protocol::Rules rules;
  rules.epoch = flags.epoch;
  rules.workers = static_cast<int>(spec.workers.replicas);
  rules.max_workers = rules.workers;
  if (spec.elastic_policy) rules.max_workers = static_cast<int>(spec.elastic_policy->max_replicas);
  rules.global_batch = global_batch(spec);
  rules.heartbeat_timeout = spec.recovery.heartbeat_timeout_seconds;
  rules.checkpoint_seconds = static_cast<double>(spec.checkpoint.every_seconds);
  rules.checkpoints = !spec.checkpoint.path.empty();
  if (!rules.checkpoints) return rules;
  MUSTER_CHECK_OK(muster::make_folder(spec.checkpoint.path));
  if (spec.checkpoint.resume == "never") return rules;
  std::vector<std::string> skipped;
  MUSTER_TRY(newest,
             muster::checkpoint::newest_valid(spec.checkpoint.path, flags.job_uid, &skipped));
  for (const auto& why : skipped) muster::log::warning("a checkpoint was passed over: " + why);
  if (newest) {
    rules.start_step = newest->step;
    rules.checkpoint = muster::checkpoint::index_path(spec.checkpoint.path, newest->step);
  }
  return rules;
}

// The first SIGTERM or SIGINT plans a stop at a boundary; the second ends at once.
void watch_signals(const sigset_t& signals, muster::coordinator::Server& server) {
  std::thread([&server, signals] {
    for (int count = 0;; ++count) {
      int number = 0;
      if (::sigwait(&signals, &number) != 0) return;
      if (count == 0) {
        server.request_stop();
      } else {
        server.abandon();
      }
    }
  }).detach();
}

// What a pod can leave behind: 4096 bytes, into a file that is there already. The members are many,
// and their own pods tell of them.
void leave_message(const Flags& flags, nlohmann::json state) {
  if (flags.termination_message.empty()) return;
  state.erase("members");
  auto text = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 4096) {
    state.erase("progress");
    text = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::ofstream(flags.termination_message) << text;
}

Result<int> serve(const Flags& flags, const std::string& token) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  MUSTER_TRY(job, read_job(flags.spec_file));
  MUSTER_TRY(rules, rules_of(job.spec, flags));
  MUSTER_TRY(server,
             muster::coordinator::Server::open(
                 {flags.listen, flags.http, token, flags.job_uid, muster::job::spec_hash(job),
                  job.spec.checkpoint.path, muster::job::to_json(job), rules}));
  watch_signals(signals, *server);
  if (!flags.port_file.empty()) {
    const nlohmann::json ports{{"port", server->port()}, {"http", server->http_port()}};
    MUSTER_CHECK_OK(muster::replace_file(flags.port_file, ports.dump() + "\n"));
  }
  muster::log::info("listening", {{"port", server->port()},
                                  {"http", server->http_port()},
                                  {"epoch", flags.epoch},
                                  {"attempt", flags.attempt},
                                  {"checkpoint", rules.checkpoint}});
  server->run();
  auto state = server->state();
  if (state.contains("failure")) state["message"] = state["failure"]["message"];
  if (!flags.final_state.empty()) {
    MUSTER_CHECK_OK(muster::replace_file(flags.final_state, state.dump(2) + "\n"));
  }
  leave_message(flags, state);
  return server->exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Leads one TrainingJob: membership, planned changes, publication of checkpoints."};
  app.set_version_flag("--version", std::string("muster-coordinator ") + MUSTER_VERSION);
  app.footer(
      "The job's token is read from the environment variable MUSTER_TOKEN; without --spec the\n"
      "resolved job is read from MUSTER_SPEC.\n\n"
      "Example:\n"
      "  MUSTER_TOKEN=... muster-coordinator --listen 127.0.0.1:7077 --http 127.0.0.1:7078 --spec "
      "job.json");
  app.add_option("--listen", flags.listen, "host:port for the ranks (port 0: a free one)");
  app.add_option("--http", flags.http, "host:port of /state, /metrics and /healthz");
  app.add_option("--port-file", flags.port_file, "file to write the two ports to, as JSON");
  app.add_option("--spec", flags.spec_file, "the resolved TrainingJob");
  app.add_option("--job-uid", flags.job_uid, "uid of the job: whose checkpoints are resumed");
  app.add_option("--epoch", flags.epoch, "incarnation of the coordinator; rises with each");
  app.add_option("--attempt", flags.attempt, "number of the attempt");
  app.add_option("--final-state", flags.final_state, "file to write the last /state to");
  app.add_option("--termination-message", flags.termination_message,
                 "file to write what is left to say to, at most 4096 bytes");
  app.add_flag("--json-logs", flags.json_logs, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  muster::log::set_json(flags.json_logs);
  muster::log::set_context("pod", "coordinator");
  const char* token = std::getenv("MUSTER_TOKEN");
  if (token == nullptr || *token == 0) {
    muster::log::error("MUSTER_TOKEN is not set; it holds the job's token");
    return muster::exit_invalid_job;
  }
  const auto code = serve(flags, token);
  if (code.ok()) return *code;
  muster::log::error(code.error().message);
  leave_message(flags, {{"phase", "failed"},
                        {"failure",
                         {{"message", code.error().message},
                          {"exitCode", muster::exit_code(code.error())},
                          {"reason", "CoordinatorFailed"}}}});
  if (!flags.final_state.empty()) {
    (void)muster::replace_file(
        flags.final_state,
        nlohmann::json{{"phase", "Failed"}, {"message", code.error().message}}.dump() + "\n");
  }
  return muster::exit_code(code.error());
}
