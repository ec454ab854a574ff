#include "operator/kube/deadlines.h"

#include <algorithm>

namespace muster::kube {

Deadlines::Deadlines() : thread_([this] { run(); }) {}

Deadlines::~Deadlines() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t Deadlines::add(double seconds, std::function<void()> expired) {
  const auto at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(seconds));
  const std::lock_guard lock(mutex_);
  // The thread looks each second while anything waits: only a nearer deadline has to wake it.
  if (seconds < 1 || waiting_.empty()) changed_.notify_all();
  waiting_.emplace(next_, std::pair{at, std::move(expired)});
  return next_++;
}

void Deadlines::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(id);
}

void Deadlines::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.first <= now) {
        it->second.second();
        it = waiting_.erase(it);
      } else {
        next = std::min(next, it->second.first);
        ++it;
      }
    }
    // Nothing to wait for costs nothing.
    if (waiting_.empty()) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

}  // namespace muster::kube
