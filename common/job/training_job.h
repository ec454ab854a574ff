// The TrainingJob: what a person asks for. The field names are those of the YAML in snake_case; the
// values are the defaults. Units and ranges are in schema.cpp, from which docs/api.md is generated.
//
// The only place that knows the spec: operator, coordinator, trainer and CLI all read it through
// here.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster::job {

enum class StrategyType { automatic, sync, async, zero, hybrid };

struct Strategy {
  StrategyType type = StrategyType::automatic;
  struct Sync {
    std::string compression = "none";  // none | bf16
    std::int64_t local_steps = 1;
    std::int64_t bucket_bytes = 26214400;
  } sync;
  struct Zero {
    std::int64_t stage = 2;
    std::string offload = "none";  // none | optimizer
  } zero;
  struct Async {
    std::int64_t max_staleness = 4;
    std::string compensation = "none";  // none | learningRate | delay
    std::int64_t local_steps = 1;
  } async;
  struct Hybrid {
    std::string core = "sync";  // sync | zero
    std::vector<std::string> edge_parameters;
  } hybrid;
  struct Auto {
    bool require_synchronous = false;
  } automatic;
  bool replicate_shards = true;
};

// Exactly one of the optionals is set.
struct Model {
  struct Tabular {
    std::vector<std::int64_t> hidden = {64, 64};
    std::string activation = "relu";  // relu | gelu | tanh | sigmoid
  };
  struct Builtin {
    std::string name;                                  // mlp | resnet18 | resnet50 | gpt2 | llama
    nlohmann::json config = nlohmann::json::object();  // the model's own, checked by its builder
  };
  struct HuggingFace {
    std::string path;
    struct Lora {
      std::int64_t rank = 16;
      double alpha = 32;
      std::vector<std::string> targets;
    };
    std::optional<Lora> lora;
  };
  struct Plugin {
    std::string path;
    nlohmann::json config = nlohmann::json::object();
  };
  struct External {};
  std::optional<Tabular> tabular;
  std::optional<Builtin> builtin;
  std::optional<HuggingFace> hugging_face;
  std::optional<Plugin> plugin;
  std::optional<External> external;
};

struct Column {
  std::string name;
  std::string type = "auto";  // auto | number | category
};

struct Data {
  std::string format;              // csv | idx | cifar | tokens | text | jsonl | parquet
  std::vector<std::string> train;  // files or globs
  std::vector<std::string> validation;
  double validation_fraction = 0;
  struct Tabular {
    std::vector<Column> inputs;  // empty: every column but the output
    Column output;               // an empty name: the last column
  } tabular;
  std::string tokenizer;
  std::int64_t sequence_length = 256;
  std::int64_t token_bits = 16;      // format tokens: 16 or 32 bits a token
  std::int64_t vocabulary_size = 0;  // format tokens: 0 = the largest token + 1
};

struct Optimizer {
  std::string type = "adamw";  // adamw | adam | sgd
  double learning_rate = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  double weight_decay = 0;  // adamw: decoupled; adam, sgd: added to the gradient, as in PyTorch
  double momentum = 0.9;    // sgd
};

struct Schedule {
  std::string type = "constant";  // constant | linear | cosine | step | exponential | plateau
  std::int64_t warmup_steps = 0;
  double minimum_ratio = 0;    // of the learning rate, at the end of linear and cosine
  std::int64_t step_size = 0;  // step: every so many steps; 0 = a third of the run
  double gamma = 0.1;          // step, exponential (a step), plateau: the factor
  std::int64_t patience = 3;   // plateau: validations without improvement
};

struct EarlyStopping {
  std::string metric = "validation_loss";
  std::int64_t patience = 3;  // validations without improvement
};

struct Training {
  std::optional<std::int64_t> epochs;  // exactly one of epochs and steps
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> global_batch_size;      // samples a step over all workers
  std::optional<std::int64_t> per_worker_batch_size;  // multiplied by workers and accumulation
  std::optional<std::int64_t> micro_batch_size;       // unset: auto
  std::int64_t gradient_accumulation_steps = 1;
  std::string batch_split = "auto";       // auto | equal
  std::string precision = "fp32";         // fp32 | bf16 | fp16 | auto
  std::string reproducibility = "curve";  // curve | bitwise
  Optimizer optimizer;
  Schedule schedule;
  double gradient_clip_norm = 0;  // 0: off
  std::optional<EarlyStopping> early_stopping;
  std::int64_t validate_every_steps = 0;  // 0: at the end of each epoch, and at the end
  std::string on_divergence = "Fail";     // Fail | Restart | Continue
  std::int64_t seed = 0;
};

struct Workers {
  std::int64_t replicas = 1;
  std::optional<std::int64_t> devices_per_worker;  // unset: auto
  std::string device_resource = "nvidia.com/gpu";
  std::string network = "default";  // default | rdma
  nlohmann::json pod_template = nlohmann::json::object();
};

struct Servers {
  std::int64_t replicas = 0;
  nlohmann::json pod_template = nlohmann::json::object();
};

struct Recovery {
  double heartbeat_timeout_seconds = 3;
  std::optional<double> hang_timeout_seconds;  // unset: auto = max(5 s, 10 x the median step)
  std::int64_t rank_restarts = 10;
};

struct ElasticPolicy {
  std::int64_t min_replicas = 1;
  std::int64_t max_replicas = 1;
  std::string autoscaling = "none";  // none | goodput
  double minimum_efficiency = 0.6;
  std::int64_t stabilization_window_seconds = 300;
};

struct Checkpoint {
  std::string path;  // empty: `muster run` puts it into the output folder
  std::int64_t every_steps = 0;
  std::int64_t every_seconds = 0;
  std::int64_t keep = 3;
  std::string keep_best;        // empty, or a metric: validation_loss | validation_accuracy
  std::string resume = "auto";  // auto | never
  std::string resume_from;
};

struct SchedulingPolicy {
  std::string gang = "none";  // none | kueue | volcano
  std::string queue;
  std::string priority_class_name;
  std::int64_t schedule_timeout_seconds = 600;
};

struct RunPolicy {
  bool suspend = false;
  std::string managed_by = "muster.dev/operator";
  std::int64_t backoff_limit = 6;
  std::optional<std::int64_t> active_deadline_seconds;
  std::optional<std::int64_t> pre_running_deadline_seconds;
  std::optional<std::int64_t> progress_deadline_seconds;
  std::optional<std::int64_t> ttl_seconds_after_finished;
  std::string clean_pod_policy = "Running";  // None | Running | All
  std::int64_t termination_grace_period_seconds = 60;
  SchedulingPolicy scheduling_policy;
};

struct FailureRule {
  std::vector<std::int64_t> on_exit_codes;
  std::vector<std::string> on_reasons;
  std::string action;  // Fail | Restart | RestartIgnoreLimit
};

struct Spec {
  std::string profile;  // "" | research | production | constrained
  Strategy strategy;
  Model model;
  Data data;
  Training training;
  Workers workers;
  Servers servers;
  nlohmann::json coordinator_template = nlohmann::json::object();
  Recovery recovery;
  std::optional<ElasticPolicy> elastic_policy;
  Checkpoint checkpoint;
  std::string output;
  RunPolicy run_policy;
  std::vector<FailureRule> failure_rules;
};

struct TrainingJob {
  std::string name;
  std::string name_space = "default";
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  Spec spec;
};

}  // namespace muster::job
