#include "trainer/protocol/membership.h"

#include <algorithm>

#include "common/crypto.h"
#include "common/exit_code.h"
#include "common/json_fields.h"
#include "trainer/protocol/split.h"

namespace muster::protocol {
namespace {

using nlohmann::json;

constexpr std::int64_t longest_lead = 4096;
constexpr double linger_seconds = 5;

}  // namespace

const char* name_of(Phase phase) {
  static constexpr const char* names[] = {"Starting",  "Running", "Stopping",
                                          "Succeeded", "Failed",  "Stopped"};
  return names[static_cast<int>(phase)];
}

void Membership::send(Actions& out, MemberId to, json message) {
  out.push_back({Action::send, to, std::move(message)});
}

std::vector<MemberId> Membership::in_generation() const {
  std::vector<MemberId> ranks;
  for (const auto& [id, m] : members_) {
    if (m.rank >= 0) ranks.push_back(id);
  }
  std::sort(ranks.begin(), ranks.end(),
            [this](auto a, auto b) { return members_.at(a).rank < members_.at(b).rank; });
  return ranks;
}

std::vector<MemberId> Membership::waiting() const {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : members_) {
    if (!m.takes_part() && m.ready && !m.done) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [this](auto a, auto b) {
    const auto& x = members_.at(a).pod;
    const auto& y = members_.at(b).pod;
    return x.size() != y.size() ? x.size() < y.size() : x < y;  // worker-2 before worker-10
  });
  return ids;
}

int Membership::count_ranks() const {
  return static_cast<int>(in_generation().size());
}

// A second connection of one identity means that the first is dead, whether we know it or not.
Membership::Actions Membership::joined(MemberId id, const json& hello, double now) {
  Actions out;
  const auto uid = text_field(hello, "podUid");
  std::vector<MemberId> fenced;
  for (const auto& [other, m] : members_) {
    const bool same =
        !uid.empty() && text_field(m.hello, "podUid") == uid &&
        integer_field(m.hello, "localRank", 0) == integer_field(hello, "localRank", 0);
    if (same && !m.gone && !m.done) fenced.push_back(other);
  }
  for (const auto other : fenced) {
    out.push_back({Action::drop, other, {}});
    for (auto& action : disconnected(other, now)) out.push_back(std::move(action));
  }
  Member member;
  member.hello = hello;
  member.pod = text_field(hello, "pod");
  member.last_seen = now;
  members_[id] = std::move(member);
  return out;
}

Membership::Actions Membership::received(MemberId id, const json& message, double now) {
  Actions out;
  const auto found = members_.find(id);
  if (found == members_.end()) return out;
  auto& member = found->second;
  member.last_seen = now;
  const auto type = text_field(message, "type");
  if (type == "ready") on_ready(id, out);
  if (type == "heartbeat") on_heartbeat(member, message);
  if (type == "answer") on_answer(id, message, out);
  if (type == "shard") on_shard(id, message, out);
  if (type == "finished") on_finished(id, message, out);
  if (type == "leave") on_leave(id, out);
  if (type == "left") on_left(id, message, out);
  if (type == "failed") {
    const auto code = integer_field(message, "code", static_cast<int>(Code::internal));
    const bool known = code >= 0 && code <= static_cast<int>(Code::internal);
    fail({known ? static_cast<Code>(code) : Code::internal, text_field(message, "message")},
         member.pod, out);
  }
  want_change(now, out);
  return out;
}

void Membership::on_ready(MemberId id, Actions& out) {
  members_[id].ready = true;
  if (phase_ == Phase::starting && static_cast<int>(waiting().size()) >= rules_.workers) begin(out);
}

void Membership::on_heartbeat(Member& member, const json& message) {
  member.report = message;
  member.step = std::max(member.step, integer_field(message, "step"));
  member.own_samples = std::max(member.own_samples, integer_field(message, "ownSamples"));
  if (member.rank == 0) progress_ = numbers_of(message);
}

// One that no generation has taken in may go at once.
void Membership::on_leave(MemberId id, Actions& out) {
  auto& member = members_[id];
  member.leaving = true;
  if (!member.takes_part() && !member.done) send_home(id, true, out);
}

void Membership::on_left(MemberId id, const json& message, Actions& out) {
  auto& member = members_[id];
  on_heartbeat(member, message);
  if (member.leaves_at < 0 && !member.done) {
    fail({Code::peer_lost, member.pod + " left without having been told to"}, member.pod, out);
  }
  member.done = true;
  settle(out);
}

