#include "tests/trainer/protocol/simulator.h"

#include <algorithm>
#include <numeric>

namespace muster::protocol {

Simulation::Simulation(std::uint64_t seed) : engine_(seed) {
  rules_.workers = 1 + static_cast<int>(random(0, 4.99));
  rules_.max_workers = rules_.workers + static_cast<int>(random(0, 2.99));
  rules_.global_batch = 1 + static_cast<std::int64_t>(random(0, 64));
  rules_.heartbeat_timeout = 3;
  rules_.checkpoints = true;
  rules_.checkpoint_seconds = chance(0.5) ? random(0.2, 2) : 0;
  rules_.start_step = chance(0.3) ? 100 : 0;
  total_steps_ = rules_.start_step + 20 + static_cast<std::int64_t>(random(0, 200));
  published_ = rules_.start_step;
}

void Simulation::start_attempt() {
  ++attempts_;
  rules_.epoch = static_cast<std::uint64_t>(attempts_);
  rules_.start_step = published_;
  membership_ = std::make_unique<Membership>(rules_);
  ranks_.clear();
  network_.clear();
  connected_.clear();
  ended_ = killed_ = false;
  last_progress_ = now_;
  // What comes after the checkpoint is computed anew.
  ledger_.erase(ledger_.lower_bound(published_), ledger_.end());
  committed_by_.erase(committed_by_.lower_bound(published_), committed_by_.end());
  for (int i = 0; i < rules_.workers; ++i) start_rank();
}

double Simulation::random(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}

void Simulation::start_rank(const std::string& uid) {
  Rank rank;
  rank.id = next_id_++;
  rank.uid = uid.empty() ? "uid-" + std::to_string(rank.id) : uid;
  rank.ready_at = now_ + random(0.01, 1);
  rank.step_seconds = random(0.002, 0.05);
  const auto id = rank.id;
  const json hello{{"pod", "worker-" + std::to_string(id)}, {"podUid", rank.uid}};
  ranks_[id] = std::move(rank);
  carry_out(membership_->joined(id, hello, now_));
}

void Simulation::to_coordinator(MemberId id, json message, bool close) {
  auto& last = last_in_[id];
  last = std::max(last, now_ + random(0.0001, chance(0.05) ? 0.5 : 0.01));
  network_.push_back({last, order_++, true, id, std::move(message), close});
}

void Simulation::carry_out(const Membership::Actions& actions) {
  for (const auto& a : actions) {
    if (a.kind == Action::end) ended_ = true;
    if (a.kind == Action::publish) {
      const auto step = a.message["step"].get<std::int64_t>();
      const auto shards = a.message["shards"].size();
      const auto world = a.message["head"]["world"].get<std::size_t>();
      if (shards != world)
        broken("checkpoint " + std::to_string(step) + " published with a shard missing");
      const bool fails = chance(0.02);
      if (!fails) published_ = std::max(published_, step);
      carry_out(membership_->published(step, fails ? Status(Error{Code::io, "disk"}) : Status()));
    }
    if (a.kind == Action::drop) {
      last_in_[a.to] = 1e9;  // nothing of it is heard any more
      std::erase_if(network_, [&a](const Packet& p) { return p.id == a.to && p.to_coordinator; });
    }
    if (a.kind != Action::send) continue;
    auto& last = last_out_[a.to];
    last = std::max(last, now_ + random(0.0001, chance(0.05) ? 0.5 : 0.01));
    network_.push_back({last, order_++, false, a.to, a.message, false});
  }
}

void Simulation::deliver(const Packet& p) {
  if (p.to_coordinator) {
    carry_out(p.close ? membership_->disconnected(p.id, now_)
                      : membership_->received(p.id, p.message, now_));
    return;
  }
  auto& rank = ranks_[p.id];
  if (rank.state == RankState::dead || rank.state == RankState::ended) return;
  const auto type = p.message.value("type", "");
  const auto id = p.message.value("id", std::int64_t{0});
  if (type == "assignment") enter(rank, p.message);
  if (type == "proposal") {
    const bool accepted = rank.gate.propose(id, p.message["step"].get<std::int64_t>());
    to_coordinator(
        p.id,
        {{"type", "answer"}, {"id", id}, {"accepted", accepted}, {"step", rank.gate.passed()}});
  }
  if (type == "withdraw") rank.gate.withdraw(id);
  if (type == "commit") rank.gate.commit(id, p.message["boundary"]);
  if (type == "abort" || type == "over") close(rank);
  if (type == "published" && p.message["step"] == rank.awaits) {
    if (p.message.contains("error")) {
      last_word(rank, {{"type", "failed"}, {"message", "no checkpoint"}});
    } else {
      const bool finishing = rank.state == RankState::finishing;
      json message{{"type", finishing ? "finished" : "left"}};
      if (finishing && rank.rank == 0) message["result"] = {{"steps", rank.step}};
      last_word(rank, message);
    }
  }
}

void Simulation::close(Rank& rank) {
  rank.state = RankState::ended;
  to_coordinator(rank.id, {}, true);
}

void Simulation::last_word(Rank& rank, json message) {
  message["step"] = rank.gate.passed();
  message["ownSamples"] = rank.own_samples;
  to_coordinator(rank.id, std::move(message));
  close(rank);
}

void Simulation::enter(Rank& rank, const json& a) {
  const auto generation = a["n"].get<std::uint64_t>();
  if (generation <= rank.generation) return broken("a generation number went back");
  rank.state = RankState::training;
  rank.generation = generation;
  rank.rank = a["rank"].get<int>();
  rank.world = a["worldSize"].get<int>();
  rank.shares = a["shares"].get<std::vector<std::int64_t>>();
  rank.step = a["step"].get<std::int64_t>();
  rank.next_at = now_;
  connected_[generation].insert(rank.rank);
  if (std::accumulate(rank.shares.begin(), rank.shares.end(), std::int64_t{0}) !=
      rules_.global_batch) {
    broken("the shares do not sum to the global batch");
  }
  for (const auto& [id, other] : ranks_) {
    if (id != rank.id && other.state == RankState::training && other.generation == generation &&
        other.rank == rank.rank) {
      broken("two live members with one rank in a generation");
    }
  }
}

// A step commits when all ranks of the generation have contributed to it, as an all-reduce would.
bool Simulation::commit_step(Rank& rank) {
  auto& who = ledger_[rank.step][rank.generation];
  who[rank.rank] = rank.shares[static_cast<std::size_t>(rank.rank)];
  if (static_cast<int>(who.size()) < rank.world) return false;
  std::int64_t samples = 0;
  for (const auto& [r, share] : who) samples += share;
  if (samples != rules_.global_batch) broken("a step lost or doubled samples");
  const auto [by, fresh] = committed_by_.try_emplace(rank.step, rank.generation);
  if (!fresh && by->second != rank.generation) broken("a step was committed in two generations");
  if (fresh) last_progress_ = now_;
  return true;
}

void Simulation::snapshot(Rank& rank) {
  json shard{{"type", "shard"}, {"step", rank.step}, {"generation", rank.generation}};
  if (chance(0.01)) {
    shard["error"] = "disk full";
  } else {
    shard["shard"] = {{"rank", rank.rank}};
    if (rank.rank == 0) shard["head"] = {{"world", rank.world}};
  }
  to_coordinator(rank.id, shard);
}

void Simulation::await_last_checkpoint(Rank& rank, RankState state) {
  rank.state = state;
  rank.awaits = rank.step;
  snapshot(rank);
}

// What the coordinator wants before rank.step is computed; true when the step may be computed.
bool Simulation::at_boundary(Rank& rank) {
  const auto boundary = rank.gate.pass(rank.step);
  if (!boundary) return false;  // a commit is on its way
  const bool over = rank.step >= total_steps_;
  const bool stop = boundary->value("stop", false);
  if (over || stop) {
    await_last_checkpoint(rank, over ? RankState::finishing : RankState::leaving);
    return false;
  }
  if (boundary->value("checkpoint", false)) snapshot(rank);
  if (boundary->value("leave", false)) {
    rank.state = RankState::leaving;
    rank.next_at = now_ + random(0, 0.3);
    return false;
  }
  if (!boundary->contains("regroup")) return true;
  if ((*boundary)["regroup"]["step"] != rank.step) broken("a regroup at another step");
  enter(rank, (*boundary)["regroup"]);
  return false;
}

bool Simulation::peer_is_dead(const Rank& rank) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&rank](const auto& r) {
    return r.second.generation == rank.generation && r.second.state == RankState::dead;
  });
}

