#include "cli/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "common/file.h"
#include "tests/temporary_folder.h"

namespace muster::cli {
namespace {

// Waits for `condition` for at most ten seconds.
bool eventually(const auto& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

int exit_code_of(Process& process) {
  return eventually([&] { return !process.running(); }) ? *process.poll() : -1;
}

Result<Process> shell(const std::string& script, const std::string& log) {
  return Process::start({"/bin/bash", "-c", script}, {{"GREETING", "hello"}}, log);
}

TEST(Process, ReportsItsExitCodeAndLogsBothStreams) {
  const TemporaryFolder folder;
  auto process = shell("echo $GREETING; echo error >&2; exit 7", folder.file("log"));
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(exit_code_of(*process), 7);
  EXPECT_EQ(*read_file(folder.file("log")), "hello\nerror\n");
}

TEST(Process, ReportsASignalAs128AndItsNumber) {
  const TemporaryFolder folder;
  auto process = shell("kill -TERM $$; sleep 60", folder.file("log"));
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(exit_code_of(*process), 128 + SIGTERM);
}

TEST(Process, ThatCannotStartIsAnErrorWithItsPath) {
  const TemporaryFolder folder;
  const auto process = Process::start({folder.file("absent")}, {}, folder.file("log"));
  ASSERT_FALSE(process.ok());
  EXPECT_NE(process.error().message.find(folder.file("absent")), std::string::npos);
}

TEST(Process, TakesItsChildrenAlongWhenItIsDropped) {
  const TemporaryFolder folder;
  pid_t grandchild = 0;
  {
    auto process = shell("sleep 600 & echo $!; wait", folder.file("log"));
    ASSERT_TRUE(process.ok());
    ASSERT_TRUE(eventually([&] {
      const auto text = read_file(folder.file("log"));
      grandchild = text.ok() && text->ends_with('\n') ? std::stoi(*text) : 0;
      return grandchild > 0;
    }));
  }
  // Gone, or a zombie that nobody reaps in a container without an init.
  EXPECT_TRUE(eventually([&] {
    const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    return !stat.ok() || stat->find(") Z") != std::string::npos;
  }));
}

TEST(Process, HasItsOwnGroupSoThatCtrlCReachesOnlyUs) {
  const TemporaryFolder folder;
  auto process = shell("sleep 600", folder.file("log"));
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(::getpgid(process->pid()), process->pid());
}

TEST(LastLines, OfALogAndOfNone) {
  const TemporaryFolder folder;
  folder.write("log", "1\n2\n3\n");
  EXPECT_EQ(last_lines(folder.file("log"), 2), (std::vector<std::string>{"2", "3"}));
  EXPECT_TRUE(last_lines(folder.file("absent"), 2).empty());
}

}  // namespace
}  // namespace muster::cli
