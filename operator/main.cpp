// muster-operator: turns TrainingJobs into pods. One leads, another may stand by.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "common/crypto.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "operator/process.h"

namespace {

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

void add_flags(CLI::App& app, muster::OperatorOptions& options) {
  auto& reconciler = options.reconciler;
  app.add_option("--kubeconfig", options.config.kubeconfig,
                 "kubeconfig (default: the pod's ServiceAccount, $KUBECONFIG, ~/.kube/config)");
  app.add_option("--context", options.config.context, "context of the kubeconfig");
  app.add_option("--namespaces", options.namespaces, "namespaces to watch (default: all)")
      ->delimiter(',');
  app.add_option("--http", options.http, "host:port of /metrics, /healthz and /readyz")
      ->capture_default_str();
  app.add_flag("--leader-elect,!--no-leader-elect", options.elect,
               "lead only while holding the lease (default: yes)");
  app.add_option("--lease-namespace", options.lease.name_space, "(default: the pod's namespace)");
  app.add_option("--lease-name", options.lease.name)->capture_default_str();
  app.add_option("--lease-seconds", options.lease.lease_seconds,
                 "a lease that was not renewed for so long may be taken")
      ->capture_default_str();
  app.add_option("--renew-seconds", options.lease.renew_seconds,
                 "a leader that could not renew for so long ends")
      ->capture_default_str();
  app.add_option("--retry-seconds", options.lease.retry_seconds, "between two tries")
      ->capture_default_str();
  app.add_option("--token-key-file", options.token_key_file,
                 "file of random bytes from which the jobs' tokens are derived");
  app.add_option("--coordinator-image", reconciler.images.coordinator)->capture_default_str();
  app.add_option("--trainer-image", reconciler.images.trainer)->capture_default_str();
  app.add_option("--image-pull-policy", reconciler.images.pull_policy)
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}))
      ->capture_default_str();
  app.add_option("--workers,--connections", options.workers, "jobs that are reconciled at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--qps", options.qps, "requests a second to the API server; 0: as it allows")
      ->capture_default_str();
  app.add_option("--burst", options.burst, "requests at once beyond --qps")->capture_default_str();
  app.add_option("--state-seconds", reconciler.state_seconds,
                 "between two looks at a running job's coordinator")
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  muster::OperatorOptions options;
  options.lease.name = "muster-operator";
  options.lease.name_space = environment("POD_NAMESPACE", "");
  options.lease.identity = environment("POD_NAME", host_name()) + "_" +
                           muster::crypto::to_hex(muster::crypto::random_bytes(4));
  options.reconciler.operator_namespace = environment("POD_NAMESPACE", "muster-system");
  bool json_logs = false;
  std::string level = "info", check;
  CLI::App app{"Turns TrainingJobs into pods that train them."};
  app.set_version_flag("--version", std::string("muster-operator ") + MUSTER_VERSION);
  app.footer(
      "A config file holds the same names: --config operator.toml with  workers = 4\n\n"
      "Example, on a developer's machine:\n"
      "  head -c 32 /dev/urandom > key\n"
      "  muster-operator --kubeconfig ~/.kube/config --no-leader-elect --token-key-file key");
  app.set_config("--config", "", "file of these flags, as TOML");
  add_flags(app, options);
  app.add_flag("--json-logs", json_logs, "one JSON object a line");
  app.add_option("--log-level", level)
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--check", check, "only GET this http:// address: 0 when it answers 200");
  CLI11_PARSE(app, argc, argv);
  muster::log::set_json(json_logs);
  muster::log::set_level(level == "debug"     ? muster::log::Level::debug
                         : level == "warning" ? muster::log::Level::warning
                         : level == "error"   ? muster::log::Level::error
                                              : muster::log::Level::info);
  if (!check.empty()) return muster::check_address(check);
  const auto code = muster::run_operator(options);
  if (code.ok()) return *code;
  muster::log::error(code.error().message);
  return muster::exit_code(code.error());
}
