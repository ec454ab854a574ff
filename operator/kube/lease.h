// Leader election by a Lease object. The decision is pure; LeaderElector carries it out.
//
// Mirrors client-go's tools/leaderelection: only our own clock counts, from the moment that we saw
// the record change. A lease is no fence: every write must be safe when two believe to lead.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "operator/kube/client.h"

namespace muster::kube {

struct LeaseOptions {
  std::string name_space, name, identity;
  double lease_seconds = 15, renew_seconds = 10, retry_seconds = 2;
};

// What is known of the lease.
struct LeaseRecord {
  std::string holder;
  double duration = 0;  // seconds
  std::string renewed;  // as the holder wrote it; compared for equality only
  std::int64_t transitions = 0;
  std::string acquired;
  bool operator==(const LeaseRecord&) const = default;
};

enum class LeaseMove { wait, acquire, renew };

// `observed_at`: when we first saw `record` as it is, `now`: the same clock.
LeaseMove next_lease_move(const LeaseRecord& record, double observed_at,
                          const std::string& identity, double now);

class LeaderElector {
 public:
  // `on_lead` when we begin to lead; `on_lost` when we led and could not renew within
  // renew_seconds: the process should end. Both on the elector's thread.
  LeaderElector(Client& client, LeaseOptions options, std::function<void()> on_lead,
                std::function<void()> on_lost);
  ~LeaderElector();

  void start();
  // Gives the lease back when we hold it, so that the other need not wait.
  void stop();
  bool leading() const { return leading_; }
  // False when we lead but have not renewed for longer than the lease and a tolerance.
  bool healthy() const;

 private:
  void run();
  bool attempt();
  ApiResult<json> write(const LeaseRecord& record);
  void release();

  Client& client_;
  const LeaseOptions options_;
  const std::function<void()> on_lead_, on_lost_;
  LeaseRecord record_;
  json object_;  // as last read
  double observed_at_ = 0;
  std::atomic<double> renewed_at_{0};
  std::atomic<bool> leading_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::kube
