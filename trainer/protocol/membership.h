// The coordinator's decisions as a pure state machine: events in, actions out, the clock injected.
// No sockets, no threads.
//
// A generation (epoch, n) is a list of members with ranks 0 .. N-1. The first begins when all
// wanted workers are ready. A planned change (join, leave, checkpoint, stop) happens at a boundary
// that is named in two phases: propose step k; every rank either promises to wait there, or says
// how far it is, and a later k is proposed; when all have promised, the change is committed. So no
// two ranks ever disagree about the step of a change, and nobody waits unless a change is on its
// way. An unplanned loss ends the attempt for everyone, with a reason that names who was lost.
//
// A rank's end is expected after its last word ("finished", or "left" once it was told to leave or
// stop), never before: others may still need it. A run may end before the step of a committed
// change; then the change is void, and its newcomers are sent home.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/protocol/publication.h"

namespace muster::protocol {

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
  enum Kind { send, publish, drop, end } kind = send;
  MemberId to = 0;         // send; drop: close its connection, which is no news to us
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
  bool leaving = false;          // it has asked to leave
  std::int64_t leaves_at = -1;   // it was told to leave or stop at this boundary
  bool done = false;             // it has said its last word
  bool gone = false;             // its connection has closed
  std::int64_t step = -1;        // the boundary it was last known to have passed
  std::int64_t own_samples = 0;  // that it has computed in this attempt
  double last_seen = 0;
  // Of the generation, or still needed by it.
  bool takes_part() const { return rank >= 0 || leaves_at >= 0; }
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
  void on_leave(MemberId id, Actions& out);
  void on_left(MemberId id, const nlohmann::json& message, Actions& out);
  void begin(Actions& out);
  void void_change(std::int64_t finished_at, Actions& out);
  void send_home(MemberId id, bool stopped, Actions& out);
  void settle(Actions& out);
  void want_change(double now, Actions& out);
  void propose(Actions& out);
  void withdraw(Actions& out);
  void commit(Actions& out);
  void regroup(Actions& out);
  nlohmann::json assignment(const std::vector<MemberId>& ranks, std::int64_t step, int state_from,
                            const std::vector<int>& newcomers) const;
  void on_silence(MemberId id, double now, Actions& out);
  void fail(const Error& error, const std::string& pod, Actions& out);
  std::vector<MemberId> in_generation() const;
  std::vector<MemberId> waiting() const;
  bool handed_over(const Member& leaver) const;
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
  std::vector<MemberId> newcomers_;  // of the last regroup
  bool finished_ = false;            // somebody has come to the end of the run
  Publication publication_;
  std::int64_t published_step_ = -1;
  std::optional<Error> failure_;
  std::string failed_pod_;
  nlohmann::json result_;
  nlohmann::json progress_ = nlohmann::json::object();
  std::string key_;
};

}  // namespace muster::protocol