// The first generation: nobody has state.
void Membership::begin(Actions& out) {
  auto ids = waiting();
  ids.resize(static_cast<std::size_t>(rules_.workers));
  for (std::size_t r = 0; r < ids.size(); ++r) members_[ids[r]].rank = static_cast<int>(r);
  ++generation_;
  publication_.begin_generation(generation_, ids);
  key_ = crypto::to_hex(crypto::random_bytes(32));
  phase_ = Phase::running;
  for (const auto id : ids) {
    auto message = assignment(ids, rules_.start_step, -1, {});
    message["rank"] = members_[id].rank;
    message["checkpoint"] = rules_.checkpoint;
    send(out, id, std::move(message));
  }
}

json Membership::assignment(const std::vector<MemberId>& ranks, std::int64_t step, int state_from,
                            const std::vector<int>& newcomers) const {
  json peers = json::array();
  for (const auto id : ranks) {
    const auto& hello = members_.at(id).hello;
    peers.push_back(hello.contains("address") ? hello["address"] : json::object());
  }
  const auto shares = split_batch(rules_.global_batch, std::vector<double>(ranks.size(), 1.0));
  return {{"type", "assignment"},      {"epoch", rules_.epoch}, {"n", generation_},
          {"worldSize", ranks.size()}, {"key", key_},           {"peers", std::move(peers)},
          {"shares", shares},          {"step", step},          {"stateFrom", state_from},
          {"newcomers", newcomers},    {"checkpoint", ""}};
}

// Starts a planned change when one is wanted and none is under way.
void Membership::want_change(double now, Actions& out) {
  if (phase_ != Phase::running || change_) return;
  const auto ranks = in_generation();
  // Nothing is planned past the end that somebody has reached, nor before the last change has
  // happened everywhere: a rank keeps one change in hand.
  for (const auto id : ranks) {
    if (members_[id].done || members_[id].step < last_change_step_) return;
  }
  if (last_checkpoint_time_ < 0) last_checkpoint_time_ = now;
  if (rules_.checkpoint_seconds > 0 && rules_.checkpoints &&
      now - last_checkpoint_time_ >= rules_.checkpoint_seconds) {
    checkpoint_wanted_ = true;
    last_checkpoint_time_ = now;
  }
  Change change;
  const auto leaving =
      std::count_if(ranks.begin(), ranks.end(), [this](auto id) { return members_[id].leaving; });
  const bool room = static_cast<int>(ranks.size() - leaving) < rules_.max_workers;
  if (stop_wanted_ || leaving == static_cast<std::ptrdiff_t>(ranks.size())) {
    change.stop = true;
    change.checkpoint = rules_.checkpoints;
  } else if (leaving > 0 || (room && !waiting().empty())) {
    change.regroup = true;
  } else if (checkpoint_wanted_) {
    change.checkpoint = true;
  } else {
    return;
  }
  checkpoint_wanted_ = false;
  change_ = change;
  propose(out);
}

void Membership::propose(Actions& out) {
  std::int64_t furthest = -1;
  const auto ranks = in_generation();
  for (const auto id : ranks) furthest = std::max(furthest, members_[id].step);
  change_->id = next_change_++;
  change_->step = std::max(furthest, rules_.start_step) + lead_;
  change_->promised.clear();
  for (const auto id : ranks) {
    send(out, id, {{"type", "proposal"}, {"id", change_->id}, {"step", change_->step}});
  }
}

void Membership::withdraw(Actions& out) {
  for (const auto id : in_generation()) {
    send(out, id, {{"type", "withdraw"}, {"id", change_->id}});
  }
}

void Membership::on_answer(MemberId id, const json& message, Actions& out) {
  auto& member = members_[id];
  member.step = std::max(member.step, integer_field(message, "step"));
  if (!change_ || integer_field(message, "id") != change_->id || member.rank < 0) return;
  if (!message.contains("accepted") || message["accepted"] != true) {
    withdraw(out);
    lead_ = std::min(lead_ * 2, longest_lead);
    propose(out);
    return;
  }
  change_->promised.insert(id);
  if (change_->promised.size() == in_generation().size()) commit(out);
}

void Membership::commit(Actions& out) {
  const auto ranks = in_generation();
  // Those who stay may have asked to leave since the proposal: then it is the end for now.
  if (std::all_of(ranks.begin(), ranks.end(), [this](auto id) { return members_[id].leaving; })) {
    change_->regroup = false;
    change_->stop = true;
    change_->checkpoint = rules_.checkpoints;
  }
  const auto change = *change_;
  newcomers_.clear();
  if (change.regroup) {
    regroup(out);
  } else {
    for (const auto id : in_generation()) {
      if (change.stop) members_[id].leaves_at = change.step;
      send(out, id,
           {{"type", "commit"},
            {"id", change.id},
            {"boundary", {{"checkpoint", change.checkpoint}, {"stop", change.stop}}}});
    }
    if (change.stop) phase_ = Phase::stopping;
  }
  change_.reset();
  last_change_step_ = change.step;
  lead_ = std::max<std::int64_t>(2, lead_ / 2);
}

