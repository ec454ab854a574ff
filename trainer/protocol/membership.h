// The coordinator's decisions as a pure state machine: events in, actions out, the clock injected.
// No sockets, no threads.
//
// A generation (epoch, n) is a list of members with ranks 0 .. N-1. The first begins when all
// wanted workers are ready. A planned change (join, leave, checkpoint, stop) happens at a boundary
// that is named in two phases: propose step k; every rank either promises to wait there, or says
// how far it is, and a later k is proposed; when all have promised, the change is committed. So no
// two ranks ever disagree about the step of a change, and nobody waits unless a change is on its
// way. An unplanned loss ends the attempt for everyone, with a reason that names who was lost.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::protocol {

using MemberId = std::int64_t;  // one connection; never used twice

struct Rules {
  std::uint64_t epoch = 1;  // the coordinator's incarnation
  int workers = 1;          // ranks that the first generation waits for
  int max_workers = 1;      // newcomers beyond it are not taken in
  std::int64_t global_batch = 32;
  double heartbeat_timeout = 3;   // seconds
  double checkpoint_seconds = 0;  // 0: none by time
  bool checkpoints = false;       // there is a folder for them
  std::int64_t start_step = 0;    // of the checkpoint to load
  std::string checkpoint;         // its index; empty: from the seed
};

struct Action {
  enum Kind { send, publish, end } kind = send;
  MemberId to = 0;         // send
  nlohmann::json message;  // send: the frame; publish: {head, shards}
};

enum class Phase { starting, running, stopping, succeeded, failed, stopped };
const char* name_of(Phase phase);

struct Member {
  nlohmann::json hello;   // pod, podUid, address ...
  nlohmann::json report;  // the latest
  std::string pod;
  int rank = -1;  // -1: not in the generation
  bool ready = false;
  bool leaving = false;
  bool done = false;       // finished, left or stopped: its end is expected
  bool gone = false;       // its connection has closed
  std::int64_t step = -1;  // the boundary it was last known to have passed
  double last_seen = 0;
};

class Membership {
 public:
  explicit Membership(Rules rules) : rules_(std::move(rules)) {}

  using Actions = std::vector<Action>;
  // `now` in seconds of any steady clock.
  Actions joined(MemberId id, const nlohmann::json& hello, double now);
  Actions received(MemberId id, const nlohmann::json& message, double now);
  Actions disconnected(MemberId id, double now);
  Actions stop_requested(double now);
  Actions tick(double now);
  // The carrying out of `publish` has succeeded, or not.
  Actions published(std::int64_t step, const Status& status);

  Phase phase() const { return phase_; }
  std::uint64_t generation() const { return generation_; }
  const std::map<MemberId, Member>& members() const { return members_; }
  const std::optional<Error>& failure() const { return failure_; }
  // Everything that GET /state says.
  nlohmann::json state() const;

 private:
  struct Change {
    std::int64_t id = 0;
    std::int64_t step = 0;
    bool checkpoint = false, stop = false, regroup = false;
    std::set<MemberId> promised;
  };
  void on_ready(MemberId id, Actions& out);
  void on_heartbeat(Member& member, const nlohmann::json& message);
  void on_answer(MemberId id, const nlohmann::json& message, Actions& out);
  void on_shard(MemberId id, const nlohmann::json& message, Actions& out);
  void on_finished(MemberId id, const nlohmann::json& message, Actions& out);
  void begin(Actions& out);
  void want_change(double now, Actions& out);
  void propose(Actions& out);
  void withdraw(Actions& out);
  void commit(Actions& out);
  void regroup(Actions& out);
  nlohmann::json assignment(const std::vector<MemberId>& ranks, std::int64_t step, int state_from,
                            const std::vector<int>& newcomers) const;
  void fail(const Error& error, const std::string& pod, Actions& out);
  std::vector<MemberId> in_generation() const;
  std::vector<MemberId> waiting() const;
  int count_ranks() const;
  void check_ended(Actions& out);
  static void send(Actions& out, MemberId to, nlohmann::json message);

  Rules rules_;
  Phase phase_ = Phase::starting;
  std::uint64_t generation_ = 0;
  std::map<MemberId, Member> members_;
  std::optional<Change> change_;
  std::int64_t next_change_ = 1;
  std::int64_t lead_ = 2;
  std::int64_t last_change_step_ = -1;  // no rank has to be told of another before it is past this
  bool stop_wanted_ = false;
  bool checkpoint_wanted_ = false;
  double last_checkpoint_time_ = -1;
  double ended_at_ = -1;
  std::map<std::int64_t, std::map<int, nlohmann::json>> shards_;  // by step, by rank
  std::map<std::int64_t, nlohmann::json> heads_;
  std::map<std::int64_t, int> expected_;  // ranks of the generation that writes it
  std::int64_t published_step_ = -1;
  std::optional<Error> failure_;
  std::string failed_pod_;
  nlohmann::json result_;
  nlohmann::json progress_ = nlohmann::json::object();
  std::string key_;
};

}  // namespace muster::protocol
