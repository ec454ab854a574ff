// Calls back when a time has passed: total deadlines for exchanges whose library has none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace muster::kube {

// One thread. The callback must be quick.
class Deadlines {
 public:
  Deadlines();
  ~Deadlines();

  // Calls `expired` after `seconds`, unless removed before.
  std::uint64_t add(double seconds, std::function<void()> expired);
  void remove(std::uint64_t id);

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::pair<Clock::time_point, std::function<void()>>> waiting_;
  std::uint64_t next_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::kube
