#include "operator/trainingjob/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>

namespace muster::trainingjob {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

Counter& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help) {
  static const Histogram::BucketBoundaries seconds{0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                                   10,   30,  60,   300, 900, 3600};
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, seconds);
}

}  // namespace

struct Metrics::Impl {
  Counter &created, &succeeded, &failed, &restarted, &deleted;
  Histogram &to_pods, &to_running;
  std::map<std::string, Gauge*> phases = {};
};

Metrics::Metrics(prometheus::Registry& registry, const std::string& version)
    : impl_(new Impl{
          counter(registry, "muster_jobs_created_total", "Jobs whose first attempt began."),
          counter(registry, "muster_jobs_succeeded_total", "Jobs that came to their end."),
          counter(registry, "muster_jobs_failed_total", "Jobs that failed for good."),
          counter(registry, "muster_jobs_restarted_total", "Attempts that followed another."),
          counter(registry, "muster_jobs_deleted_total", "Jobs that were deleted."),
          histogram(registry, "muster_job_time_to_pods_seconds",
                    "Seconds from a job's creation to its pods'."),
          histogram(registry, "muster_job_time_to_running_seconds",
                    "Seconds from a job's creation until all its workers train.")}) {
  auto& jobs =
      prometheus::BuildGauge().Name("muster_jobs").Help("Jobs by phase.").Register(registry);
  for (const char* phase :
       {"Pending", "Starting", "Running", "Restarting", "Suspended", "Succeeded", "Failed"}) {
    impl_->phases[phase] = &jobs.Add({{"phase", phase}});
  }
  prometheus::BuildGauge()
      .Name("muster_build_info")
      .Help("1, with what was built as labels.")
      .Register(registry)
      .Add({{"version", version}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::created() {
  impl_->created.Increment();
}
void Metrics::succeeded() {
  impl_->succeeded.Increment();
}
void Metrics::failed() {
  impl_->failed.Increment();
}
void Metrics::restarted() {
  impl_->restarted.Increment();
}
void Metrics::deleted() {
  impl_->deleted.Increment();
}
void Metrics::pods_created(double seconds) {
  impl_->to_pods.Observe(seconds);
}
void Metrics::running(double seconds) {
  impl_->to_running.Observe(seconds);
}
void Metrics::set_phase(const std::string& phase, int jobs) {
  const auto found = impl_->phases.find(phase);
  if (found != impl_->phases.end()) found->second->Set(jobs);
}

}  // namespace muster::trainingjob
