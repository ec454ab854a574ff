#include "operator/kube/lease.h"

#include <chrono>

#include "common/json_fields.h"
#include "common/log.h"
#include "operator/kube/time.h"

namespace muster::kube {
namespace {

constexpr double health_tolerance = 20;  // seconds past the lease

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

LeaseRecord record_of(const json& lease) {
  const auto spec = lease.value("spec", json::object());
  return {text_field(spec, "holderIdentity"), number_field(spec, "leaseDurationSeconds", 0),
          text_field(spec, "renewTime"), integer_field(spec, "leaseTransitions", 0),
          text_field(spec, "acquireTime")};
}

}  // namespace

LeaseMove next_lease_move(const LeaseRecord& record, double observed_at,
                          const std::string& identity, double now) {
  if (record.holder == identity) return LeaseMove::renew;
  if (record.holder.empty() || now >= observed_at + record.duration) return LeaseMove::acquire;
  return LeaseMove::wait;
}

LeaderElector::LeaderElector(Client& client, LeaseOptions options, std::function<void()> on_lead,
                             std::function<void()> on_lost)
    : client_(client),
      options_(std::move(options)),
      on_lead_(std::move(on_lead)),
      on_lost_(std::move(on_lost)) {}

LeaderElector::~LeaderElector() {
  stop();
}

void LeaderElector::start() {
  thread_ = std::thread([this] { run(); });
}

void LeaderElector::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (leading_) release();
}

bool LeaderElector::healthy() const {
  return !leading_ || steady_seconds() - renewed_at_ < options_.lease_seconds + health_tolerance;
}

void LeaderElector::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool held = attempt();
    const double now = steady_seconds();
    if (held) renewed_at_ = now;
    if (held && !leading_) {
      leading_ = true;
      log::info("leading", {{"identity", options_.identity}});
      on_lead_();
    } else if (leading_ && !held && now - renewed_at_ > options_.renew_seconds) {
      leading_ = false;
      log::error("the lease could not be renewed", {{"seconds", now - renewed_at_}});
      on_lost_();
      return;
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::duration<double>(options_.retry_seconds),
                      [this] { return stopping_; });
  }
}

// True when we hold the lease after it.
bool LeaderElector::attempt() {
  auto lease = client_.get(leases, options_.name_space, options_.name);
  const bool missing = !lease.ok() && lease.error().not_found();
  if (!lease.ok() && !missing) {
    log::warning(lease.error().message);
    return false;
  }
  const auto record = missing ? LeaseRecord{} : record_of(*lease);
  object_ = missing ? json() : *lease;
  if (record != record_) {
    record_ = record;
    observed_at_ = steady_seconds();
  }
  const auto move = next_lease_move(record_, observed_at_, options_.identity, steady_seconds());
  if (move == LeaseMove::wait) return false;
  auto next = record_;
  next.holder = options_.identity;
  next.duration = options_.lease_seconds;
  next.renewed = format_micro_time(unix_seconds());
  if (move == LeaseMove::acquire) {
    next.acquired = next.renewed;
    next.transitions = missing ? 0 : record_.transitions + 1;
  }
  const auto written = write(next);
  if (!written.ok()) {
    if (!written.error().conflict()) log::warning(written.error().message);
    return false;
  }
  record_ = record_of(*written);
  object_ = *written;
  observed_at_ = steady_seconds();
  return true;
}

ApiResult<json> LeaderElector::write(const LeaseRecord& record) {
  json body = object_;
  if (body.is_null()) {
    body = {{"apiVersion", "coordination.k8s.io/v1"},
            {"kind", "Lease"},
            {"metadata", {{"name", options_.name}, {"namespace", options_.name_space}}}};
  }
  body["spec"] = {{"holderIdentity", record.holder},
                  {"leaseDurationSeconds", static_cast<std::int64_t>(record.duration)},
                  {"renewTime", record.renewed},
                  {"acquireTime", record.acquired},
                  {"leaseTransitions", record.transitions}};
  return object_.is_null() ? client_.create(leases, options_.name_space, body)
                           : client_.update(leases, options_.name_space, body);
}

void LeaderElector::release() {
  leading_ = false;
  auto record = record_;
  record.holder = "";
  record.duration = 1;
  record.renewed = format_micro_time(unix_seconds());
  if (const auto written = write(record); !written.ok()) log::warning(written.error().message);
}

}  // namespace muster::kube