// A new generation from the step of the change: without those that leave, with those that wait.
void Membership::regroup(Actions& out) {
  const auto change = *change_;
  std::vector<MemberId> next, old = in_generation();
  for (const auto id : old) {
    if (!members_[id].leaving) next.push_back(id);
  }
  const auto survivors = next.size();
  for (const auto id : waiting()) {
    if (static_cast<int>(next.size()) < rules_.max_workers) next.push_back(id);
  }
  std::vector<int> newcomers;
  for (auto r = survivors; r < next.size(); ++r) newcomers.push_back(static_cast<int>(r));
  newcomers_.assign(next.begin() + static_cast<std::ptrdiff_t>(survivors), next.end());
  ++generation_;
  publication_.begin_generation(generation_, next);
  key_ = crypto::to_hex(crypto::random_bytes(32));
  for (const auto id : old) {
    if (!members_[id].leaving) continue;
    members_[id].rank = -1;
    members_[id].leaves_at = change.step;
    send(out, id, {{"type", "commit"}, {"id", change.id}, {"boundary", {{"leave", true}}}});
  }
  for (std::size_t r = 0; r < next.size(); ++r) {
    auto& member = members_[next[r]];
    member.rank = static_cast<int>(r);
    auto message = assignment(next, change.step, 0, newcomers);
    message["rank"] = member.rank;
    if (r < survivors) {
      message = {
          {"type", "commit"}, {"id", change.id}, {"boundary", {{"regroup", std::move(message)}}}};
    }
    send(out, next[r], std::move(message));
  }
}

void Membership::on_shard(MemberId id, const json& message, Actions& out) {
  const auto progress = publication_.acknowledge(id, message);
  if (!progress.ok()) {
    const auto& pod = members_[id].pod;
    return fail({progress.error().code, pod + " " + progress.error().message}, pod, out);
  }
  if (progress->state == Publication::Progress::complete) {
    out.push_back({Action::publish, 0, progress->description});
  }
  // Training goes on with the checkpoint before it.
  if (progress->state == Publication::Progress::failed) {
    const Error why{Code::io, progress->why};
    for (auto& action : published(progress->step, why)) out.push_back(std::move(action));
  }
}

Membership::Actions Membership::published(std::int64_t step, const Status& status) {
  Actions out;
  if (status.ok()) published_step_ = std::max(published_step_, step);
  json message{{"type", "published"}, {"step", step}};
  if (!status.ok()) message["error"] = status.error().message;
  for (const auto& [id, m] : members_) send(out, id, message);
  return out;
}

void Membership::on_finished(MemberId id, const json& message, Actions& out) {
  auto& member = members_[id];
  on_heartbeat(member, message);
  member.done = true;
  finished_ = true;
  if (message.contains("result")) result_ = message["result"];
  if (change_) {
    withdraw(out);
    change_.reset();
  }
  void_change(member.step, out);
  settle(out);
}

// The run has come to its end before the last committed change could happen: nobody will join.
void Membership::void_change(std::int64_t finished_at, Actions& out) {
  if (finished_at > last_change_step_) return;
  for (const auto id : newcomers_) {
    if (!members_.contains(id)) continue;
    members_[id].rank = -1;
    send_home(id, false, out);
  }
  newcomers_.clear();
}

void Membership::send_home(MemberId id, bool stopped, Actions& out) {
  members_[id].done = true;
  send(out, id, {{"type", "over"}, {"stopped", stopped}});
}

// The outcome is known when everyone who takes part has said the last word.
void Membership::settle(Actions& out) {
  const bool all = std::all_of(members_.begin(), members_.end(), [](const auto& m) {
    return !m.second.takes_part() || m.second.done;
  });
  if (all && (phase_ == Phase::running || phase_ == Phase::stopping)) {
    phase_ = finished_ ? Phase::succeeded : Phase::stopped;
    for (const auto id : waiting()) send_home(id, !finished_, out);
  }
  check_ended(out);
}

// Those who go on have passed the boundary at which it left: nobody needs it any more.
bool Membership::handed_over(const Member& leaver) const {
  return leaver.rank < 0 && leaver.leaves_at >= 0 &&
         std::all_of(members_.begin(), members_.end(), [&leaver](const auto& m) {
           return m.second.rank < 0 || m.second.done || m.second.step >= leaver.leaves_at;
         });
}

