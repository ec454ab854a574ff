#include "operator/kube/work_queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "operator/kube/metrics.h"

namespace muster::kube {
namespace {

constexpr double first_delay = 0.005;  // seconds

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

WorkQueue::WorkQueue(Metrics* metrics, double longest_delay, Clock clock)
    : metrics_(metrics),
      longest_delay_(longest_delay),
      clock_(clock ? std::move(clock) : steady_seconds) {}

void WorkQueue::push(const std::string& key) {
  if (shut_down_ || dirty_.contains(key)) return;
  dirty_.insert(key);
  if (processing_.contains(key)) return;
  queue_.push_back(key);
  added_[key] = clock_();
  if (metrics_) metrics_->queue_added(static_cast<int>(queue_.size()));
  changed_.notify_one();
}

void WorkQueue::add(const std::string& key) {
  const std::lock_guard lock(mutex_);
  push(key);
}

void WorkQueue::add_after_locked(const std::string& key, double seconds) {
  if (seconds <= 0) return push(key);
  const double at = clock_() + seconds;
  if (const auto found = due_.find(key); found != due_.end()) {
    if (found->second <= at) return;
    const auto [begin, end] = by_time_.equal_range(found->second);
    by_time_.erase(std::find_if(begin, end, [&](const auto& e) { return e.second == key; }));
  }
  due_[key] = at;
  by_time_.emplace(at, key);
  changed_.notify_one();
}

void WorkQueue::add_after(const std::string& key, double seconds) {
  const std::lock_guard lock(mutex_);
  add_after_locked(key, seconds);
}

void WorkQueue::add_rate_limited(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const int failures = failures_[key]++;
  if (metrics_) metrics_->queue_retried();
  add_after_locked(key,
                   std::min(longest_delay_, first_delay * std::pow(2, std::min(failures, 30))));
}

void WorkQueue::forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  failures_.erase(key);
}

void WorkQueue::move_due(double now) {
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const auto key = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    due_.erase(key);
    push(key);
  }
}

std::optional<std::string> WorkQueue::pop(double now) {
  move_due(now);
  if (queue_.empty() || shut_down_) return std::nullopt;
  auto key = queue_.front();
  queue_.pop_front();
  dirty_.erase(key);
  processing_[key] = now;
  if (metrics_) metrics_->queue_taken(static_cast<int>(queue_.size()), now - added_[key]);
  added_.erase(key);
  return key;
}

std::optional<std::string> WorkQueue::try_take() {
  const std::lock_guard lock(mutex_);
  return pop(clock_());
}

std::optional<std::string> WorkQueue::take() {
  std::unique_lock lock(mutex_);
  while (!shut_down_) {
    const double now = clock_();
    if (auto key = pop(now)) return key;
    if (by_time_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::duration<double>(by_time_.begin()->first - now));
    }
  }
  return std::nullopt;
}

void WorkQueue::done(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = processing_.find(key);
  if (found == processing_.end()) return;
  if (metrics_) metrics_->queue_done(clock_() - found->second);
  processing_.erase(found);
  if (dirty_.erase(key) > 0) push(key);
  changed_.notify_all();
}

void WorkQueue::shut_down() {
  const std::lock_guard lock(mutex_);
  shut_down_ = true;
  changed_.notify_all();
}

bool WorkQueue::drained(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return processing_.empty(); });
}

std::size_t WorkQueue::size() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void WorkQueue::report() const {
  if (!metrics_) return;
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  double sum = 0, longest = 0;
  for (const auto& [key, since] : processing_) {
    sum += now - since;
    longest = std::max(longest, now - since);
  }
  metrics_->queue_unfinished(sum, longest);
}

}  // namespace muster::kube
