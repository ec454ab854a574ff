// The training loop. Everything that a step computes depends on (spec, seed, cursor) alone;
// membership changes only at the boundaries that the coordinator names.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/job/job.h"
#include "common/result.h"
#include "trainer/checkpoint/shard.h"
#include "trainer/comm/communicator.h"
#include "trainer/coordinator/client.h"
#include "trainer/data/loader.h"
#include "trainer/loop/metrics_log.h"
#include "trainer/loop/pod_metrics.h"
#include "trainer/loop/step_plan.h"
#include "trainer/loop/tracker.h"
#include "trainer/model/model.h"
#include "trainer/strategy/flat_state.h"
#include "trainer/strategy/sync.h"

namespace muster::loop {

enum class Outcome { finished, stopped, left };

// Aborts the communicator of the moment from any thread, and keeps the reason.
class AbortSwitch {
 public:
  void attach(comm::Communicator* communicator);  // null: none at the moment
  void abort(const Error& reason);
  std::optional<Error> reason() const;
  // Waits for a reason for at most `seconds`: a broken collective often precedes the word of why.
  std::optional<Error> wait_reason(double seconds) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  comm::Communicator* communicator_ = nullptr;
  std::optional<Error> reason_;
};

// What a rank owns; outlives the trainer.
struct Equipment {
  const job::TrainingJob& job;
  coordinator::Client& client;
  comm::Listener& listener;
  AbortSwitch& abort_switch;
  const data::Datasets& data;
  model::Model& model;
  strategy::FlatState& state;
  RankMetrics& metrics;
  const std::atomic<bool>& leave_requested;
  std::string output;  // folder
};

class Trainer {
 public:
  explicit Trainer(const Equipment& equipment);
  // Errors name the step. After an error nothing past the last committed step was changed.
  Result<Outcome> run();

 private:
  Result<std::optional<Outcome>> at_boundary();
  Status join(const coordinator::Assignment& assignment);
  Status restore(const std::string& index_path);
  Status share_state();
  void start_loading();
  Status train_step();
  Result<strategy::StepSums> accumulate(Split& split);
  Status check_finite(double loss, double norm, bool& skip) const;
  Status record(const StepRecord& record, std::int64_t own_samples);
  Status validate();
  bool checkpoint_wanted() const;
  void snapshot();
  nlohmann::json checkpoint_head() const;
  Result<Outcome> finish();
  Status complete_checkpoint();
  comm::Deadline step_deadline() const;
  bool leader() const { return assignment_.rank == 0; }
  // The end of the run: arithmetic that every rank answers alike.
  bool over() const { return step_ >= run_.total_steps || tracker_.stop; }
  std::int64_t samples() const { return step_range(run_, step_).begin; }

  Equipment with_;
  const job::Spec& spec_;
  coordinator::Assignment assignment_;
  std::unique_ptr<comm::Communicator> communicator_;
  strategy::Sync sync_;
  data::Loader loader_;
  checkpoint::Writer writer_;
  std::unique_ptr<MetricsLog> log_;  // rank 0
  Run run_;
  Tracker tracker_;
  std::int64_t step_ = 0;  // steps committed
  std::int64_t last_snapshot_ = -1;
  std::int64_t resumed_at_ = 0;
  double started_ = 0;                // seconds of the steady clock at the first step
  std::int64_t trained_samples_ = 0;  // since started_, over all ranks
  std::int64_t own_samples_ = 0;      // the same, of this rank
};

// Mean loss and accuracy over the whole validation set, each rank computing its part; alike on all.
Result<Validation> validate_over_ranks(model::Model& model, const data::Dataset& dataset,
                                       comm::Communicator& communicator, std::int64_t micro_batch,
                                       std::chrono::steady_clock::duration timeout);

}  // namespace muster::loop
