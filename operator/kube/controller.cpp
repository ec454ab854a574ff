#include "operator/kube/controller.h"

#include <chrono>
#include <exception>

#include "common/log.h"
#include "operator/kube/metrics.h"

namespace muster::kube {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Metrics::Outcome outcome_of(const ReconcileResult& result) {
  if (result.error) return Metrics::Outcome::error;
  return result.requeue_after ? Metrics::Outcome::requeue_after : Metrics::Outcome::success;
}

}  // namespace

Controller::Controller(WorkQueue& queue, const ControllerOptions& options, Reconcile reconcile,
                       Metrics* metrics)
    : queue_(queue), options_(options), reconcile_(std::move(reconcile)), metrics_(metrics) {}

Controller::~Controller() {
  stop(0);
}

void Controller::start() {
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
}

bool Controller::stop(double seconds) {
  queue_.shut_down();
  const bool drained = queue_.drained(seconds);
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  return drained;
}

void Controller::work() {
  while (const auto key = queue_.take()) {
    const int active = ++active_;
    if (metrics_) metrics_->workers(active, options_.workers);
    reconcile_one(*key);
    const int left = --active_;
    if (metrics_) metrics_->workers(left, options_.workers);
    queue_.done(*key);
  }
}

void Controller::reconcile_one(const std::string& key) {
  const double begin = steady_seconds();
  ReconcileResult result;
  try {
    result = reconcile_(key);
  } catch (const std::exception& e) {
    result.error = Error{Code::internal, std::string("a defect: ") + e.what()};
  }
  if (metrics_) metrics_->reconciled(outcome_of(result), steady_seconds() - begin);
  if (result.error) {
    const bool conflict =
        result.error->message.find("please apply your changes to the latest") != std::string::npos;
    log::write(conflict ? log::Level::debug : log::Level::warning, result.error->message,
               {{"object", key}});
    if (!result.terminal) return queue_.add_rate_limited(key);
  }
  queue_.forget(key);
  if (result.requeue_after) queue_.add_after(key, *result.requeue_after);
}

}  // namespace muster::kube
