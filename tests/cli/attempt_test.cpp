// The handling of processes, with shell scripts in the places of coordinator and trainer.
#include "cli/attempt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "common/file.h"
#include "tests/temporary_folder.h"

namespace muster::cli {
namespace {

// Writes its port file, then does `rest`. $port_file and $final_state are what it was told.
std::string coordinator_script(const std::string& rest) {
  return R"(while [ $# -gt 1 ]; do
  case $1 in --port-file) port_file=$2 ;; --final-state) final_state=$2 ;; esac
  shift
done
echo 4000 0 > $port_file.new && mv $port_file.new $port_file
)" + rest;
}

class AttemptTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { hold_signals(); }

  AttemptTest() {
    plan_.programs = folder_.path();
    plan_.output = folder_.file("out");
    plan_.workers = 2;
    plan_.on_progress = [](const Progress&) {};
    plan_.on_note = [this](const std::string& note) { notes_ += note + "\n"; };
  }

  Result<AttemptEnd> run(const std::string& coordinator, const std::string& trainer) {
    folder_.write_program("muster-coordinator", coordinator_script(coordinator));
    folder_.write_program("muster-trainer", trainer);
    return run_attempt(plan_);
  }

  TemporaryFolder folder_;
  AttemptPlan plan_;
  std::string notes_;
};

TEST_F(AttemptTest, SucceedsWhenEveryoneDoes) {
  const auto end = run("exit 0", "exit 0");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_FALSE(end->stopped);
  EXPECT_EQ(end->exit_code, 0) << end->message;
}

TEST_F(AttemptTest, WorkersGetTheTokenAndTheirNames) {
  ASSERT_TRUE(run("exit 0", "echo $MUSTER_TOKEN $*").ok());
  const auto log = read_file(folder_.file("out/logs/worker-1.log"));
  ASSERT_TRUE(log.ok());
  EXPECT_NE(log->find("--coordinator 127.0.0.1:4000 --pod worker-1"), std::string::npos) << *log;
  EXPECT_EQ(log->find(' '), 64u) << "a token of 32 bytes in hex comes first: " << *log;
}

TEST_F(AttemptTest, TheMostTellingExitCodeIsTheReason) {
  const auto end = run("sleep 0.05; exit 1",
                       "case $* in *worker-1*) echo row 7 is broken; exit 3 ;; esac; exit 1");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->exit_code, 3);
  EXPECT_EQ(end->message, "worker-1: exit code 3 (the data are wrong)");
  EXPECT_NE(notes_.find("row 7 is broken"), std::string::npos) << notes_;
}

TEST_F(AttemptTest, TheCoordinatorsWordsAreShown) {
  const auto end =
      run(R"(echo '{"message": "worker-0 was lost"}' > $final_state; exit 1)", "exit 1");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_NE(end->message.find("worker-0 was lost"), std::string::npos) << end->message;
}

TEST_F(AttemptTest, ACoordinatorThatDiesBeforeItListensIsAFailure) {
  folder_.write_program("muster-coordinator", "echo cannot listen; exit 1");
  const auto end = run_attempt(plan_);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->reason, "CoordinatorFailed");
  EXPECT_EQ(end->exit_code, 1);
  EXPECT_NE(notes_.find("cannot listen"), std::string::npos) << notes_;
}

TEST_F(AttemptTest, AProgramThatIsNotThereIsAnError) {
  EXPECT_FALSE(run_attempt(plan_).ok());
}

TEST_F(AttemptTest, ADeadlineKillsEveryone) {
  plan_.deadline = steady_seconds();
  const auto end = run("sleep 600", "sleep 600");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->reason, "DeadlineExceeded");
}

// Sends `count` interrupts to this process: the first when worker-0 has said that it runs, the next
// when the coordinator has said that it heard the one before.
std::jthread interrupt_when_running(const TemporaryFolder& folder, int count) {
  return std::jthread([&folder, count](const std::stop_token& stop) {
    for (int sent = 0; sent < count; ++sent) {
      const auto log =
          folder.file(sent == 0 ? "out/logs/worker-0.log" : "out/logs/coordinator.log");
      while (!stop.stop_requested()) {
        const auto text = read_file(log);
        if (text.ok() && !text->empty()) break;
        std::this_thread::yield();
      }
      ::kill(::getpid(), SIGINT);
    }
  });
}

TEST_F(AttemptTest, OneInterruptIsAPlannedStop) {
  const auto interrupter = interrupt_when_running(folder_, 1);
  const auto end = run(
      "trap 'touch ${port_file%/*}/stop; echo \"{\\\"checkpointStep\\\": 7}\" > $final_state; exit "
      "75' TERM; while true; do sleep 0.01; done",
      "echo running; while [ ! -e ${0%/*}/out/.run/stop ]; do "
      "sleep 0.01; done; exit 75");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_TRUE(end->stopped);
  EXPECT_EQ(end->message, "a checkpoint of step 7 is written");
}

TEST_F(AttemptTest, ASecondInterruptStopsAtOnce) {
  const auto interrupter = interrupt_when_running(folder_, 2);
  const auto end =
      run("trap 'echo heard' TERM; while true; do sleep 0.01; done", "echo running; sleep 600");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_TRUE(end->stopped);
  EXPECT_EQ(end->message, "at once; what came after the last checkpoint is lost");
}

}  // namespace
}  // namespace muster::cli
