// muster run JOB.yaml: trains on this machine, with a coordinator and workers as local processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::cli {

struct RunOptions {
  std::string file;  // "-" is standard input
  std::optional<std::int64_t> workers;
  std::vector<std::string> settings;  // path=value
  std::string output;                 // empty: the job's own, else runs/<name>
  std::string transport = "auto";
  std::optional<int> metrics_port;  // worker i serves /metrics at metrics_port + i
  bool json = false;
  std::string command_line;  // to say how to resume
};

// Runs every document, one after the other, until one fails. 0; 130 after Ctrl-C; 2, 3, 4 as in
// exit_code.h; 1 for any other failure.
int run(const RunOptions& options);

}  // namespace muster::cli
