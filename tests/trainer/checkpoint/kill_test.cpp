// A writer of checkpoints is killed at any moment, 100 times. This program is its own victim:
// started with --write FOLDER it writes checkpoints until it is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/small_state.h"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

const Layout large = layout_of({{"w", 150'000}, {"b", 11}}, 5);
constexpr int world_size = 2;
constexpr int kills = 100;

std::int64_t newest_step(const std::string& folder) {
  const auto index = newest_valid(folder, "uid");
  return index.ok() && *index ? (*index)->step : 0;
}

[[noreturn]] void write_for_ever(const std::string& folder) {
  for (auto step = newest_step(folder) + 1;; ++step) {
    if (!write_checkpoint(folder, step, large, world_size).ok()) ::_exit(1);
    if (!prune(folder, 2, -1).ok()) ::_exit(1);
  }
}

pid_t start_writer(const std::string& folder) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/proc/self/exe", "kill_test", "--write", folder.c_str(), nullptr);
    ::_exit(127);
  }
  return pid;
}

// A step that was begun and not published.
bool cut_short(const std::string& folder, std::int64_t newest) {
  return fs::exists(folder + "/step-" + std::to_string(newest + 1) + ".1");
}

// Empty when the newest checkpoint holds exactly the values of its step.
std::string check_newest(const std::string& folder) {
  const auto found = newest_valid(folder, "uid");
  if (!found.ok()) return found.error().message;
  if (!*found) return "no checkpoint is valid";
  State state(0, large.total);
  const auto status = load(folder, **found, large, 0, large.total, state.buffers());
  if (!status.ok()) return status.error().message;
  const State expected((*found)->step, large.total);
  for (const auto& p : large.parameters) {
    for (std::size_t b = 0; b < state.data.size(); ++b) {
      const auto begin = state.data[b].begin() + p.offset;
      if (!std::equal(begin, begin + p.shape[0], expected.data[b].begin() + p.offset)) {
        return "step " + std::to_string((*found)->step) + " holds other values in " + p.name;
      }
    }
  }
  return "";
}

TEST(Kill, OneOf100WhileACheckpointIsWrittenLeavesAValidOneEachTime) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.path(), 1, large, world_size).ok());
  std::mt19937_64 engine(7);
  std::int64_t before = 1;
  int in_the_middle = 0;
  for (int i = 0; i < kills; ++i) {
    const auto writer = start_writer(folder.path());
    // It has to come to its first write before the clock runs.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!cut_short(folder.path(), before) && newest_step(folder.path()) == before) {
      ASSERT_LT(std::chrono::steady_clock::now(), patience) << "the writer writes nothing";
      std::this_thread::yield();
    }
    // Not a wait for anything: the moment of the kill is what is drawn.
    std::this_thread::sleep_for(std::chrono::microseconds(engine() % 30'000));
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    ASSERT_EQ(check_newest(folder.path()), "") << "kill " << i;
    const auto newest = newest_step(folder.path());
    ASSERT_GE(newest, before);
    in_the_middle += cut_short(folder.path(), newest);
    before = newest;
  }
  EXPECT_GT(in_the_middle, kills / 4) << "most kills hit nothing: the test shows little";
  EXPECT_GT(before, 1);
}

}  // namespace
}  // namespace muster::checkpoint

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write") muster::checkpoint::write_for_ever(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
