#include "operator/trainingjob/failure.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "common/exit_code.h"

namespace muster::trainingjob {
namespace {

Verdict fail(std::string reason, std::string message, int exit_code) {
  return {Decision::fail, true, std::move(reason), std::move(message), exit_code, {}};
}

// 0 s before the first retry, then 1, 2, 4, ... 30 s: a failure that lasts must not spin.
std::chrono::milliseconds backoff(std::int64_t failures) {
  if (failures == 0) return std::chrono::milliseconds{0};
  const auto doublings = std::min<std::int64_t>(failures - 1, 5);
  return std::chrono::milliseconds{std::min<std::int64_t>(1000LL << doublings, 30000)};
}

bool contains(const auto& list, const auto& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

const job::FailureRule* matching_rule(const job::Spec& spec, const AttemptEnd& end) {
  for (const auto& rule : spec.failure_rules) {
    if (contains(rule.on_exit_codes, std::int64_t{end.exit_code}) ||
        contains(rule.on_reasons, end.reason)) {
      return &rule;
    }
  }
  return nullptr;
}

Verdict retry(const job::Spec& spec, const AttemptEnd& end, std::int64_t failures) {
  const auto limit = spec.run_policy.backoff_limit;
  if (failures >= limit) {
    return fail("BackoffLimitExceeded",
                end.message + "; gave up after " + std::to_string(failures + 1) +
                    " attempts (runPolicy.backoffLimit is " + std::to_string(limit) + ")",
                end.exit_code);
  }
  return {Decision::retry, true, end.reason, end.message, end.exit_code, backoff(failures)};
}

Verdict diverged(const job::Spec& spec, const AttemptEnd& end, std::int64_t failures) {
  if (spec.training.on_divergence == "Restart") return retry(spec, end, failures);
  return fail("Diverged",
              end.message +
                  "; lower training.optimizer.learningRate, or set "
                  "training.gradientClipNorm or training.onDivergence",
              end.exit_code);
}

}  // namespace

Verdict decide(const job::Spec& spec, const AttemptEnd& end, std::int64_t failures) {
  if (end.stopped) return {Decision::stop, false, "Stopped", end.message, exit_left, {}};
  switch (end.exit_code) {
    case exit_finished:
      return {Decision::succeed, false, "Succeeded", "", exit_finished, {}};
    case exit_invalid_job:
    case exit_invalid_data:
      return fail("NonRetryableExitCode", end.message, end.exit_code);
    default:
      break;
  }
  if (end.reason == "DeadlineExceeded") return fail(end.reason, end.message, end.exit_code);
  if (const auto* rule = matching_rule(spec, end)) {
    if (rule->action == "Fail") return fail("FailurePolicy", end.message, end.exit_code);
    if (rule->action == "Restart") return retry(spec, end, failures);
    // Not counted, so the backoff must not rest on the count either: a steady pace.
    return {Decision::retry, false, end.reason, end.message, end.exit_code, backoff(1)};
  }
  if (end.exit_code == exit_diverged) return diverged(spec, end, failures);
  return retry(spec, end, failures);
}

int exit_code_of_wait_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string describe_exit_code(int code) {
  if (code > 128) {
    return "killed by signal " + std::to_string(code - 128) + " (" + ::strsignal(code - 128) + ")";
  }
  const std::string text = "exit code " + std::to_string(code);
  switch (code) {
    case exit_invalid_job:
      return text + " (the job is wrong)";
    case exit_invalid_data:
      return text + " (the data are wrong)";
    case exit_diverged:
      return text + " (the loss became non-finite)";
    case exit_left:
      return text + " (left on request)";
    default:
      return text;
  }
}

}  // namespace muster::trainingjob
