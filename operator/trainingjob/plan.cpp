#include "operator/trainingjob/plan.h"

#include <algorithm>

#include "common/json_fields.h"
#include "operator/trainingjob/attempt_end.h"
#include "operator/trainingjob/cleanup.h"
#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/deadlines.h"
#include "operator/trainingjob/elasticity.h"
#include "operator/trainingjob/failure.h"
#include "operator/trainingjob/reasons.h"
#include "operator/trainingjob/suspend.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

constexpr std::size_t most_attempts_kept = 10;
constexpr std::int64_t abort_grace_seconds = 5;  // of pods whose attempt is over: nothing to save

// What may not change while a job lives; what may is taken out.
std::string identity_of(job::TrainingJob job) {
  job.spec.workers = {};
  job.spec.servers = {};
  job.spec.elastic_policy.reset();
  job.spec.run_policy = {};
  job.spec.failure_rules.clear();
  job.spec.recovery = {};
  job.spec.coordinator_template = json::object();
  job.spec.training.epochs.reset();
  job.spec.training.steps.reset();
  const auto path = job.spec.checkpoint.path;
  job.spec.checkpoint = {};
  job.spec.checkpoint.path = path;
  return job::spec_hash(job);
}

class Planner {
 public:
  Planner(const JobObject& job, const Observed& observed, double now)
      : job_(job), observed_(observed), now_(now) {
    plan_.status = job.status;
  }

  Plan run() {
    auto& status = plan_.status;
    if (job_.deleting) return std::move(plan_);
    status.observed_generation = job_.generation;
    auto parsed = job::parse(job_.document);
    if (!parsed.ok() && !job_.status.finished()) {
      fail(reason::invalid_spec, job::describe(parsed.problems, job_.name));
      return std::move(plan_);
    }
    spec_ = parsed.job.spec;
    plan_.resolved = std::move(parsed.job);
    if (spec_.run_policy.managed_by != "muster.dev/operator") {
      plan_.status = job_.status;
      return std::move(plan_);
    }
    if (job_.status.finished()) {
      clean_up(job_, spec_.run_policy, observed_, now_, plan_);
      return std::move(plan_);
    }
    if (const auto supported = job::check_supported(plan_.resolved); !supported.ok()) {
      fail(reason::invalid_spec, supported.error().message);
      return std::move(plan_);
    }
    live();
    return std::move(plan_);
  }

 private:
  void live() {
    if (job_.status.attempt == 0 && !spec_.run_policy.suspend) check_durable();
    take_figures();
    if (suspend(spec_, observed_, now_, plan_)) return;
    if (check_limits()) return;
    if (plan_.status.attempt == 0 || plan_.status.between) {
      if (!begin_attempt()) return;
    } else if (const auto end = end_of_attempt(spec_, plan_.status, observed_, now_)) {
      return close_attempt(*end);
    }
    match_pods(job_, spec_, observed_, plan_);
    describe_phase();
    note_drift();
    // What ended without ending the attempt is about to be followed by more.
    const auto ended = [this](const auto& pod) {
      return pod->attempt == plan_.status.attempt &&
             pod->incarnation == plan_.status.incarnation(pod->member()) && pod->ended() &&
             (pod->role == Role::coordinator || pod->phase == PodObject::Phase::failed);
    };
    if (std::any_of(observed_.pods.begin(), observed_.pods.end(), ended)) look_again(1);
  }

  void take_figures() {
    count_pods(spec_, observed_, plan_.status);
    take_state(observed_.state, plan_.status, now_);
    for (const auto& pod : observed_.pods) {
      // A coordinator that has ended left its last state.
      if (pod->role != Role::coordinator || pod->attempt != plan_.status.attempt) continue;
      if (pod->termination_message.empty()) continue;
      take_state(json::parse(pod->termination_message, nullptr, false), plan_.status, now_);
    }
  }

  void check_durable() {
    const bool durable = !spec_.checkpoint.path.empty();
    set_condition(plan_.status, "Durable", durable, durable ? reason::on_volume : reason::no_volume,
                  durable ? "checkpoints are written to " + spec_.checkpoint.path
                          : "there is no checkpoint.path on a volume: a restart begins anew",
                  now_);
  }