void Simulation::step_rank(Rank& rank) {
  if (rank.state == RankState::building && now_ >= rank.ready_at) {
    rank.state = RankState::waiting;
    to_coordinator(rank.id, {{"type", "ready"}});
  }
  if (rank.state == RankState::leaving && rank.awaits < 0 && now_ >= rank.next_at) {
    return last_word(rank, {{"type", "left"}});
  }
  if (rank.state != RankState::training || now_ < rank.next_at) return;
  if (static_cast<int>(connected_[rank.generation].size()) < rank.world) return;
  const bool waits_for_peers = ledger_[rank.step][rank.generation].contains(rank.rank);
  if (!waits_for_peers && !at_boundary(rank)) return;
  if (!commit_step(rank)) {
    // Its collective may break before the coordinator's word comes.
    if (peer_is_dead(rank) && chance(0.01)) {
      last_word(rank, {{"type", "failed"}, {"code", static_cast<int>(Code::peer_lost)}});
    }
    return;
  }
  rank.own_samples += rank.shares[static_cast<std::size_t>(rank.rank)];
  ++rank.step;
  rank.next_at = now_ + rank.step_seconds * random(0.5, 2);
}

void Simulation::faults() {
  std::vector<Rank*> alive;
  for (auto& [id, r] : ranks_) {
    if (r.state != RankState::dead && r.state != RankState::ended) alive.push_back(&r);
  }
  // The operator replaces a pod that is gone before the first step.
  if (membership_->phase() == Phase::starting && static_cast<int>(alive.size()) < rules_.workers) {
    return start_rank();
  }
  if (alive.empty() || attempts_ > 5) return;
  auto& one = *alive[static_cast<std::size_t>(random(0, static_cast<double>(alive.size()) - 0.01))];
  if (chance(0.0005)) to_coordinator(one.id, {{"type", "leave"}});
  if (chance(0.0005) && ranks_.size() < 12) start_rank();
  if (chance(0.0002) && !stop_sent_) {
    stop_sent_ = true;
    carry_out(membership_->stop_requested(now_));
  }
  if (chance(0.0003)) {
    one.state = RankState::dead;
    killed_ = true;
    if (chance(0.5)) to_coordinator(one.id, {}, true);  // else a lost node: silence
    if (chance(0.3)) start_rank(one.uid);               // its pod comes back at once
  }
  if (chance(0.001)) {  // a stale answer, twice
    for (int i = 0; i < 2; ++i) {
      to_coordinator(one.id, {{"type", "answer"}, {"id", 0}, {"accepted", true}, {"step", 0}});
    }
  }
}

