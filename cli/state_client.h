// Reads the coordinator's port file and its GET /state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/result.h"

namespace muster::cli {

// Where a coordinator listens, as it wrote it into its --port-file.
struct CoordinatorPorts {
  int ranks = 0;
  int http = 0;
};

// JSON {"port": 4000, "http": 4001}, or the two in that order as text, each a port or host:port.
Result<CoordinatorPorts> parse_port_file(const std::string& text);

// GET http://127.0.0.1:<port>/state; errors after one second.
Result<nlohmann::json> fetch_state(int port, const std::string& token);

}  // namespace muster::cli