  // True when the job is over by a deadline.
  bool check_limits() {
    const auto deadlines = check_deadlines(spec_.run_policy, plan_.status, observed_, now_);
    plan_.look_again = deadlines.next;
    if (deadlines.exceeded) {
      end_record(*deadlines.exceeded, deadlines.message, {}, "", "");
      fail(*deadlines.exceeded, deadlines.message);
      return true;
    }
    if (deadlines.stalled && !plan_.status.between) {
      set_condition(plan_.status, "ProgressStalled", true, reason::progress_deadline_exceeded,
                    "no step within runPolicy.progressDeadlineSeconds", now_);
      EndOfAttempt end;
      end.end.exit_code = 1;
      end.end.reason = reason::progress_deadline_exceeded;
      end.end.message = "no step within runPolicy.progressDeadlineSeconds";
      close_attempt(end);
      return true;
    }
    return false;
  }

  // False when it is not time yet.
  bool begin_attempt() {
    auto& status = plan_.status;
    if (status.between && now_ < status.next_attempt) {
      look_again(status.next_attempt - now_);
      return false;
    }
    std::int64_t base = -1;
    for (const auto& [member, n] : status.incarnations) base = std::max(base, n);
    if (status.attempt > 0) base = std::max<std::int64_t>(base, 0);
    status.incarnations.clear();
    if (status.attempt > 0) status.incarnations["all"] = base + 1;
    ++status.attempt;
    status.between = false;
    status.next_attempt = 0;
    status.generation = 0;
    status.phase = "Starting";
    status.message.clear();
    if (status.start <= 0) status.start = now_;
    if (status.spec_hash.empty()) status.spec_hash = identity_of(plan_.resolved);
    status.strategy = spec_.strategy.type == job::StrategyType::automatic ||
                              spec_.strategy.type == job::StrategyType::sync
                          ? "sync"
                          : "";
    set_condition(status, "Valid", true, "Accepted", "", now_);
    clear_condition(status, "Running", reason::starting, now_);
    clear_condition(status, "Restarting", reason::starting, now_);
    clear_condition(status, "ProgressStalled", reason::starting, now_);
    count_pods(spec_, observed_, status);
    plan_.intent = true;
    plan_.announce.push_back({false, "CreatedPods", "CreatePods",
                              "attempt " + std::to_string(status.attempt) + ": a coordinator and " +
                                  std::to_string(spec_.workers.replicas) + " workers"});
    return true;
  }

  void close_attempt(const EndOfAttempt& end) {
    if (end.end.exit_code == 0 && end.end.reason.empty()) return succeed();
    auto verdict = decide(spec_, end.end, plan_.status.failures);
    if (end.disruption && verdict.action == Decision::fail &&
        verdict.reason == reason::backoff_limit_exceeded) {
      verdict.action = Decision::retry;
    }
    end_record(end.end.reason, end.end.message, end.end.exit_code, end.pod, end.node);
    if (verdict.action == Decision::fail) return fail(verdict.reason, verdict.message);
    restart(end, verdict);
  }

  void restart(const EndOfAttempt& end, const Verdict& verdict) {
    auto& status = plan_.status;
    if (verdict.counts && !end.disruption) ++status.failures;
    ++status.restarts;
    const double delay = end.disruption ? 0 : double(verdict.delay.count()) / 1000;
    status.between = true;
    status.next_attempt = now_ + delay;
    status.phase = "Restarting";
    status.message = end.end.message;
    clear_condition(status, "Running", end.end.reason, now_);
    set_condition(status, "Restarting", true, end.end.reason, end.end.message, now_);
    plan_.news = true;
    plan_.announce.push_back({true, "JobRestarting", "Restart", end.end.message});
    remove_all(abort_grace_seconds);
    if (delay > 0) return look_again(delay);
    // No reason to wait: the next attempt's intent goes into the same write.
    if (begin_attempt()) match_pods(job_, spec_, observed_, plan_);
  }

  void remove_all(std::int64_t grace_seconds) {
    for (const auto& pod : observed_.pods) {
      if (!pod->ended() && !pod->deleting) {
        plan_.remove.push_back({pod->name, pod->uid, grace_seconds});
      }
    }
  }

  void end_record(const std::string& why, const std::string& message, std::optional<int> exit_code,
                  const std::string& pod, const std::string& node) {
    auto& status = plan_.status;
    if (status.attempt == 0 || status.between) return;
    AttemptRecord record;
    record.number = status.attempt;
    record.start = status.attempts.empty() ? status.start : status.attempts.back().end;
    record.end = now_;
    record.reason = why;
    record.message = message;
    record.pod = pod;
    record.node = node;
    if (exit_code) record.exit_code = *exit_code;
    record.last_step = integer_field(status.progress, "step", -1);
    status.attempts.push_back(record);
    if (status.attempts.size() > most_attempts_kept) status.attempts.erase(status.attempts.begin());
  }

