#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "common/json_fields.h"
#include "operator/kube/credentials.h"
#include "operator/kube/time.h"

extern char** environ;

namespace muster::kube {
namespace {

using nlohmann::json;

constexpr int plugin_milliseconds = 60'000;
constexpr std::size_t output_limit = 1u << 20;

Error failed(const ExecPlugin& plugin, const std::string& why) {
  auto message = "the credentials plugin " + plugin.command + " " + why;
  if (!plugin.install_hint.empty()) message += "; " + plugin.install_hint;
  return {Code::unauthenticated, message};
}

std::vector<std::string> environment_of(const ExecPlugin& plugin) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!plugin.environment.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : plugin.environment) result.push_back(name + "=" + value);
  json info{{"apiVersion", plugin.api_version},
            {"kind", "ExecCredential"},
            {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) info["spec"]["cluster"] = json::parse(plugin.cluster_info);
  result.push_back("KUBERNETES_EXEC_INFO=" + info.dump());
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// All that comes from `fd` until its end; false when it takes too long or is too much.
bool read_all(int fd, std::string& text) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(plugin_milliseconds);
  char buffer[4096];
  while (text.size() < output_limit) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd readable{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0)
      return false;
    const auto count = ::read(fd, buffer, sizeof(buffer));
    if (count <= 0) return count == 0;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return false;
}

}  // namespace

Result<ExecCredential> parse_exec_credential(const std::string& text, double now) {
  const auto value = json::parse(text, nullptr, false);
  if (!value.is_object() || text_field(value, "kind") != "ExecCredential" ||
      !value.contains("status") || !value["status"].is_object()) {
    return Error{Code::unauthenticated, "did not print an ExecCredential with a status"};
  }
  const auto& status = value["status"];
  ExecCredential credential;
  credential.token = text_field(status, "token");
  credential.certificate = text_field(status, "clientCertificateData");
  credential.key = text_field(status, "clientKeyData");
  if (credential.token.empty() && (credential.certificate.empty() || credential.key.empty())) {
    return Error{Code::unauthenticated, "printed neither a token nor a certificate with its key"};
  }
  if (const auto end = parse_time(text_field(status, "expirationTimestamp"))) {
    credential.expires_in = *end - now;
  }
  return credential;
}

Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed(plugin, "could not be given a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::vector<std::string> words{plugin.command};
  words.insert(words.end(), plugin.arguments.begin(), plugin.arguments.end());
  auto environment = environment_of(plugin);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, plugin.command.c_str(), &actions, nullptr,
                                   pointers(words).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return failed(plugin, std::string("could not be started: ") + ::strerror(error));
  }
  std::string text;
  const bool whole = read_all(ends[0], text);
  ::close(ends[0]);
  if (!whole) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!whole) return failed(plugin, "did not end within 60 s");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return failed(plugin, WIFEXITED(status)
                              ? "ended with exit code " + std::to_string(WEXITSTATUS(status))
                              : "was killed by signal " + std::to_string(WTERMSIG(status)));
  }
  auto credential = parse_exec_credential(text, static_cast<double>(::time(nullptr)));
  if (!credential.ok()) return failed(plugin, credential.error().message);
  return credential;
}

}  // namespace muster::kube
