// Keys to reconcile: no key twice in the queue, none worked on by two at once, delays and backoff.
//
// Mirrors client-go's util/workqueue. The clock is the caller's (seconds of any steady clock), so
// everything can be tested without waiting; `take` alone waits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace muster::kube {

class Metrics;

class WorkQueue {
 public:
  using Clock = std::function<double()>;
  // `longest_delay`: seconds at which the backoff of a key that fails stops growing.
  explicit WorkQueue(Metrics* metrics = nullptr, double longest_delay = 1000, Clock clock = {});

  void add(const std::string& key);
  // After `seconds`; of several the earliest holds.
  void add_after(const std::string& key, double seconds);
  // After 5 ms, 10 ms, 20 ms ... longest_delay, by how often it failed since the last forget().
  void add_rate_limited(const std::string& key);
  void forget(const std::string& key);

  // The next key, or nothing after shut_down(). The caller says done() when it has finished.
  std::optional<std::string> take();
  // The next key that is due now.
  std::optional<std::string> try_take();
  void done(const std::string& key);

  void shut_down();
  // True when nothing is being worked on any more, waiting `seconds` for it.
  bool drained(double seconds);
  std::size_t size() const;
  // Sets the gauges of unfinished work.
  void report() const;

 private:
  void push(const std::string& key);
  void move_due(double now);
  std::optional<std::string> pop(double now);
  void add_after_locked(const std::string& key, double seconds);

  Metrics* metrics_;
  const double longest_delay_;
  const Clock clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  std::set<std::string> dirty_;
  std::map<std::string, double> processing_;  // since when
  std::map<std::string, double> added_;       // when it was pushed
  std::map<std::string, double> due_;         // delayed keys
  std::multimap<double, std::string> by_time_;
  std::map<std::string, int> failures_;
  bool shut_down_ = false;
};

}  // namespace muster::kube