  void succeed() {
    auto& status = plan_.status;
    status.phase = "Succeeded";
    status.completion = now_;
    status.message.clear();
    clear_condition(status, "Running", reason::succeeded, now_);
    set_condition(status, "Succeeded", true, reason::succeeded, "the run came to its end", now_);
    plan_.news = true;
    plan_.announce.push_back({false, "JobSucceeded", "Finish", "the run came to its end"});
    clean_up(job_, spec_.run_policy, observed_, now_, plan_);
    plan_.delete_job = false;
    if (spec_.run_policy.ttl_seconds_after_finished) {
      look_again(double(*spec_.run_policy.ttl_seconds_after_finished));
    }
  }

  void fail(const std::string& why, const std::string& message) {
    auto& status = plan_.status;
    status.phase = "Failed";
    status.completion = now_;
    status.between = false;
    status.next_attempt = 0;
    status.message = message;
    clear_condition(status, "Running", why, now_);
    clear_condition(status, "Restarting", why, now_);
    set_condition(status, "Failed", true, why, message, now_);
    if (why == reason::diverged) set_condition(status, "Diverged", true, why, message, now_);
    if (why == reason::invalid_spec) set_condition(status, "Valid", false, why, message, now_);
    plan_.news = true;
    plan_.announce.push_back({true, "JobFailed", "Fail", why + ": " + message});
    plan_.create.clear();
    remove_all(spec_.run_policy.termination_grace_period_seconds);
    if (spec_.run_policy.ttl_seconds_after_finished) {
      look_again(double(*spec_.run_policy.ttl_seconds_after_finished));
    }
  }

  // Running when the coordinator says so; where it cannot be reached, when all pods run.
  bool is_running() const {
    if (observed_.state.is_object()) return text_field(observed_.state, "phase") == "Running";
    std::int64_t running = 0;
    for (const auto& pod : observed_.pods) {
      if (pod->attempt == plan_.status.attempt && pod->phase == PodObject::Phase::running &&
          !pod->deleting) {
        ++running;
      }
    }
    return running > spec_.workers.replicas;
  }

  void describe_phase() {
    auto& status = plan_.status;
    note_trouble();
    if (!status.is("Running") && is_running()) {
      status.phase = "Running";
      status.message.clear();
      set_condition(status, "Running", true, reason::running, "all workers train", now_);
      plan_.news = true;
      if (status.generation <= 1 || job_.status.attempt != status.attempt) {
        plan_.announce.push_back({false, "JobRunning", "Run",
                                  std::to_string(spec_.workers.replicas) + " workers train"});
      }
    }
    const bool workers_changed =
        status.is("Running") && status.workers.active != job_.status.workers.active;
    if (status.phase != job_.status.phase || workers_changed) plan_.news = true;
  }

  // Why a pod does not come up, in the API's words.
  void note_trouble() {
    auto& status = plan_.status;
    std::string why, message;
    if (observed_.refusal) {
      why = observed_.refusal->reason;
      message = observed_.refusal->message;
    }
    for (const auto& pod : observed_.pods) {
      if (!why.empty() || pod->attempt != status.attempt || pod->ended() || pod->deleting) continue;
      if (pod->trouble.empty()) continue;
      why = pod->trouble;
      message = pod->name + ": " + pod->trouble_message;
    }
    const bool before = status.find("Scheduled") != nullptr && !status.is("Scheduled");
    if (why.empty()) {
      if (before) {
        set_condition(status, "Scheduled", true, "Scheduled", "", now_);
        status.message.clear();
        plan_.news = true;
      }
      return;
    }
    status.message = message;
    if (set_condition(status, "Scheduled", false, why, message, now_)) {
      plan_.news = true;
      plan_.announce.push_back(
          {true, why == reason::pod_create_failed ? "FailedToCreatePods" : why, "Wait", message});
    }
  }

  void note_drift() {
    const auto now_hash = identity_of(plan_.resolved);
    const bool drift = !plan_.status.spec_hash.empty() && now_hash != plan_.status.spec_hash;
    if (drift) {
      if (set_condition(plan_.status, "SpecDrift", true, reason::spec_changed,
                        "the spec was changed after the job was created; it goes on as it began",
                        now_)) {
        plan_.news = true;
      }
    } else if (clear_condition(plan_.status, "SpecDrift", reason::spec_changed, now_)) {
      plan_.news = true;
    }
  }

  void look_again(double seconds) {
    plan_.look_again = std::min(plan_.look_again.value_or(seconds), seconds);
  }

  const JobObject& job_;
  const Observed& observed_;
  const double now_;
  Plan plan_;
  job::Spec spec_;
};

}  // namespace

Plan plan(const JobObject& job, const Observed& observed, double now) {
  return Planner(job, observed, now).run();
}

}  // namespace muster::trainingjob
