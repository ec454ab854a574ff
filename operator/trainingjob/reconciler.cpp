#include "operator/trainingjob/reconciler.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/crypto.h"
#include "common/json_fields.h"
#include "common/log.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/time.h"
#include "operator/trainingjob/reasons.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

constexpr double expectation_seconds = 30;  // how long we believe ourselves rather than the cache
constexpr std::size_t most_at_once = 32, most_threads = 8;
constexpr double state_timeout = 2;             // seconds
constexpr double running_jobs_per_second = 50;  // that are asked for their state, at most

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Calls `deed` for 0 .. count - 1, 1, 2, 4 ... at once; stops after a batch with an error.
std::optional<Error> in_batches(std::size_t count,
                                const std::function<std::optional<Error>(std::size_t)>& deed) {
  std::mutex mutex;
  std::optional<Error> first;
  for (std::size_t begin = 0, size = 1; begin < count && !first; begin += size, size *= 2) {
    size = std::min({size, most_at_once, count - begin});
    std::atomic<std::size_t> next{begin};
    const std::size_t end = begin + size;
    const auto work = [&] {
      for (std::size_t i = next++; i < end; i = next++) {
        if (auto error = deed(i)) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::move(error);
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(size, most_threads); ++i) threads.emplace_back(work);
    work();
    for (auto& thread : threads) thread.join();
  }
  return first;
}

bool owned_by(const json& object, const std::string& uid) {
  const auto metadata = object.value("metadata", json::object());
  for (const auto& owner : metadata.value("ownerReferences", json::array())) {
    if (owner.value("controller", false) && text_field(owner, "uid") == uid) return true;
  }
  return false;
}

Error taken(const std::string& what) {
  return {Code::invalid_job,
          what + " exists already and is not this job's; delete it, or give the job another name"};
}

}  // namespace

Reconciler::Reconciler(kube::Client& client, const kube::Store<JobObject>& jobs,
                       const kube::Store<PodObject>& pods, kube::EventRecorder& events,
                       Metrics& metrics, ReconcilerOptions options)
    : client_(client),
      jobs_(jobs),
      pods_(pods),
      events_(events),
      metrics_(metrics),
      options_(std::move(options)) {}

std::shared_ptr<Reconciler::Memory> Reconciler::memory_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  auto& slot = memories_[key];
  if (!slot) slot = std::make_shared<Memory>();
  return slot;
}

// Our own last write, as long as the cache still shows what it replaced.
std::shared_ptr<const JobObject> Reconciler::current(const std::string& key, Memory& memory) const {
  auto cached = jobs_.get(key);
  if (!cached || !memory.written) return cached;
  const bool behind =
      cached->uid == memory.written->uid && cached->resource_version == memory.written_over;
  if (behind) return memory.written;
  memory.written.reset();
  return cached;
}

void Reconciler::observed(const std::string& job_key, const std::string& pod_key) {
  const auto memory = memory_of(job_key);
  const std::lock_guard lock(mutex_);
  memory->created.erase(pod_key);
}

Observed Reconciler::observe(const JobObject& job, Memory& memory) {
  Observed result;
  auto pods = pods_.by("owner", job.uid);
  const std::lock_guard lock(mutex_);
  if (steady_seconds() > memory.expires) {
    memory.created.clear();
    memory.deleted.clear();
  }
  for (auto& pod : pods) {
    memory.created.erase(pod->name_space + "/" + pod->name);
    if (!pod->deleting && memory.deleted.contains(pod->uid)) {
      auto copy = std::make_shared<PodObject>(*pod);
      copy->deleting = true;
      pod = copy;
    }
    result.pods.push_back(pod);
  }
  for (const auto& [name, pod] : memory.created) result.pods.push_back(pod);
  result.refusal = memory.refusal;
  return result;
}

std::string Reconciler::token_of(const JobObject& job, std::int64_t attempt) const {
  return crypto::to_hex(
      crypto::hmac_sha256(options_.token_key, job.uid + "/" + std::to_string(attempt)));
}

json Reconciler::fetch_state(const JobObject& job, const Observed& observed) {
  for (const auto& pod : observed.pods) {
    if (pod->role != Role::coordinator || pod->attempt != job.status.attempt) continue;
    if (pod->phase != PodObject::Phase::running || pod->ip.empty()) continue;
    kube::Config config;
    config.server = "http://" + pod->ip + ":" + std::to_string(state_port);
    config.token = token_of(job, job.status.attempt);
    auto transport = kube::make_cpprest_transport(config);
    if (!transport.ok()) return nullptr;
    const auto reply = (*transport)->send({"GET", "/state"}, state_timeout);
    if (!reply.ok() || reply->status != 200) return nullptr;
    auto state = json::parse(reply->body, nullptr, false);
    return state.is_object() ? state : json();
  }
  return nullptr;
}

