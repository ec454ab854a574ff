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
  membership_ = std::make_unique<Membership>(rules_);
  for (int i = 0; i < rules_.workers; ++i) start_rank();
}

double Simulation::random(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}

void Simulation::start_rank() {
  Rank rank;
  rank.id = next_id_++;
  rank.ready_at = now_ + random(0.01, 1);
  rank.step_seconds = random(0.002, 0.05);
  const auto id = rank.id;
  ranks_[id] = std::move(rank);
  carry_out(membership_->joined(id, {{"pod", "worker-" + std::to_string(id)}}, now_));
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
      published_.insert(step);
      carry_out(membership_->published(step, {}));
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
  if (type == "abort") {
    rank.state = RankState::ended;
    to_coordinator(p.id, {}, true);
  }
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

void Simulation::step_rank(Rank& rank) {
  if (rank.state == RankState::building && now_ >= rank.ready_at) {
    rank.state = RankState::waiting;
    to_coordinator(rank.id, {{"type", "ready"}});
  }
  if (rank.state != RankState::training || now_ < rank.next_at) return;
  const bool waits_for_peers = ledger_[rank.step][rank.generation].contains(rank.rank);
  if (!waits_for_peers) {
    const auto boundary = rank.gate.pass(rank.step);
    if (!boundary) return;  // a commit is on its way
    if (boundary->value("checkpoint", false)) {
      json shard{{"type", "shard"},
                 {"step", rank.step},
                 {"worldSize", rank.world},
                 {"shard", {{"rank", rank.rank}}}};
      if (rank.rank == 0) shard["head"] = {{"world", rank.world}};
      to_coordinator(rank.id, shard);
    }
    if (boundary->value("leave", false) || boundary->value("stop", false)) {
      rank.state = RankState::ended;
      to_coordinator(rank.id, {}, true);
      return;
    }
    if (boundary->contains("regroup")) {
      if ((*boundary)["regroup"]["step"] != rank.step) return broken("a regroup at another step");
      return enter(rank, (*boundary)["regroup"]);
    }
    if (rank.step >= total_steps_) {
      rank.state = RankState::ended;
      to_coordinator(rank.id, {{"type", "finished"}, {"result", {{"steps", rank.step}}}});
      to_coordinator(rank.id, {}, true);
      return;
    }
  }
  if (!commit_step(rank)) return;
  ++rank.step;
  rank.next_at = now_ + rank.step_seconds * random(0.5, 2);
}

void Simulation::faults() {
  std::vector<Rank*> training;
  for (auto& [id, r] : ranks_) {
    if (r.state == RankState::training) training.push_back(&r);
  }
  if (training.empty()) return;
  auto& one =
      *training[static_cast<std::size_t>(random(0, static_cast<double>(training.size()) - 0.01))];
  if (chance(0.0005)) to_coordinator(one.id, {{"type", "leave"}});
  if (chance(0.0005) && ranks_.size() < 12) start_rank();
  if (chance(0.0002) && !stop_sent_) {
    stop_sent_ = true;
    carry_out(membership_->stop_requested(now_));
  }
  if (chance(0.0002)) {
    one.state = RankState::dead;
    if (killed_at_ < 0) killed_at_ = now_;
    if (chance(0.5)) to_coordinator(one.id, {}, true);  // else a lost node: silence
  }
  if (chance(0.001)) {  // a stale answer, twice
    for (int i = 0; i < 2; ++i) {
      to_coordinator(one.id, {{"type", "answer"}, {"id", 0}, {"accepted", true}, {"step", 0}});
    }
  }
}

std::string Simulation::run() {
  double heartbeat = 0;
  for (; !ended_ && now_ < 300 && broken_.empty(); now_ += 0.005) {
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
        if (r.state != RankState::dead && r.state != RankState::ended) {
          to_coordinator(id, {{"type", "heartbeat"}, {"step", r.gate.passed()}});
        }
      }
      carry_out(membership_->tick(now_));
    }
    if (killed_at_ >= 0 && now_ > killed_at_ + 15) broken("a death was not answered in 15 s");
    const bool busy = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) {
      return r.second.state == RankState::training;
    });
    if (busy && now_ > last_progress_ + 20) {
      std::string who;
      for (const auto& [id, r] : ranks_) {
        who += " " + std::to_string(id) + ":" + std::to_string(static_cast<int>(r.state)) + "@" +
               std::to_string(r.step) + "g" + std::to_string(r.generation);
      }
      broken("no step for 20 s, ranks" + who + ": " + membership_->state().dump());
    }
  }
  if (!broken_.empty()) return broken_;
  if (!ended_) return "it never ended";
  std::int64_t expected = rules_.start_step;
  for (const auto& [step, generation] : committed_by_) {
    if (step != expected++) return "step " + std::to_string(expected - 1) + " is missing";
  }
  if (membership_->phase() == Phase::succeeded && expected != total_steps_)
    return "succeeded before its end";
  return "";
}

}  // namespace muster::protocol
