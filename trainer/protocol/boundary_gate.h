// A rank's half of the planned change: which boundary it has passed, what was proposed, what was
// committed. Pure; the client locks around it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace muster::protocol {

class BoundaryGate {
 public:
  // A proposal for the boundary before `step`. Accepted when this rank has not passed it yet: it
  // will then wait there. A newer proposal replaces an older one.
  bool propose(std::int64_t id, std::int64_t step);
  void withdraw(std::int64_t id);
  // The change is certain. Ignored unless it is the proposal in hand.
  void commit(std::int64_t id, nlohmann::json boundary);

  // At the boundary before `step`: what to do, or nothing while a commit is awaited.
  // An empty object: go on.
  std::optional<nlohmann::json> pass(std::int64_t step);
  std::int64_t passed() const { return passed_; }

 private:
  struct Pending {
    std::int64_t id = 0;
    std::int64_t step = 0;
    std::optional<nlohmann::json> boundary;
  };
  std::optional<Pending> pending_;
  std::int64_t passed_ = -1;
};

}  // namespace muster::protocol
