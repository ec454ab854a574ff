#include "trainer/protocol/boundary_gate.h"

namespace muster::protocol {

bool BoundaryGate::propose(std::int64_t id, std::int64_t step) {
  if (step <= passed_) return false;
  pending_ = Pending{id, step, {}};
  return true;
}

void BoundaryGate::withdraw(std::int64_t id) {
  if (pending_ && pending_->id == id) pending_.reset();
}

void BoundaryGate::commit(std::int64_t id, nlohmann::json boundary) {
  if (pending_ && pending_->id == id) pending_->boundary = std::move(boundary);
}

std::optional<nlohmann::json> BoundaryGate::pass(std::int64_t step) {
  if (!pending_ || pending_->step != step) {
    passed_ = step;
    return nlohmann::json::object();
  }
  if (!pending_->boundary) return {};
  auto boundary = std::move(*pending_->boundary);
  pending_.reset();
  passed_ = step;
  return boundary;
}

}  // namespace muster::protocol