kube::ReconcileResult Reconciler::reconcile(const std::string& key) {
  const auto memory = memory_of(key);
  const auto job = current(key, *memory);
  if (!job) {
    const std::lock_guard lock(mutex_);
    memories_.erase(key);
    return {};
  }
  auto observed = observe(*job, *memory);
  const bool live = !job->deleting && !job->status.finished() && job->status.attempt > 0;
  if (live) observed.state = fetch_state(*job, observed);
  auto next = plan(*job, observed, kube::unix_seconds());
  kube::ReconcileResult result;
  result.error = carry_out(*job, next, *memory);
  result.requeue_after = next.look_again;
  if (live && observed.state.is_object()) {
    const double every =
        std::max(options_.state_seconds, double(jobs_.size()) / running_jobs_per_second);
    result.requeue_after = std::min(result.requeue_after.value_or(every), every);
  } else if (live && !job->status.is("Running")) {
    // The coordinator listens a moment after its pod runs.
    for (const auto& pod : observed.pods) {
      if (pod->role == Role::coordinator && pod->phase == PodObject::Phase::running) {
        result.requeue_after = std::min(result.requeue_after.value_or(1), 1.0);
      }
    }
  }
  return result;
}

std::optional<Error> Reconciler::carry_out(const JobObject& job, Plan& plan, Memory& memory) {
  const auto selector = worker_selector(job.name);
  if (plan.delete_job) {
    const auto gone = client_.remove(training_jobs, job.name_space, job.name, {.uid = job.uid});
    if (!gone.ok() && !gone.error().not_found()) return gone.error();
    return std::nullopt;
  }
  bool up_to_date = to_json(plan.status, selector) == to_json(job.status, selector);
  if (plan.intent) {
    if (auto error = write_status(job, plan.status, memory)) return error;
    up_to_date = true;
    memory.last_progress = steady_seconds();
  }
  std::optional<Error> error = remove_pods(job, plan, memory);
  if (!error && plan.prepare) error = prepare(job, plan, memory);
  if (!error && !plan.create.empty()) error = create_pods(job, plan, memory);
  count_edges(job, plan);
  announce(job, plan.announce);
  const double now = steady_seconds();
  const bool may_write = plan.news || now - memory.last_progress >= options_.progress_seconds;
  if (!up_to_date && may_write) {
    memory.last_progress = now;
    const auto base = memory.written ? *memory.written : job;
    if (auto failed = write_status(base, plan.status, memory)) return failed;
  } else if (!up_to_date) {
    const double left = memory.last_progress + options_.progress_seconds - now;
    plan.look_again = std::min(plan.look_again.value_or(left), left);
  }
  return error;
}

std::optional<Error> Reconciler::write_status(const JobObject& job, JobStatus& status,
                                              Memory& memory) {
  const json body{{"apiVersion", api_version},
                  {"kind", "TrainingJob"},
                  {"metadata",
                   {{"name", job.name},
                    {"namespace", job.name_space},
                    {"resourceVersion", job.resource_version}}},
                  // The status subresource takes nothing else, but wants a whole object.
                  {"spec", job.document["spec"]},
                  {"status", to_json(status, worker_selector(job.name))}};
  const auto written = client_.update(training_jobs, job.name_space, body, "status");
  if (!written.ok()) return written.error();
  const auto cached = jobs_.get(job.key());
  memory.written_over = cached ? cached->resource_version : job.resource_version;
  memory.written = std::make_shared<const JobObject>(job_of_json(*written));
  return std::nullopt;
}

std::optional<Error> Reconciler::remove_pods(const JobObject& job, const Plan& plan,
                                             Memory& memory) {
  return in_batches(plan.remove.size(), [&](std::size_t i) -> std::optional<Error> {
    const auto& removal = plan.remove[i];
    const auto gone = client_.remove(kube::pods, job.name_space, removal.name,
                                     {.uid = removal.uid, .grace_seconds = removal.grace_seconds});
    if (!gone.ok() && !gone.error().not_found() && !gone.error().conflict()) return gone.error();
    const std::lock_guard lock(mutex_);
    memory.deleted.insert(removal.uid);
    memory.expires = steady_seconds() + expectation_seconds;
    return std::nullopt;
  });
}

