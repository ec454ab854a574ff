// muster-trainer: a pod of a TrainingJob. Started by the operator or by `muster run`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "common/exit_code.h"
#include "common/log.h"
#include "trainer/loop/launcher.h"
#include "trainer/loop/rank.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Trains as one pod of a TrainingJob: forks one rank a device and joins the coordinator."};
  app.set_version_flag("--version", std::string("muster-trainer ") + MUSTER_VERSION);
  app.footer(
      "The job's token is read from the environment variable MUSTER_TOKEN.\n\n"
      "Example:\n"
      "  MUSTER_TOKEN=... muster-trainer --coordinator 127.0.0.1:7077 --pod worker-0 --output out");
  muster::loop::RankOptions rank;
  muster::loop::LauncherOptions launcher;
  rank.host = "127.0.0.1";
  bool json_logs = false;
  app.add_option("--coordinator", rank.coordinator, "host:port of the coordinator")->required();
  app.add_option("--pod", rank.pod, "name of this pod")->required();
  app.add_option("--pod-uid", rank.pod_uid, "uid of this pod (default: its name and process id)");
  app.add_option("--host", rank.host, "address at which peers reach this pod");
  app.add_option("--ranks", launcher.ranks, "ranks to start")->check(CLI::Range(1, 64));
  app.add_option("--output", rank.output, "folder of metrics.jsonl, export/ and summary.json");
  app.add_option("--metrics", launcher.metrics_address,
                 "host:port of /metrics (port 0: a free one)");
  app.add_option("--connect-seconds", rank.connect_seconds, "how long to wait for the coordinator");
  app.add_flag("--json-logs", json_logs, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  muster::log::set_json(json_logs);
  const char* token = std::getenv("MUSTER_TOKEN");
  if (token == nullptr || *token == 0) {
    muster::log::error("MUSTER_TOKEN is not set; it holds the job's token");
    return muster::exit_invalid_job;
  }
  rank.token = token;
  if (rank.pod_uid.empty()) rank.pod_uid = rank.pod + "-" + std::to_string(::getpid());
  const auto code =
      muster::loop::launch(launcher, [&rank](int local_rank, muster::loop::RankMetrics& metrics) {
        auto mine = rank;
        mine.local_rank = local_rank;
        return muster::loop::run_rank(mine, metrics);
      });
  if (code.ok()) return *code;
  muster::log::error(code.error().message);
  return muster::exit_code(code.error());
}
