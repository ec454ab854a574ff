// summary.json: how a run ended. Rank 0 writes it on success; here it gets what only `muster run`
// knows, and is written when there was no success.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/progress.h"
#include "common/result.h"
#include "operator/trainingjob/failure.h"

namespace muster::cli {

using trainingjob::Decision;
using trainingjob::Verdict;

// Merges wallSeconds, restarts and recoveries (faults after which the run went on: each restart is
// one) into <folder>/summary.json, and writes state, reason and message
// of a stop or a failure. Returns what is in the file now.
Result<nlohmann::json> finish_summary(const std::string& folder, const Verdict& verdict,
                                      const Progress& last, double wall_seconds,
                                      std::int64_t restarts);

// The end of the terminal output: results, and where the files are.
std::string describe_summary(const nlohmann::json& summary, const std::string& folder,
                             const std::string& checkpoints);

}  // namespace muster::cli
