// One thread, a virtual clock and a virtual network around the real state machines: Membership on
// one side, a BoundaryGate and a scripted training loop on the other; attempt after attempt, each
// from the newest published checkpoint. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "trainer/protocol/boundary_gate.h"
#include "trainer/protocol/membership.h"

namespace muster::protocol {

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  // Runs to the end; what broke an invariant, or "".
  std::string run();

 private:
  using json = nlohmann::json;
  // finishing: at its end, the last checkpoint not yet published. leaving: the same, but told to.
  enum class RankState { building, waiting, training, finishing, leaving, ended, dead };
  struct Rank {
    MemberId id = 0;
    RankState state = RankState::building;
    BoundaryGate gate;
    double ready_at = 0, next_at = 0, step_seconds = 0.01;
    std::int64_t step = 0;
    std::uint64_t generation = 0;
    int rank = -1, world = 0;
    std::vector<std::int64_t> shares;
    std::int64_t own_samples = 0;
    std::int64_t awaits = -1;  // the checkpoint to be published before its last word
    std::string uid;
  };
  struct Packet {
    double at;
    std::uint64_t order;
    bool to_coordinator;
    MemberId id;
    json message;
    bool close = false;
    bool operator>(const Packet& o) const { return std::tie(at, order) > std::tie(o.at, o.order); }
  };

  double random(double low, double high);
  bool chance(double p) { return random(0, 1) < p; }
  void start_attempt();
  void run_attempt();
  void check_attempt();
  void start_rank(const std::string& uid = "");
  void deliver(const Packet& packet);
  void to_coordinator(MemberId id, json message, bool close = false);
  void carry_out(const Membership::Actions& actions);
  void step_rank(Rank& rank);
  void enter(Rank& rank, const json& assignment);
  bool at_boundary(Rank& rank);
  void snapshot(Rank& rank);
  void await_last_checkpoint(Rank& rank, RankState state);
  void last_word(Rank& rank, json message);
  void close(Rank& rank);
  void check_progress();
  bool peer_is_dead(const Rank& rank) const;
  bool commit_step(Rank& rank);
  void faults();
  void broken(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  std::mt19937_64 engine_;
  Rules rules_;
  std::unique_ptr<Membership> membership_;
  std::map<MemberId, Rank> ranks_;
  std::vector<Packet> network_;
  std::map<MemberId, double> last_out_, last_in_;  // one connection keeps its order
  double now_ = 0;
  std::uint64_t order_ = 0;
  MemberId next_id_ = 1;
  std::int64_t total_steps_ = 0;
  bool ended_ = false, stop_sent_ = false, killed_ = false;
  int attempts_ = 0;
  double last_progress_ = 0;
  // The ledger: who contributed to a step of a generation, and the samples that the step took.
  std::map<std::int64_t, std::map<std::uint64_t, std::map<int, std::int64_t>>> ledger_;
  std::map<std::uint64_t, std::set<int>> connected_;    // ranks that have entered a generation
  std::map<std::int64_t, std::uint64_t> committed_by_;  // step -> generation
  std::int64_t published_ = -1;
  std::string broken_;
};

}  // namespace muster::protocol
