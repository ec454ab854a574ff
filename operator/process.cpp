#include "operator/process.h"

#include <malloc.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <signal.h>

#include <deque>
#include <map>

#include "common/file.h"
#include "common/http_server.h"
#include "common/log.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/reflector.h"
#include "operator/trainingjob/names.h"

namespace muster {
namespace {

using trainingjob::JobObject;
using trainingjob::PodObject;
using JobStore = kube::Store<JobObject>;
using PodStore = kube::Store<PodObject>;

constexpr double longest_backoff = 30;  // seconds: a raised quota must not wait for long

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

Result<std::string> read_token_key(const std::string& file) {
  if (file.empty()) {
    return Error{Code::invalid_job,
                 "--token-key-file is missing: a file of random bytes from which the jobs' tokens "
                 "are derived; head -c 32 /dev/urandom > key makes one"};
  }
  MUSTER_TRY(key, read_file(file, 1u << 16));
  if (key.size() < 16) return Error{Code::invalid_job, file + " holds fewer than 16 bytes"};
  return key;
}

// The status alone is our own writing: it asks for nothing.
bool asks_for_work(const JobObject* before, const JobObject* after) {
  return before == nullptr || after == nullptr || before->uid != after->uid ||
         before->generation != after->generation || before->deleting != after->deleting;
}

class Process {
 public:
  Process(const OperatorOptions& options, const kube::Config& config,
          std::unique_ptr<kube::HttpTransport> calls, std::unique_ptr<kube::HttpTransport> watches)
      : options_(options),
        kube_metrics_(registry_, "trainingjob", config.server),
        job_metrics_(registry_, MUSTER_VERSION),
        calls_(std::move(calls)),
        watches_(std::move(watches)),
        client_(*calls_, {.qps = options.qps, .burst = options.burst}, &kube_metrics_),
        watcher_(*watches_, {}, &kube_metrics_),
        pods_({{"owner", [](const PodObject& pod) { return pod.job_uid; }}}),
        queue_(&kube_metrics_, longest_backoff),
        events_(client_, trainingjob::controller_name, options.lease.identity),
        reconciler_(client_, jobs_, pods_, events_, job_metrics_, options.reconciler),
        controller_(
            queue_, {.workers = options.workers},
            [this](const std::string& key) { return reconciler_.reconcile(key); }, &kube_metrics_) {
  }

  Status start() {
    kube_metrics_.leader(false);
    kube_metrics_.workers(0, options_.workers);
    MUSTER_TRY(server, HttpServer::start(options_.http, handlers()));
    server_ = std::move(server);
    log::info("serving /metrics, /healthz and /readyz", {{"port", server_->port()}});
    auto spaces = options_.namespaces;
    if (spaces.empty()) spaces.push_back("");
    for (const auto& space : spaces) watch(space);
    for (auto& reflector : reflectors_) reflector.start();
    return {};
  }

  // Waits for the end; the exit code.
  int run() {
    if (options_.elect) {
      elector_ = std::make_unique<kube::LeaderElector>(
          client_, options_.lease, [this] { lead(); }, [this] { lose(); });
      elector_->start();
    } else {
      lead();
    }
    const auto signals = stop_signals();
    int number = 0;
    ::sigwait(&signals, &number);
    log::info("stopping", {{"signal", number}});
    const bool drained = lost_ || controller_.stop(options_.drain_seconds);
    events_.stop(5);
    if (elector_) elector_->stop();
    watches_->cancel();
    client_.stop();
    watcher_.stop();
    calls_->cancel();
    for (auto& reflector : reflectors_) reflector.stop();
    server_.reset();
    if (!drained) log::warning("some reconciles were not finished");
    return lost_ ? 1 : 0;
  }

 private:
  using JobSink = kube::StoreSink<JobObject>;
  using PodSink = kube::StoreSink<PodObject>;

  void watch(const std::string& name_space) {
    job_sinks_.emplace_back(
        jobs_, name_space,
        [](const nlohmann::json& object) {
          return std::make_shared<const JobObject>(trainingjob::job_of_json(object));
        },
        [this](const JobSink::Pointer& before, const JobSink::Pointer& after) {
          if (asks_for_work(before.get(), after.get())) queue_.add((after ? after : before)->key());
          if (!after) job_metrics_.deleted();
        });
    reflectors_.emplace_back(watcher_, trainingjob::training_jobs,
                             kube::ReflectorOptions{.name_space = name_space}, job_sinks_.back());
    pod_sinks_.emplace_back(pods_, name_space, trainingjob::pod_of_json,
                            [this](const PodSink::Pointer& before, const PodSink::Pointer& after) {
                              pod_changed(before, after);
                            });
    reflectors_.emplace_back(
        watcher_, kube::pods,
        kube::ReflectorOptions{.name_space = name_space,
                               .label_selector = std::string(trainingjob::label_managed_by) +
                                                 "%3D" + trainingjob::managed_by + "%2C" +
                                                 trainingjob::label_job},
        pod_sinks_.back());
  }

