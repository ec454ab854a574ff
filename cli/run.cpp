#include "cli/run.h"

#include <curl/curl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/attempt.h"
#include "cli/documents.h"
#include "cli/process.h"
#include "cli/progress.h"
#include "cli/run_folder.h"
#include "cli/summary.h"
#include "common/exit_code.h"
#include "common/file.h"
#include "common/json_fields.h"
#include "common/tcp.h"
#include "operator/trainingjob/failure.h"

namespace muster::cli {
namespace {

constexpr int exit_interrupted = 130;  // what a shell expects after Ctrl-C

int terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

Style style(const RunOptions& options) {
  if (options.json) return Style::json;
  return ::isatty(STDOUT_FILENO) ? Style::bar : Style::lines;
}

// As a person at this place would name it.
std::string shown(const std::string& path) {
  const auto near =
      std::filesystem::path(path).lexically_proximate(std::filesystem::current_path()).string();
  return near.starts_with("..") ? path : near;
}

int refuse(const Error& error) {
  std::fprintf(stderr, "muster: %s\n", error.message.c_str());
  return exit_code(error);
}

std::string output_folder(const RunOptions& options, const job::TrainingJob& job, bool several) {
  std::string folder = options.output;
  if (folder.empty()) {
    folder = job.spec.output.empty() ? "runs/" + job.name : job.spec.output;
  } else if (several) {
    folder += "/" + job.name;
  }
  return std::filesystem::absolute(folder).lexically_normal().string();
}

// The job as it is to be run, or its problems on stderr and an exit code.
struct Prepared {
  job::TrainingJob job;
  int exit_code = exit_finished;
};

Prepared prepare(const RunOptions& options, Document document, bool several) {
  auto settings = options.settings;
  if (options.workers)
    settings.push_back("spec.workers.replicas=" + std::to_string(*options.workers));
  for (const auto& setting : settings) {
    if (const auto set = job::set_path(document.content, setting); !set.ok()) {
      return {{}, refuse(set.error().while_doing("--set " + setting))};
    }
  }
  auto parsed = job::parse(document.content);
  if (!parsed.ok()) {
    std::fprintf(stderr, "%s", job::describe(parsed.problems, document.source).c_str());
    return {{}, exit_invalid_job};
  }
  if (const auto supported = job::check_supported(parsed.job); !supported.ok()) {
    return {{}, refuse(supported.error().while_doing(document.source))};
  }
  auto& job = parsed.job;
  if (job.spec.run_policy.suspend) {
    return {{},
            refuse({Code::invalid_job, document.source +
                                           ": runPolicy.suspend is set: the job is not to run; "
                                           "add --set runPolicy.suspend=false"})};
  }
  resolve_data_paths(job, document.folder);
  job.spec.output = output_folder(options, job, several);
  if (job.spec.checkpoint.path.empty()) job.spec.checkpoint.path = job.spec.output + "/checkpoints";
  return {std::move(job), exit_finished};
}

// The attempts at one job.
class JobRun {
 public:
  JobRun(const RunOptions& options, job::TrainingJob job)
      : options_(options),
        job_(std::move(job)),
        folder_(job_.spec.output),
        view_(style(options), stdout, terminal_width()) {}

  int run() {
    if (const auto ready = make_ready(); !ready.ok()) return refuse(ready.error());
    started_ = steady_seconds();
    warn();
    view_.note(job_.name + ": " + std::to_string(job_.spec.workers.replicas) +
               (job_.spec.workers.replicas == 1 ? " worker" : " workers") + ", output in " +
               shown(folder_));
    while (true) {
      const auto end = attempt();
      if (!end.ok()) return close(failed_to_start(end.error()));
      const auto verdict = trainingjob::decide(job_.spec, *end, counted_failures_);
      if (verdict.action != Decision::retry) return close(verdict);
      if (!wait_for_retry(verdict)) {
        return close(
            {Decision::stop, false, "Stopped", "stopped between two attempts", exit_left, {}});
      }
    }
  }

 private:
  void warn() {
    const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
    if (job_.spec.workers.replicas > 4 * cores) {
      view_.note("there are " + std::to_string(cores) + " cores for " +
                 std::to_string(job_.spec.workers.replicas) + " workers: they will take turns");
    }
    if (!changed_.empty()) {
      view_.note("changed since the last run in this folder: " + changed_ +
                 "; it goes on from the last checkpoint (for a fresh start: another --output, or "
                 "--set checkpoint.resume=never)");
    }
  }

  Status make_ready() {
    MUSTER_CHECK_OK(make_folder(folder_));
    MUSTER_TRY(lock, lock_folder(folder_));
    lock_ = std::move(lock);
    for (std::int64_t i = 0; options_.metrics_port && i < job_.spec.workers.replicas; ++i) {
      int port = 0;
      MUSTER_TRY(fd, listen_tcp("127.0.0.1:" + std::to_string(*options_.metrics_port + i), port));
      ::close(fd);
    }
    changed_ = changed_fields(folder_, job::to_json(job_));
    MUSTER_CHECK_OK(replace_file(folder_ + "/job.json", job::to_json(job_).dump(2) + "\n"));
    MUSTER_TRY(uid, job_uid(folder_));
    uid_ = uid;
    std::filesystem::remove(folder_ + "/summary.json");
    return {};
  }