Membership::Actions Membership::disconnected(MemberId id, double) {
  Actions out;
  const auto found = members_.find(id);
  if (found == members_.end()) return out;
  auto& member = found->second;
  member.gone = true;
  if (!member.takes_part()) {
    members_.erase(found);
    check_ended(out);
    return out;
  }
  const bool expected = member.done || handed_over(member);
  member.done = true;
  if (!expected && (phase_ == Phase::running || phase_ == Phase::stopping)) {
    const auto who = member.rank >= 0 ? " (rank " + std::to_string(member.rank) + ")" : "";
    fail({Code::peer_lost, member.pod + who + " died: its connection closed at step " +
                               std::to_string(std::max<std::int64_t>(0, member.step))},
         member.pod, out);
  }
  settle(out);
  return out;
}

Membership::Actions Membership::stop_requested(double now) {
  Actions out;
  stop_wanted_ = true;
  if (phase_ == Phase::starting) {
    phase_ = Phase::stopped;
    for (const auto& [id, m] : members_) send(out, id, {{"type", "over"}, {"stopped", true}});
    out.push_back({Action::end, 0, {}});
    return out;
  }
  want_change(now, out);
  return out;
}

Membership::Actions Membership::tick(double now) {
  Actions out;
  if (phase_ == Phase::starting || phase_ == Phase::running || phase_ == Phase::stopping) {
    std::vector<MemberId> silent;
    for (const auto& [id, m] : members_) {
      if (!m.gone && !m.done && now - m.last_seen >= rules_.heartbeat_timeout) silent.push_back(id);
    }
    for (const auto id : silent) on_silence(id, now, out);
    want_change(now, out);
  }
  const bool over =
      phase_ == Phase::succeeded || phase_ == Phase::failed || phase_ == Phase::stopped;
  if (over && ended_at_ < 0) ended_at_ = now;
  if (over && now - ended_at_ > linger_seconds) out.push_back({Action::end, 0, {}});
  return out;
}

void Membership::on_silence(MemberId id, double now, Actions& out) {
  const auto& m = members_[id];
  const bool needed = m.takes_part() ? !handed_over(m) : phase_ == Phase::starting;
  if (needed) {
    const auto seconds = std::to_string(static_cast<int>(now - m.last_seen));
    return fail({Code::peer_lost, m.pod + " has not been heard of for " + seconds + " s"}, m.pod,
                out);
  }
  out.push_back({Action::drop, id, {}});
  for (auto& action : disconnected(id, now)) out.push_back(std::move(action));
}

void Membership::fail(const Error& error, const std::string& pod, Actions& out) {
  if (phase_ == Phase::failed || phase_ == Phase::succeeded || phase_ == Phase::stopped) return;
  phase_ = Phase::failed;
  failure_ = error;
  failed_pod_ = pod;
  change_.reset();
  for (const auto& [id, m] : members_) {
    send(out, id,
         {{"type", "abort"}, {"code", static_cast<int>(error.code)}, {"message", error.message}});
  }
}

// Over when the outcome is known and nobody is connected any more.
void Membership::check_ended(Actions& out) {
  // Newcomers that no generation has taken in do not hold up the end.
  const bool alone = std::all_of(members_.begin(), members_.end(), [](const auto& m) {
    return m.second.gone || !m.second.takes_part();
  });
  const bool over =
      phase_ == Phase::succeeded || phase_ == Phase::failed || phase_ == Phase::stopped;
  if (over && alone) out.push_back({Action::end, 0, {}});
}

json Membership::state() const {
  json members = json::array();
  for (const auto& [id, m] : members_) {
    members.push_back({{"pod", m.pod},
                       {"rank", m.rank},
                       {"step", std::max<std::int64_t>(0, m.step)},
                       {"phase", text_field(m.report, "phase")}});
  }
  std::int64_t computed = 0;
  for (const auto& [id, m] : members_) computed += m.own_samples;
  json progress = progress_;
  for (const char* inner : {"phaseAge", "ownSamples"}) progress.erase(inner);
  json state{{"phase", name_of(phase_)},
             {"generation", {{"epoch", rules_.epoch}, {"n", generation_}}},
             {"worldSize", count_ranks()},
             {"members", members},
             {"progress", progress},
             // What each rank says that it has computed, in all: no more and no less than was
             // committed since the attempt's first step, once it is over.
             {"ledger", {{"firstStep", rules_.start_step}, {"samplesComputed", computed}}}};
  if (published_step_ >= 0) state["checkpointStep"] = published_step_;
  if (failure_) {
    state["failure"] = {{"message", failure_->message},
                        {"exitCode", exit_code(*failure_)},
                        {"pod", failed_pod_},
                        {"reason", failure_->code == Code::diverged       ? "Diverged"
                                   : failure_->code == Code::peer_lost    ? "WorkerLost"
                                   : failure_->code == Code::invalid_data ? "InvalidData"
                                   : failure_->code == Code::invalid_job  ? "InvalidJob"
                                                                          : "WorkerFailed"}};
  }
  if (!result_.is_null()) state["result"] = result_;
  return state;
}

}  // namespace muster::protocol
