#include "common/job/convert.h"

#include "common/job/job.h"

namespace muster::job {
namespace {

using nlohmann::json;

const std::pair<const char*, StrategyType> strategy_names[] = {{"auto", StrategyType::automatic},
                                                               {"sync", StrategyType::sync},
                                                               {"async", StrategyType::async},
                                                               {"zero", StrategyType::zero},
                                                               {"hybrid", StrategyType::hybrid}};

// Both directions share one list of fields a struct, `visit` below: `io` is a Reader or a Writer.
class Reader {
 public:
  explicit Reader(const json& from) : from_(from) {}
  template <class T>
  void operator()(const char* name, T& to) const {
    if (from_.contains(name)) read(from_.at(name), to);
  }

 private:
  static void read(const json& v, StrategyType& to) {
    for (const auto& [name, type] : strategy_names) {
      if (v == name) to = type;
    }
  }
  template <class T>
  static void read(const json& v, T& to);
  const json& from_;
};

class Writer {
 public:
  explicit Writer(json& to) : to_(to) {}
  template <class T>
  void operator()(const char* name, T& from) const {
    write(to_[name], from);
    if (to_[name].is_null()) to_.erase(name);
  }

 private:
  static void write(json& to, StrategyType& from) {
    for (const auto& [name, type] : strategy_names) {
      if (type == from) to = name;
    }
  }
  template <class T>
  static void write(json& to, T& from);
  json& to_;
};

template <class Io>
void visit(Io& io, Strategy::Sync& s) {
  io("compression", s.compression);
  io("localSteps", s.local_steps);
  io("bucketBytes", s.bucket_bytes);
}
template <class Io>
void visit(Io& io, Strategy::Zero& s) {
  io("stage", s.stage);
  io("offload", s.offload);
}
template <class Io>
void visit(Io& io, Strategy::Async& s) {
  io("maxStaleness", s.max_staleness);
  io("compensation", s.compensation);
  io("localSteps", s.local_steps);
}
template <class Io>
void visit(Io& io, Strategy::Hybrid& s) {
  io("core", s.core);
  io("edgeParameters", s.edge_parameters);
}
template <class Io>
void visit(Io& io, Strategy::Auto& s) {
  io("requireSynchronous", s.require_synchronous);
}
template <class Io>
void visit(Io& io, Strategy& s) {
  io("type", s.type);
  io("sync", s.sync);
  io("zero", s.zero);
  io("async", s.async);
  io("hybrid", s.hybrid);
  io("auto", s.automatic);
  io("replicateShards", s.replicate_shards);
}
template <class Io>
void visit(Io& io, Model::Tabular& m) {
  io("hidden", m.hidden);
  io("activation", m.activation);
}
template <class Io>
void visit(Io& io, Model::Builtin& m) {
  io("name", m.name);
  io("config", m.config);
}
template <class Io>
void visit(Io& io, Model::HuggingFace::Lora& m) {
  io("rank", m.rank);
  io("alpha", m.alpha);
  io("targets", m.targets);
}
template <class Io>
void visit(Io& io, Model::HuggingFace& m) {
  io("path", m.path);
  io("lora", m.lora);
}
template <class Io>
void visit(Io& io, Model::Plugin& m) {
  io("path", m.path);
  io("config", m.config);
}
template <class Io>
void visit(Io&, Model::External&) {}
template <class Io>
void visit(Io& io, Model& m) {
  io("tabular", m.tabular);
  io("builtin", m.builtin);
  io("huggingFace", m.hugging_face);
  io("plugin", m.plugin);
  io("external", m.external);
}
template <class Io>
void visit(Io& io, Column& c) {
  io("name", c.name);
  io("type", c.type);
}
// An output that nobody named is the last column; it is left out, since a column must have a name.
void visit(Reader& io, Data::Tabular& t) {
  io("inputs", t.inputs);
  io("output", t.output);
}
void visit(Writer& io, Data::Tabular& t) {
  io("inputs", t.inputs);
  if (!t.output.name.empty()) io("output", t.output);
}
template <class Io>
void visit(Io& io, Data& d) {
  io("format", d.format);
  io("train", d.train);
  io("validation", d.validation);
  io("validationFraction", d.validation_fraction);
  io("tabular", d.tabular);
  io("tokenizer", d.tokenizer);
  io("sequenceLength", d.sequence_length);
  io("tokenBits", d.token_bits);
  io("vocabularySize", d.vocabulary_size);
}
template <class Io>
void visit(Io& io, Optimizer& o) {
  io("type", o.type);
  io("learningRate", o.learning_rate);
  io("betas", o.betas);
  io("epsilon", o.epsilon);
  io("weightDecay", o.weight_decay);
  io("momentum", o.momentum);
}
template <class Io>
void visit(Io& io, Schedule& s) {
  io("type", s.type);
  io("warmupSteps", s.warmup_steps);
  io("minimumRatio", s.minimum_ratio);
  io("stepSize", s.step_size);
  io("gamma", s.gamma);
  io("patience", s.patience);
}
template <class Io>
void visit(Io& io, EarlyStopping& e) {
  io("metric", e.metric);
  io("patience", e.patience);
}
template <class Io>
void visit(Io& io, Training& t) {
  io("epochs", t.epochs);
  io("steps", t.steps);
  io("globalBatchSize", t.global_batch_size);
  io("perWorkerBatchSize", t.per_worker_batch_size);
  io("microBatchSize", t.micro_batch_size);
  io("gradientAccumulationSteps", t.gradient_accumulation_steps);
  io("batchSplit", t.batch_split);
  io("precision", t.precision);
  io("reproducibility", t.reproducibility);
  io("optimizer", t.optimizer);
  io("schedule", t.schedule);
  io("gradientClipNorm", t.gradient_clip_norm);
  io("earlyStopping", t.early_stopping);
  io("validateEverySteps", t.validate_every_steps);
  io("onDivergence", t.on_divergence);
  io("seed", t.seed);
}
template <class Io>
void visit(Io& io, Workers& w) {
  io("replicas", w.replicas);
  io("devicesPerWorker", w.devices_per_worker);
  io("deviceResource", w.device_resource);
  io("network", w.network);
  io("template", w.pod_template);
}
template <class Io>
void visit(Io& io, Servers& s) {
  io("replicas", s.replicas);
  io("template", s.pod_template);
}
template <class Io>
void visit(Io& io, Recovery& r) {
  io("heartbeatTimeoutSeconds", r.heartbeat_timeout_seconds);
  io("hangTimeoutSeconds", r.hang_timeout_seconds);
  io("rankRestarts", r.rank_restarts);
}
template <class Io>
void visit(Io& io, ElasticPolicy& e) {
  io("minReplicas", e.min_replicas);
  io("maxReplicas", e.max_replicas);
  io("autoscaling", e.autoscaling);
  io("minimumEfficiency", e.minimum_efficiency);
  io("stabilizationWindowSeconds", e.stabilization_window_seconds);
}
template <class Io>
void visit(Io& io, Checkpoint& c) {
  io("path", c.path);
  io("everySteps", c.every_steps);
  io("everySeconds", c.every_seconds);
  io("keep", c.keep);
  io("keepBest", c.keep_best);
  io("resume", c.resume);
  io("resumeFrom", c.resume_from);
}
template <class Io>
void visit(Io& io, SchedulingPolicy& s) {
  io("gang", s.gang);
  io("queue", s.queue);
  io("priorityClassName", s.priority_class_name);
  io("scheduleTimeoutSeconds", s.schedule_timeout_seconds);
}
template <class Io>
void visit(Io& io, RunPolicy& r) {
  io("suspend", r.suspend);
  io("managedBy", r.managed_by);
  io("backoffLimit", r.backoff_limit);
  io("activeDeadlineSeconds", r.active_deadline_seconds);
  io("preRunningDeadlineSeconds", r.pre_running_deadline_seconds);
  io("progressDeadlineSeconds", r.progress_deadline_seconds);
  io("ttlSecondsAfterFinished", r.ttl_seconds_after_finished);
  io("cleanPodPolicy", r.clean_pod_policy);
  io("terminationGracePeriodSeconds", r.termination_grace_period_seconds);
  io("schedulingPolicy", r.scheduling_policy);
}
template <class Io>
void visit(Io& io, FailureRule& f) {
  io("onExitCodes", f.on_exit_codes);
  io("onReasons", f.on_reasons);
  io("action", f.action);
}

// Two levels of the YAML that are one in the struct.
struct CoordinatorView {
  json& pod_template;
};
struct FailurePolicyView {
  std::vector<FailureRule>& rules;
};
template <class Io>
void visit(Io& io, CoordinatorView& c) {
  io("template", c.pod_template);
}
template <class Io>
void visit(Io& io, FailurePolicyView& f) {
  io("rules", f.rules);
}
template <class Io>
void visit(Io& io, Spec& s) {
  CoordinatorView coordinator{s.coordinator_template};
  FailurePolicyView failure{s.failure_rules};
  io("profile", s.profile);
  io("strategy", s.strategy);
  io("model", s.model);
  io("data", s.data);
  io("training", s.training);
  io("workers", s.workers);
  io("servers", s.servers);
  io("coordinator", coordinator);
  io("recovery", s.recovery);
  io("elasticPolicy", s.elastic_policy);
  io("checkpoint", s.checkpoint);
  io("output", s.output);
  io("runPolicy", s.run_policy);
  io("failurePolicy", failure);
}

template <class T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, json>;
template <class T>
struct Wrapped : std::false_type {};
template <class T>
struct Wrapped<std::optional<T>> : std::true_type {};
template <class T>
struct Listed : std::false_type {};
template <class T>
struct Listed<std::vector<T>> : std::true_type {};

template <class T>
void Reader::read(const json& v, T& to) {
  if constexpr (is_plain<T>) {
    to = v.get<T>();
  } else if constexpr (Wrapped<T>::value) {
    typename T::value_type value{};
    read(v, value);
    to = std::move(value);
  } else if constexpr (Listed<T>::value) {
    to.clear();
    for (const auto& item : v) read(item, to.emplace_back());
  } else {
    Reader inner(v);
    visit(inner, to);
  }
}

template <class T>
void Writer::write(json& to, T& from) {
  if constexpr (is_plain<T>) {
    to = from;
  } else if constexpr (Wrapped<T>::value) {
    if (from) write(to, *from);
  } else if constexpr (Listed<T>::value) {
    to = json::array();
    for (auto& item : from) write(to.emplace_back(), item);
  } else {
    to = json::object();
    Writer inner(to);
    visit(inner, from);
  }
}

}  // namespace

TrainingJob from_checked_json(const json& document) {
  TrainingJob job;
  const auto& metadata = document.at("metadata");
  job.name = metadata.at("name").get<std::string>();
  job.name_space = metadata.at("namespace").get<std::string>();
  job.labels = metadata.at("labels").get<std::map<std::string, std::string>>();
  job.annotations = metadata.at("annotations").get<std::map<std::string, std::string>>();
  Reader reader(document.at("spec"));
  visit(reader, job.spec);
  return job;
}

json to_json(const TrainingJob& job) {
  auto spec =
      job.spec;  // the Writer shares visit() with the Reader, which needs a reference to write to
  json out = json::object();
  Writer writer(out);
  visit(writer, spec);
  return {{"apiVersion", "muster.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata",
           {{"name", job.name},
            {"namespace", job.name_space},
            {"labels", job.labels},
            {"annotations", job.annotations}}},
          {"spec", out}};
}

}  // namespace muster::job
