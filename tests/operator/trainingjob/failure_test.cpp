#include "operator/trainingjob/failure.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace muster::trainingjob {
namespace {

AttemptEnd failed(int exit_code, const std::string& reason = "WorkerFailed") {
  return {false, exit_code, reason, "worker-0: it failed"};
}

TEST(Decide, SuccessAndStopEndTheJob) {
  const job::Spec spec;
  EXPECT_EQ(decide(spec, {}, 0).action, Decision::succeed);
  const auto stop = decide(spec, {true, 75, "", "stopped"}, 0);
  EXPECT_EQ(stop.action, Decision::stop);
  EXPECT_EQ(stop.exit_code, 75);
}

TEST(Decide, AFailureIsRetriedUpToTheBackoffLimit) {
  job::Spec spec;
  spec.run_policy.backoff_limit = 2;
  EXPECT_EQ(decide(spec, failed(1), 0).action, Decision::retry);
  EXPECT_EQ(decide(spec, failed(137), 1).action, Decision::retry);
  const auto last = decide(spec, failed(137), 2);
  EXPECT_EQ(last.action, Decision::fail);
  EXPECT_EQ(last.reason, "BackoffLimitExceeded");
  EXPECT_EQ(last.exit_code, 137);
  EXPECT_NE(last.message.find("3 attempts"), std::string::npos);
}

TEST(Decide, NoRetryWithABackoffLimitOfZero) {
  job::Spec spec;
  spec.run_policy.backoff_limit = 0;
  EXPECT_EQ(decide(spec, failed(1), 0).action, Decision::fail);
}

TEST(Decide, AWrongJobOrWrongDataIsNeverRetriedNotEvenByARule) {
  job::Spec spec;
  spec.failure_rules.push_back({{2, 3}, {}, "RestartIgnoreLimit"});
  for (const int code : {2, 3}) {
    const auto verdict = decide(spec, failed(code), 0);
    EXPECT_EQ(verdict.action, Decision::fail);
    EXPECT_EQ(verdict.reason, "NonRetryableExitCode");
    EXPECT_EQ(verdict.exit_code, code);
  }
}

TEST(Decide, DivergenceFollowsOnDivergence) {
  job::Spec spec;
  spec.training.on_divergence = "Fail";
  EXPECT_EQ(decide(spec, failed(4), 0).reason, "Diverged");
  spec.training.on_divergence = "Restart";
  EXPECT_EQ(decide(spec, failed(4), 0).action, Decision::retry);
  spec.run_policy.backoff_limit = 1;
  EXPECT_EQ(decide(spec, failed(4), 1).reason, "BackoffLimitExceeded");
}

TEST(Decide, TheFirstMatchingRuleWins) {
  job::Spec spec;
  spec.failure_rules.push_back({{137}, {}, "Fail"});
  spec.failure_rules.push_back({{137, 139}, {}, "Restart"});
  EXPECT_EQ(decide(spec, failed(137), 0).reason, "FailurePolicy");
  EXPECT_EQ(decide(spec, failed(139), 0).action, Decision::retry);
}

TEST(Decide, ARuleMatchesReasonsAndMayIgnoreTheLimit) {
  job::Spec spec;
  spec.run_policy.backoff_limit = 0;
  spec.failure_rules.push_back({{}, {"CoordinatorFailed"}, "RestartIgnoreLimit"});
  const auto verdict = decide(spec, failed(1, "CoordinatorFailed"), 0);
  EXPECT_EQ(verdict.action, Decision::retry);
  EXPECT_FALSE(verdict.counts);
  EXPECT_GT(verdict.delay.count(), 0) << "what does not count must still not spin";
  EXPECT_EQ(decide(spec, failed(1, "WorkerFailed"), 0).action, Decision::fail);
}

TEST(Decide, ADeadlineIsFinal) {
  EXPECT_EQ(decide({}, failed(1, "DeadlineExceeded"), 0).reason, "DeadlineExceeded");
}

TEST(Decide, DelaysDoubleUpToHalfAMinute) {
  job::Spec spec;
  spec.run_policy.backoff_limit = 100;
  std::vector<long> delays;
  for (int failures = 0; failures < 8; ++failures) {
    delays.push_back(decide(spec, failed(1), failures).delay.count());
  }
  EXPECT_EQ(delays, (std::vector<long>{0, 1000, 2000, 4000, 8000, 16000, 30000, 30000}));
}

TEST(ExitCode, OfExitAndSignal) {
  EXPECT_EQ(exit_code_of_wait_status(3 << 8), 3);
  EXPECT_EQ(exit_code_of_wait_status(SIGKILL), 137);
}

TEST(ExitCode, IsDescribedInWords) {
  EXPECT_EQ(describe_exit_code(137), "killed by signal 9 (Killed)");
  EXPECT_EQ(describe_exit_code(3), "exit code 3 (the data are wrong)");
  EXPECT_EQ(describe_exit_code(1), "exit code 1");
}

}  // namespace
}  // namespace muster::trainingjob
