// Events (events.k8s.io/v1) that nobody waits for: a bounded queue and a thread.
//
//   recorder.record({regarding, "Normal", "JobRunning", "Run", "4 of 4 workers train"});
//
// The same (regarding, type, reason, action) within six minutes becomes a series of one event, by a
// PATCH. When the queue is full the newest is dropped: reconciles never wait for events.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "operator/kube/client.h"

namespace muster::kube {

struct ObjectReference {
  std::string api_version, kind, name_space, name, uid;
};

struct Event {
  ObjectReference regarding;
  std::string type;    // Normal | Warning
  std::string reason;  // CamelCase
  std::string action;  // CamelCase: what the controller did
  std::string note;    // at most 1 KiB is sent
};

class EventRecorder {
 public:
  // `controller`: muster.dev/operator; `instance`: which process.
  EventRecorder(Client& client, std::string controller, std::string instance);
  ~EventRecorder();

  void record(Event event);
  // Sends what is queued, `seconds` at most, and ends.
  void stop(double seconds);
  std::int64_t dropped() const;

 private:
  struct Sent {
    std::string name, name_space;
    double last = 0;
    std::int64_t count = 1;
  };
  void run();
  void send(const Event& event);

  Client& client_;
  const std::string controller_, instance_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> queue_;
  std::map<std::string, Sent> series_;
  std::int64_t dropped_ = 0, number_ = 0;
  bool stopping_ = false, idle_ = true;
  std::thread thread_;
};

}  // namespace muster::kube
