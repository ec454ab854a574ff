#include "trainer/protocol/publication.h"

#include <algorithm>

#include "common/json_fields.h"

namespace muster::protocol {
namespace {

using nlohmann::json;

constexpr std::size_t generations_kept = 8;
constexpr std::size_t steps_kept = 1024;

}  // namespace

void Publication::begin_generation(std::uint64_t n, std::vector<MemberId> ranks) {
  generations_[n] = std::move(ranks);
  while (generations_.size() > generations_kept) generations_.erase(generations_.begin());
}

Result<Publication::Progress> Publication::acknowledge(MemberId id, const json& message) {
  Progress progress;
  progress.step = integer_field(message, "step");
  const auto n = static_cast<std::uint64_t>(integer_field(message, "generation", 0));
  const auto generation = generations_.find(n);
  if (progress.step < 0 || generation == generations_.end()) {
    return Error{Code::protocol, "acknowledged a shard of no known step and generation"};
  }
  const auto& ranks = generation->second;
  const auto mine = std::find(ranks.begin(), ranks.end(), id);
  if (mine == ranks.end()) {
    return Error{Code::protocol, "acknowledged a shard of a generation that it was not in"};
  }
  if (closed_.contains(progress.step)) return progress;
  const auto close = [this, &progress](Progress::State state) {
    open_.erase(progress.step);
    closed_.insert(progress.step);
    if (closed_.size() > steps_kept) closed_.erase(closed_.begin());
    progress.state = state;
    return progress;
  };
  if (message.contains("error")) {
    progress.why = text_field(message, "error");
    return close(Progress::failed);
  }
  const auto& shard = message.contains("shard") ? message["shard"] : json();
  if (!shard.is_object() || integer_field(shard, "rank") != mine - ranks.begin()) {
    return Error{Code::protocol, "acknowledged a shard that is not its own"};
  }
  auto& step = open_[progress.step];
  if (step.generation != n) step = {n, {}, {}};  // written anew by a later generation
  step.shards[static_cast<int>(mine - ranks.begin())] = shard;
  if (message.contains("head") && message["head"].is_object()) step.head = message["head"];
  if (step.shards.size() < ranks.size() || step.head.is_null()) return progress;
  json shards = json::array();
  for (const auto& [rank, s] : step.shards) shards.push_back(s);
  progress.description = {{"head", step.head}, {"shards", shards}, {"step", progress.step}};
  return close(Progress::complete);
}

}  // namespace muster::protocol