  void pod_changed(const PodSink::Pointer& before, const PodSink::Pointer& after) {
    const auto& pod = after ? after : before;
    if (pod->job_key.empty()) return;
    reconciler_.observed(pod->job_key, pod->name_space + "/" + pod->name);
    if (!before || !after || !(*before == *after)) queue_.add(pod->job_key);
  }

  bool synced() const {
    for (const auto& reflector : reflectors_) {
      if (!reflector.synced()) return false;
    }
    return true;
  }

  // Workers start when all caches have synced; a thread waits, as the elector must go on.
  void lead() {
    kube_metrics_.leader(true);
    starter_ = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(starter_mutex_);
      while (!stop.stop_requested() && !synced()) {
        starter_wake_.wait_for(lock, stop, std::chrono::milliseconds(10), [] { return false; });
      }
      if (!stop.stop_requested()) controller_.start();
    });
  }

  // Another may lead already: what we do from now on could contradict it.
  void lose() {
    lost_ = true;
    kube_metrics_.leader(false);
    calls_->cancel();
    ::kill(::getpid(), SIGTERM);
  }

  std::map<std::string, HttpServer::Handler> handlers() {
    return {{"/metrics",
             [this](const std::string&) {
               update_gauges();
               return HttpReply{200, "text/plain; version=0.0.4; charset=utf-8",
                                prometheus::TextSerializer().Serialize(registry_.Collect())};
             }},
            {"/healthz",
             [this](const std::string&) {
               const bool healthy = !elector_ || elector_->healthy();
               return HttpReply{healthy ? 200 : 500, "text/plain", healthy ? "ok\n" : "lease\n"};
             }},
            {"/readyz", [this](const std::string&) {
               const bool ready = synced();
               return HttpReply{ready ? 200 : 503, "text/plain", ready ? "ok\n" : "syncing\n"};
             }}};
  }

  void update_gauges() {
    queue_.report();
    std::map<std::string, int> phases;
    for (const auto& job : jobs_.all()) {
      ++phases[job->status.phase.empty() ? "Pending" : job->status.phase];
    }
    for (const char* phase :
         {"Pending", "Starting", "Running", "Restarting", "Suspended", "Succeeded", "Failed"}) {
      job_metrics_.set_phase(phase, phases[phase]);
    }
  }

  const OperatorOptions& options_;
  prometheus::Registry registry_;
  kube::Metrics kube_metrics_;
  trainingjob::Metrics job_metrics_;
  std::unique_ptr<kube::HttpTransport> calls_, watches_;
  kube::Client client_, watcher_;
  JobStore jobs_;
  PodStore pods_;
  kube::WorkQueue queue_;
  kube::EventRecorder events_;
  trainingjob::Reconciler reconciler_;
  kube::Controller controller_;
  std::deque<JobSink> job_sinks_;
  std::deque<PodSink> pod_sinks_;
  std::deque<kube::Reflector> reflectors_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<kube::LeaderElector> elector_;
  std::mutex starter_mutex_;
  std::condition_variable_any starter_wake_;
  std::atomic<bool> lost_{false};
  std::jthread starter_;
};

}  // namespace

Result<int> run_operator(const OperatorOptions& given) {
  // Two arenas: the allocator's default of eight a core keeps what a list needed once.
  ::mallopt(M_ARENA_MAX, 2);
  const auto signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  kube::start_http_threads(4);
  auto options = given;
  MUSTER_TRY(config, kube::load_config(options.config));
  MUSTER_TRY(key, read_token_key(options.token_key_file));
  options.reconciler.token_key = key;
  if (options.lease.name_space.empty()) options.lease.name_space = config.name_space;
  MUSTER_TRY(calls, kube::make_cpprest_transport(config));
  MUSTER_TRY(watches, kube::make_cpprest_transport(config));
  Process process(options, config, std::move(calls), std::move(watches));
  MUSTER_CHECK_OK(process.start());
  return process.run();
}

int check_address(const std::string& address) {
  kube::start_http_threads(2);
  const auto slash = address.find('/', address.find("//") + 2);
  kube::Config config;
  config.server = address.substr(0, slash);
  const auto transport = kube::make_cpprest_transport(config);
  if (!transport.ok()) {
    log::error(transport.error().message);
    return 1;
  }
  const auto reply =
      (*transport)->send({"GET", slash == std::string::npos ? "/" : address.substr(slash)}, 5);
  if (!reply.ok()) log::error(reply.error().message);
  return reply.ok() && reply->status == 200 ? 0 : 1;
}

}  // namespace muster