  Result<AttemptEnd> attempt() {
    MUSTER_TRY(epoch, next_epoch(folder_));
    AttemptPlan plan;
    plan.programs = folder_of_this_program();
    plan.output = folder_;
    plan.spec_file = folder_ + "/job.json";
    plan.job_uid = uid_;
    plan.transport = options_.transport;
    plan.metrics_port = options_.metrics_port;
    plan.epoch = epoch;
    plan.attempt = restarts_ + 1;
    plan.workers = job_.spec.workers.replicas;
    if (const auto seconds = job_.spec.run_policy.active_deadline_seconds) {
      plan.deadline = started_ + double(*seconds);
    }
    plan.on_progress = [this](const Progress& progress) { show(progress); };
    plan.on_note = [this](const std::string& text) { view_.note(text); };
    return run_attempt(plan);
  }

  void show(Progress progress) {
    if (progress.total_steps == 0) progress.total_steps = job_.spec.training.steps.value_or(0);
    if (progress.step > 0) last_ = progress;
    view_.show(progress, steady_seconds());
  }

  // The coordinator was gone before it could be asked again.
  void show_last_step(const nlohmann::json& summary) {
    last_.step = integer_field(summary, "steps", last_.step);
    last_.loss = number_field(summary, "finalLoss", std::nan(""));
    view_.show(last_, steady_seconds());
  }

  bool wait_for_retry(const Verdict& verdict) {
    ++restarts_;
    if (verdict.counts) ++counted_failures_;
    view_.note(verdict.message + "; trying again from the last checkpoint (attempt " +
               std::to_string(restarts_ + 1) + ")");
    return !interrupted_within(double(verdict.delay.count()) / 1000);
  }

  // What a language model has learned, for everyone to see.
  void show_sample() const {
    const auto sample = read_file(folder_ + "/export/sample.txt");
    if (!sample.ok()) return;
    // A model that writes bytes may write what is not UTF-8, and a terminal obeys control
    // characters.
    auto text = nlohmann::json::parse(nlohmann::json(*sample).dump(
                                          -1, ' ', false, nlohmann::json::error_handler_t::replace))
                    .get<std::string>();
    for (auto& c : text) {
      if (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') c = '?';
    }
    std::printf("It now writes like this:\n%s\n", text.c_str());
  }

  static Verdict failed_to_start(const Error& error) {
    return {Decision::fail, true, "StartFailed", error.message, exit_code(error), {}};
  }

  int close(const Verdict& verdict) {
    const auto summary =
        finish_summary(folder_, verdict, last_, steady_seconds() - started_, restarts_);
    if (verdict.action == Decision::succeed && summary.ok()) show_last_step(*summary);
    view_.finish();
    if (!summary.ok()) return refuse(summary.error());
    if (options_.json) {
      auto event = *summary;
      event["event"] = "summary";
      std::printf("%s\n", event.dump().c_str());
    } else {
      std::printf(
          "%s",
          describe_summary(*summary, shown(folder_), shown(job_.spec.checkpoint.path)).c_str());
    }
    if (verdict.action == Decision::succeed && !options_.json) show_sample();
    if (verdict.action == Decision::stop && !options_.json) {
      std::printf("To go on from there: %s\n", options_.command_line.c_str());
    }
    std::fflush(stdout);
    return verdict.action == Decision::stop ? exit_interrupted : verdict.exit_code;
  }

  const RunOptions& options_;
  job::TrainingJob job_;
  std::string folder_;
  ProgressView view_;
  std::string uid_;
  FolderLock lock_;
  std::string changed_;  // fields that differ from the last run's
  Progress last_;
  double started_ = 0;
  std::int64_t counted_failures_ = 0;
  std::int64_t restarts_ = 0;
};

}  // namespace

int run(const RunOptions& options) {
  hold_signals();
  ::curl_global_init(CURL_GLOBAL_DEFAULT);
  auto documents = read_jobs(options.file);
  if (!documents.ok()) {
    std::fprintf(stderr, "muster: %s\n", documents.error().message.c_str());
    return exit_invalid_job;
  }
  // All are checked before the first trains: a mistake in the second must not cost an hour.
  std::vector<job::TrainingJob> jobs;
  for (auto& document : *documents) {
    auto prepared = prepare(options, std::move(document), documents->size() > 1);
    if (prepared.exit_code != exit_finished) return prepared.exit_code;
    jobs.push_back(std::move(prepared.job));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (jobs[i].spec.output != jobs[k].spec.output) continue;
      return refuse({Code::invalid_job, "two jobs, " + jobs[k].name + " and " + jobs[i].name +
                                            ", have the output folder " + jobs[i].spec.output +
                                            "; give them names or outputs of their own"});
    }
  }
  for (auto& job : jobs) {
    if (const int code = JobRun(options, std::move(job)).run(); code != exit_finished) return code;
  }
  return exit_finished;
}

}  // namespace muster::cli
