// Child processes that cannot outlive us, each in a process group of its own.
//
//   auto child = Process::start({"/bin/muster-trainer", "--pod", "worker-0"},
//                               {{"MUSTER_TOKEN", token}}, "logs/worker-0.log");
//   child->poll();  child->signal(SIGTERM);  child->kill_group();
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::cli {

class Process {
 public:
  // Standard input is empty; output and errors are appended to `log`. The environment is ours plus
  // `environment`. Errors: the program cannot be started (the path and why).
  static Result<Process> start(const std::vector<std::string>& command,
                               const std::map<std::string, std::string>& environment,
                               const std::string& log);
  // Kills the whole group when it still runs.
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // Reaps it if it has ended. The exit code (128 + n for signal n), or nothing while it runs.
  std::optional<int> poll();
  bool running() { return !poll().has_value(); }
  void signal(int number);
  void kill_group();
  pid_t pid() const { return pid_; }

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

// The folder that holds the running program: its companions lie beside it.
std::string folder_of_this_program();

// The last lines of a log, for a person who must see why something died.
std::vector<std::string> last_lines(const std::string& path, std::size_t count);

}  // namespace muster::cli
