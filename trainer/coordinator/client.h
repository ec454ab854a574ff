// A rank's side of its connection to the coordinator. No Torch.
//
//   auto client = Client::connect(endpoint, token, hello, on_abort, deadline);
//   auto assignment = client->wait_assignment(deadline);       // rank, world size, peers, shares,
//   step for (step = assignment->step; ...; ++step) {
//     auto boundary = client->boundary(step);                  // before every step
//     ... train, client->report(...) ...
//   }
//   client->finish(result);
//
// A thread of its own sends heartbeats (with the latest report) and receives; boundary() takes an
// uncontended mutex when nothing is planned. Planned changes happen at a step that the coordinator
// names, in two phases (protocol/): boundary(k) blocks only when a change was proposed for k and
// its commit is still on its way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/index.h"
#include "trainer/comm/communicator.h"

namespace muster::coordinator {

// What a rank says of itself.
struct Hello {
  std::string pod;      // name of its pod (locally: worker-0)
  std::string pod_uid;  // one incarnation of the pod; with local_rank the member's identity
  int local_rank = 0;
  int pid = 0;
  comm::PeerAddress address;
  std::int64_t memory_bytes = 0;  // limit of the cgroup or device
  double gflops = 0;              // of a small matmul; 0 = not measured
};

// One generation as one rank sees it.
struct Assignment {
  comm::Generation generation;
  int rank = 0;
  int world_size = 1;
  std::string key;                       // for comm::Options::key
  std::vector<comm::PeerAddress> peers;  // in rank order
  std::vector<std::int64_t> shares;      // samples of the global batch, by rank; may be 0
  std::int64_t step = 0;                 // the first step that this generation computes
  int state_from = -1;                   // the rank that broadcasts its state to the newcomers;
                                         // -1: nobody has state: load `checkpoint`, or initialise
  std::vector<int> newcomers;            // ranks without state (when state_from >= 0)
  std::string checkpoint;  // path of the index to load; empty: initialise from the seed
};

// What is to be done before step k is computed. In this order: checkpoint, then one of the others.
struct Boundary {
  bool checkpoint = false;  // snapshot the state after step k - 1 as checkpoint k
  bool leave = false;       // this rank has handed over: exit 75
  bool stop = false;        // everyone stops here, the job is not finished (Ctrl-C, suspend)
  std::optional<Assignment> regroup;  // a new generation computes step k
};

enum class Phase : std::uint8_t {
  starting,
  loading,
  data,
  forward,
  backward,
  communication,
  optimizer,
  validation,
  checkpoint,
  waiting
};

// The latest of a rank's progress; travels with the next heartbeat.
struct Report {
  std::int64_t step = 0;         // steps committed
  std::int64_t total_steps = 0;  // of the run; 0: not known yet
  Phase phase = Phase::starting;
  std::int64_t samples = 0;      // committed, of the run
  std::int64_t own_samples = 0;  // computed by this rank in this attempt
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double samples_per_second = 0;
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // before the first
  double validation_accuracy = std::numeric_limits<double>::quiet_NaN();
};

class Client {
 public:
  // `endpoint`: host:port, retried until the deadline while it refuses. `on_abort` is called once,
  // on the client's thread, when the attempt is over for this rank (a peer died, the coordinator is
  // lost, the run is over before this rank was needed): it must abort the communicator; the reason
  // names who died.
  static Result<std::unique_ptr<Client>> connect(const std::string& endpoint,
                                                 const std::string& token, const Hello& hello,
                                                 std::function<void(const Error&)> on_abort,
                                                 comm::Deadline deadline);
  virtual ~Client() = default;

  // The resolved TrainingJob, frozen for the attempt.
  virtual const nlohmann::json& spec() const = 0;
  virtual const std::string& job_uid() const = 0;

  // Says that this rank is ready (its model is built) and waits for a place in a generation. When
  // `leave` becomes true while it waits, it asks to be sent home.
  virtual Result<Assignment> wait_assignment(comm::Deadline deadline,
                                             const std::atomic<bool>& leave) = 0;
  // Sent home before it was needed: with the exit code to end with. Else nothing.
  virtual std::optional<int> sent_home() const = 0;

  virtual Result<Boundary> boundary(std::int64_t step) = 0;

  // Lock-free for the caller but for a short mutex; never blocks on the network.
  virtual void report(const Report& report) = 0;
  virtual void set_phase(Phase phase) = 0;

  // This rank's shard of checkpoint `step`, of generation n, is on disk. `head` is rank 0's alone
  // (layout, trainer state); the coordinator adds the shards and publishes the index.
  virtual void checkpoint_written(std::int64_t step, std::uint64_t n,
                                  const checkpoint::ShardRecord& shard,
                                  const nlohmann::json& head) = 0;
  virtual void checkpoint_failed(std::int64_t step, std::uint64_t n, const Error& error) = 0;
  // Waits until the coordinator has published checkpoint `step`, or says why it was not written.
  virtual Status wait_published(std::int64_t step, comm::Deadline deadline) = 0;

  // SIGTERM: asks to leave at the next possible boundary; boundary() then says leave (or stop, when
  // it is the last rank).
  virtual void request_leave() = 0;

  // Last words, one of them; each waits until it is on its way.
  // The run is complete on this rank. `result` is rank 0's summary.
  virtual Status finish(const nlohmann::json& result) = 0;
  // This rank was told to leave or stop, and has done so.
  virtual Status left() = 0;
  // This rank cannot go on; the attempt ends with this reason everywhere.
  virtual void fail(const Error& error) = 0;
};

}  // namespace muster::coordinator
