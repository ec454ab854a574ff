#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "operator/trainingjob/failure.h"

extern char** environ;

namespace muster::cli {
namespace {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (additions.count(text.substr(0, text.find('='))) == 0) merged.push_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

Error system_error(const std::string& what) {
  return {Code::io, what + ": " + ::strerror(errno)};
}

// Runs in the child: only async-signal-safe calls until exec. Sends errno through `failure`.
[[noreturn]] void become(char* const* command, char* const* environment, int log, int failure,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before prctl
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int empty = ::open("/dev/null", O_RDONLY);
  ::dup2(empty, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<Process> Process::start(const std::vector<std::string>& command,
                               const std::map<std::string, std::string>& environment,
                               const std::string& log) {
  const int log_file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_file < 0) return system_error("opening the log " + log);
  int failure[2];
  if (::pipe2(failure, O_CLOEXEC) != 0) {
    const auto error = system_error("starting " + command[0]);
    ::close(log_file);
    return error;
  }
  auto arguments = command;
  auto variables = merged_environment(environment);
  const auto argument_pointers = pointers(arguments);
  const auto variable_pointers = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    become(argument_pointers.data(), variable_pointers.data(), log_file, failure[1], parent);
  }
  ::close(log_file);
  ::close(failure[1]);
  int error = pid < 0 ? errno : 0;
  // The pipe closes at exec: nothing to read means that it succeeded.
  if (pid > 0 && ::read(failure[0], &error, sizeof error) <= 0) error = 0;
  ::close(failure[0]);
  if (error != 0) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return Error{Code::io, "starting " + command[0] + ": " + ::strerror(error)};
  }
  return Process(pid);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Process::~Process() {
  if (pid_ <= 0 || exit_code_) return;
  kill_group();
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> Process::poll() {
  int status = 0;
  if (pid_ > 0 && !exit_code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = trainingjob::exit_code_of_wait_status(status);
    // A launcher that was killed leaves ranks behind; its group ends with it.
    ::kill(-pid_, SIGKILL);
  }
  return exit_code_;
}

void Process::signal(int number) {
  if (pid_ > 0 && !exit_code_) ::kill(pid_, number);
}

void Process::kill_group() {
  if (pid_ > 0 && !exit_code_) ::kill(-pid_, SIGKILL);
}

std::string folder_of_this_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::vector<std::string> last_lines(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > count) lines.pop_front();
  }
  return {lines.begin(), lines.end()};
}

}  // namespace muster::cli
