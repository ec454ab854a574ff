// One attempt at a job: a coordinator and its workers as local processes, watched to their end.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/progress.h"
#include "common/result.h"
#include "operator/trainingjob/failure.h"

namespace muster::cli {

using trainingjob::AttemptEnd;

struct AttemptPlan {
  std::string programs;  // folder of muster-coordinator and muster-trainer
  std::string output;
  std::string spec_file;
  std::string job_uid;
  std::string transport = "auto";
  std::optional<int> metrics_port;  // worker i serves /metrics at metrics_port + i
  std::int64_t epoch = 1;           // of the coordinator: higher than in any attempt before
  std::int64_t attempt = 1;
  std::int64_t workers = 1;
  // Steady clock's seconds at which the job's activeDeadlineSeconds are over.
  std::optional<double> deadline;
  // Called some times a second with what the coordinator says.
  std::function<void(const Progress&)> on_progress;
  std::function<void(const std::string&)> on_note;
};

// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD in this thread, as run_attempt waits for them; call it
// before any other thread starts. Children get a clean mask.
void hold_signals();

// Waits for `seconds`; true when a request to stop came first.
bool interrupted_within(double seconds);

double steady_seconds();

// Ctrl-C (or SIGTERM, SIGHUP) asks for a planned stop: checkpoint, then the end; a second one kills
// at once. No process of the attempt is left when it returns. Errors: a program could not be
// started.
Result<AttemptEnd> run_attempt(const AttemptPlan& plan);

}  // namespace muster::cli