void Simulation::check_progress() {
  if (now_ < last_progress_ + 15) return;
  std::string who;
  for (const auto& [id, r] : ranks_) {
    who += " " + std::to_string(id) + ":" + std::to_string(static_cast<int>(r.state)) + "@" +
           std::to_string(r.step) + "g" + std::to_string(r.generation);
  }
  broken("no step for 15 s, ranks" + who + ": " + membership_->state().dump());
}

void Simulation::run_attempt() {
  const double begin = now_;
  double heartbeat = 0;
  for (; !ended_ && now_ < begin + 300 && broken_.empty(); now_ += 0.005) {
    std::vector<Packet> due;
    std::erase_if(network_, [&](const Packet& p) {
      if (p.at > now_) return false;
      due.push_back(p);
      return true;
    });
    std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) { return b > a; });
    for (const auto& p : due) deliver(p);
    for (auto& [id, rank] : ranks_) step_rank(rank);
    faults();
    if (now_ >= heartbeat) {
      heartbeat = now_ + 0.25;
      for (auto& [id, r] : ranks_) {
        if (r.state == RankState::dead || r.state == RankState::ended) continue;
        to_coordinator(
            id, {{"type", "heartbeat"}, {"step", r.gate.passed()}, {"ownSamples", r.own_samples}});
      }
      carry_out(membership_->tick(now_));
    }
    check_progress();
  }
  if (broken_.empty() && !ended_) broken("it never ended");
}

// The ledger, once nobody has anything more to say.
void Simulation::check_attempt() {
  const auto phase = membership_->phase();
  if (phase != Phase::succeeded && phase != Phase::stopped) return;
  std::int64_t expected = committed_by_.empty() ? published_ : committed_by_.begin()->first;
  for (const auto& [step, generation] : committed_by_) {
    if (step != expected++) return broken("step " + std::to_string(expected - 1) + " is missing");
  }
  if (phase == Phase::succeeded && expected != total_steps_ && rules_.start_step != total_steps_) {
    broken("succeeded before its end");
  }
  const auto computed = membership_->state()["ledger"]["samplesComputed"].get<std::int64_t>();
  const auto fresh =
      std::distance(committed_by_.lower_bound(rules_.start_step), committed_by_.end());
  if (!killed_ && computed != fresh * rules_.global_batch) {
    broken("the ledger says " + std::to_string(computed) + " samples, not " +
           std::to_string(fresh * rules_.global_batch));
  }
}

std::string Simulation::run() {
  do {
    start_attempt();
    run_attempt();
    if (broken_.empty()) check_attempt();
  } while (broken_.empty() && membership_->phase() == Phase::failed && attempts_ < 12);
  if (broken_.empty() && membership_->phase() == Phase::failed) broken("no attempt succeeded");
  return broken_;
}

}  // namespace muster::protocol
