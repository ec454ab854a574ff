// The metrics of a controller, under the names that controller-runtime and client-go gave them, so
// that dashboards made for those work.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace muster::kube {

class Metrics {
 public:
  // `controller`: the value of the labels controller and name; `host`: the API server's.
  Metrics(prometheus::Registry& registry, const std::string& controller, const std::string& host);
  ~Metrics();

  // status 0: no answer came.
  void request(const std::string& method, int status, double seconds);
  enum class Outcome { success, error, requeue, requeue_after };
  void reconciled(Outcome outcome, double seconds);
  void workers(int active, int most);
  void queue_added(int depth);
  void queue_retried();
  void queue_taken(int depth, double waited_seconds);
  void queue_done(double worked_seconds);
  // Seconds of what is being worked on: the sum, and the longest.
  void queue_unfinished(double sum, double longest);
  void leader(bool leading);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::kube