// The one NetworkPolicy of the namespace, once a process.
std::optional<Error> Reconciler::protect_namespace(const std::string& name_space) {
  {
    const std::lock_guard lock(mutex_);
    if (!protected_.insert(name_space).second) return std::nullopt;
  }
  const auto applied = client_.apply(kube::network_policies, name_space,
                                     make_network_policy(name_space, options_.operator_namespace));
  if (applied.ok()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  protected_.erase(name_space);
  return applied.error();
}

std::optional<Error> Reconciler::prepare_service(const JobObject& job, Memory& memory) {
  auto service = client_.create(kube::services, job.name_space, make_service(job));
  if (!service.ok() && service.error().already_exists()) {
    service = client_.get(kube::services, job.name_space, job.name);
    if (service.ok() && !owned_by(*service, job.uid)) {
      const auto error = taken("the Service " + job.name);
      memory.refusal = {reason::name_taken, error.message};
      return error;
    }
  }
  if (!service.ok()) {
    memory.refusal = {reason::pod_create_failed, service.error().message};
    return service.error();
  }
  memory.coordinator_ip = text_field(service->value("spec", json::object()), "clusterIP");
  return std::nullopt;
}

std::optional<Error> Reconciler::prepare(const JobObject& job, const Plan& plan, Memory& memory) {
  const auto attempt = plan.status.attempt;
  if (memory.prepared_attempt == attempt) return std::nullopt;
  if (auto error = protect_namespace(job.name_space)) return error;
  if (memory.coordinator_ip.empty()) {
    if (auto error = prepare_service(job, memory)) return error;
  }
  const auto secret = client_.create(kube::secrets, job.name_space,
                                     make_token_secret(job, attempt, token_of(job, attempt)));
  // We may not read Secrets: one that is there is ours by its name, or its pods fail to prove.
  if (!secret.ok() && !secret.error().already_exists()) {
    memory.refusal = {reason::pod_create_failed, secret.error().message};
    return secret.error();
  }
  memory.prepared_attempt = attempt;
  return std::nullopt;
}

std::optional<Error> Reconciler::create_pods(const JobObject& job, const Plan& plan,
                                             Memory& memory) {
  const auto resolved = as_run(plan.resolved);
  const AttemptContext context{job, resolved, plan.status.attempt, memory.coordinator_ip,
                               options_.images};
  auto error = in_batches(plan.create.size(), [&](std::size_t i) {
    return create_pod(job, make_pod(context, plan.create[i]), memory);
  });
  if (!error) {
    memory.refusal.reset();
    if (!memory.announced && plan.status.attempt == 1) {
      metrics_.pods_created(std::max(0.0, kube::unix_seconds() - job.created));
    }
    memory.announced = true;
  }
  return error;
}

std::optional<Error> Reconciler::create_pod(const JobObject& job, const json& body,
                                            Memory& memory) {
  const auto name = text_field(body["metadata"], "name");
  auto created = client_.create(kube::pods, job.name_space, body);
  if (!created.ok() && created.error().already_exists()) {
    // Perhaps our own, of a POST whose answer was lost.
    created = client_.get(kube::pods, job.name_space, name);
    if (created.ok() && !owned_by(*created, job.uid)) {
      const auto error = taken("the pod " + name);
      const std::lock_guard lock(mutex_);
      memory.refusal = {reason::name_taken, error.message};
      return error;
    }
  }
  const std::lock_guard lock(mutex_);
  if (!created.ok()) {
    memory.refusal = {reason::pod_create_failed, created.error().message};
    return created.error();
  }
  if (!pods_.get(job.name_space + "/" + name)) {
    memory.created[job.name_space + "/" + name] = pod_of_json(*created);
    memory.expires = steady_seconds() + expectation_seconds;
  }
  return std::nullopt;
}

void Reconciler::announce(const JobObject& job, const std::vector<Announcement>& announcements) {
  for (const auto& [warning, reason, action, note] : announcements) {
    events_.record({{api_version, "TrainingJob", job.name_space, job.name, job.uid},
                    warning ? "Warning" : "Normal",
                    reason,
                    action,
                    note});
  }
}

void Reconciler::count_edges(const JobObject& before, const Plan& plan) {
  const auto& status = plan.status;
  if (before.status.attempt == 0 && status.attempt > 0) metrics_.created();
  if (status.restarts > before.status.restarts) metrics_.restarted();
  if (!before.status.is("Succeeded") && status.is("Succeeded")) metrics_.succeeded();
  if (!before.status.is("Failed") && status.is("Failed")) metrics_.failed();
  if (before.status.find("Running") == nullptr && status.is("Running")) {
    metrics_.running(std::max(0.0, kube::unix_seconds() - before.created));
  }
}

}  // namespace muster::trainingjob
