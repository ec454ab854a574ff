// When a checkpoint may be published: every rank of the generation that wrote it has acknowledged
// its own shard, and no other. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"

namespace muster::protocol {

using MemberId = std::int64_t;  // one connection; never used twice

class Publication {
 public:
  // Generation n has these members, in rank order. The latest few are remembered: shards of a step
  // before a change may still be on their way after it.
  void begin_generation(std::uint64_t n, std::vector<MemberId> ranks);

  struct Progress {
    enum State { waiting, complete, failed } state = waiting;
    std::int64_t step = -1;
    nlohmann::json description;  // complete: {head, shards, step}
    std::string why;             // failed
  };
  // An acknowledgement {step, generation, shard, head} or {step, error}. A step is complete or
  // failed once; what comes for it later is ignored. Errors: Code::protocol when the member speaks
  // for a rank or a generation that is not its own.
  Result<Progress> acknowledge(MemberId id, const nlohmann::json& message);

 private:
  struct Step {
    std::uint64_t generation = 0;
    std::map<int, nlohmann::json> shards;  // by rank
    nlohmann::json head;
  };
  std::map<std::uint64_t, std::vector<MemberId>> generations_;
  std::map<std::int64_t, Step> open_;
  std::set<std::int64_t> closed_;
};

}  // namespace muster::protocol
