#include "common/job/schema.h"

#include "common/job/fields.h"

namespace muster::job {
namespace {

using nlohmann::json;
using namespace fields;  // NOLINT(google-build-using-namespace)

constexpr double big = 1e9;

Field strategy() {
  return object(
      "strategy",
      {
          choice("type", "auto", {"auto", "sync", "async", "zero", "hybrid"},
                 "How the workers co-operate."),
          object("sync",
                 {
                     choice("compression", "none", {"none", "bf16"},
                            "Gradients on the wire: fp32, or bf16 with error feedback."),
                     integer("localSteps", 1, 1, "Steps between two averagings of the parameters."),
                     integer("bucketBytes", 26214400, 1024,
                             "Bytes of gradients that are reduced together."),
                 },
                 "Settings of strategy sync."),
          object(
              "zero",
              {
                  at_most(
                      integer(
                          "stage", 2, 1,
                          "What is sharded: 1 optimizer state, 2 gradients too, 3 parameters too."),
                      3),
                  choice("offload", "none", {"none", "optimizer"},
                         "Where masters and moments live: on the device, or in host memory."),
              },
              "Settings of strategy zero."),
          object("async",
                 {
                     integer("maxStaleness", 4, 0,
                             "Clocks that a worker may be ahead of the slowest."),
                     choice("compensation", "none", {"none", "learningRate", "delay"},
                            "What is done about stale gradients."),
                     integer("localSteps", 1, 1, "Steps between two pushes."),
                 },
                 "Settings of strategy async."),
          object("hybrid",
                 {
                     choice("core", "sync", {"sync", "zero"}, "The strategy of the dense core."),
                     list("edgeParameters", Type::string, json::array(),
                          "RE2 patterns of the parameters that go async."),
                 },
                 "Settings of strategy hybrid."),
          object("auto", {boolean("requireSynchronous", false, "Never choose async.")},
                 "Settings of strategy auto."),
          boolean("replicateShards", true, "Shards keep a mirror in another failure domain."),
      },
      "How the workers co-operate.");
}

Field widths(json preset) {
  return at_least(1, up_to(64, list("hidden", Type::integer, std::move(preset),
                                    "Widths of the hidden layers.")));
}

Field model() {
  auto config = free_object("config", "The model's own settings.");
  return required(object(
      "model",
      {
          optional(object("tabular",
                          {
                              widths(json{64, 64}),
                              choice("activation", "relu", {"relu", "gelu", "tanh", "sigmoid"},
                                     "Between the layers."),
                          },
                          "A network over the columns of data.tabular.")),
          optional(object(
              "builtin",
              {
                  required(choice("name", nullptr, {"mlp", "resnet18", "resnet50", "gpt2", "llama"},
                                  "Which of Muster's own models.")),
                  config,
              },
              "One of Muster's own models.")),
          optional(object(
              "huggingFace",
              {
                  required(string("path", nullptr, "Folder of config.json and safetensors.")),
                  optional(object("lora",
                                  {
                                      integer("rank", 16, 1, "Rank of the update."),
                                      above(number("alpha", 32, 0, "Scale of the update.")),
                                      list("targets", Type::string, json::array(),
                                           "Names of the layers that get one."),
                                  },
                                  "Train a low-rank update only.")),
              },
              "A model in Hugging Face's layout.")),
          optional(object("plugin",
                          {required(string("path", nullptr, "A C++ shared object.")), config},
                          "A model of your own.")),
          optional(object("external", {}, "Your container trains; Muster gives it its ranks.")),
      },
      "What is trained: exactly one of the fields."));
}

std::vector<Field> column() {
  return {required(string("name", nullptr, "The column's name in the header.")),
          choice("type", "auto", {"auto", "number", "category"}, "auto: by the training data.")};
}

Field data() {
  Field inputs =
      list("inputs", Type::object, json::array(), "Input columns; none: all but the output.");
  inputs.fields = column();
  Field train = required(list("train", Type::string, nullptr,
                              "Files or globs to train on, such as [data/train.csv]."));
  train.least = 1;
  return required(object(
      "data",
      {
          required(choice("format", nullptr,
                          {"csv", "idx", "cifar", "tokens", "text", "jsonl", "parquet"},
                          "Format of the files.")),
          train,
          list("validation", Type::string, json::array(), "Files or globs to validate on."),
          at_most(number("validationFraction", 0, 0,
                         "Part of the training data that is held out instead."),
                  0.99),
          object("tabular",
                 {inputs, optional(object("output", column(),
                                          "The column to predict; none: the last one."))},
                 "Columns of csv and parquet."),
          string("tokenizer", "", "tokenizer.json, for jsonl and text."),
          integer("sequenceLength", 256, 1, "Tokens a sample."),
          at_most(integer("tokenBits", 16, 16, "Format tokens: bits a token, 16 or 32."), 32),
          integer("vocabularySize", 0, 0, "Format tokens; 0: the largest token + 1."),
      },
      "What it is trained on."));
}

Field training() {
  return required(object(
      "training",
      {
          optional(integer("epochs", nullptr, 1, "Passes over the training data; this or steps.")),
          optional(integer("steps", nullptr, 1, "Updates; this or epochs.")),
          optional(integer("globalBatchSize", nullptr, 1,
                           "Samples a step over all workers; 32 when neither this nor "
                           "perWorkerBatchSize is set.")),
          optional(
              integer("perWorkerBatchSize", nullptr, 1,
                      "Samples a worker and micro-batch; multiplied by workers and accumulation.")),
          with_auto(optional(integer("microBatchSize", nullptr, 1,
                                     "Samples that a device holds at once, or auto."))),
          integer("gradientAccumulationSteps", 1, 1, "Micro-batches a step."),
          choice("batchSplit", "auto", {"auto", "equal"}, "How the global batch is divided."),
          choice("precision", "fp32", {"fp32", "bf16", "fp16", "auto"},
                 "Of parameters and activations."),
          choice("reproducibility", "curve", {"curve", "bitwise"},
                 "The same curve, or the same bits, for any world size."),
          object("optimizer",
                 {
                     choice("type", "adamw", {"adamw", "adam", "sgd"},
                            "The update's rule, as in torch.optim."),
                     above(number("learningRate", 1e-3, 0, "The base rate.")),
                     list("betas", Type::number, json{0.9, 0.999},
                          "Decay of Adam's moments: two numbers in [0, 1)."),
                     above(number("epsilon", 1e-8, 0, "Added to Adam's denominator.")),
                     number("weightDecay", 0, 0,
                            "adamw: decoupled; adam, sgd: added to the gradient."),
                     at_most(number("momentum", 0.9, 0, "Of sgd."), 1),
                 },
                 "The update's rule."),
          object(
              "schedule",
              {
                  choice("type", "constant",
                         {"constant", "linear", "cosine", "step", "exponential", "plateau"},
                         "Shape of the learning rate after the warm-up."),
                  integer("warmupSteps", 0, 0, "Steps of linear warm-up."),
                  at_most(number("minimumRatio", 0, 0,
                                 "linear, cosine: the last rate over the base rate."),
                          1),
                  integer("stepSize", 0, 0, "step: every so many steps; 0: a third of the run."),
                  at_most(above(number("gamma", 0.1, 0, "step, exponential, plateau: the factor.")),
                          1),
                  integer("patience", 3, 1, "plateau: validations without improvement."),
              },
              "The learning rate over the run."),
          number("gradientClipNorm", 0, 0, "Largest 2-norm of the gradient; 0: not clipped."),
          optional(
              object("earlyStopping",
                     {
                         choice("metric", "validation_loss",
                                {"validation_loss", "validation_accuracy"}, "What must improve."),
                         integer("patience", 3, 1, "Validations without improvement."),
                     },
                     "Stop when validation no longer improves.")),
          integer("validateEverySteps", 0, 0, "0: at each epoch's end."),
          choice("onDivergence", "Fail", {"Fail", "Restart", "Continue"},
                 "When the loss is not finite: fail, restart from the last checkpoint, or leave "
                 "the update out."),
          integer("seed", 0, 0, "Of initialisation, order and split."),
      },
      "How it is trained."));
}

Field run_policy() {
  return object(
      "runPolicy",
      {
          boolean("suspend", false, "Do not run for now."),
          string("managedBy", "muster.dev/operator", "Who reconciles the job."),
          integer("backoffLimit", 6, 0, "Failed attempts that are retried."),
          optional(integer("activeDeadlineSeconds", nullptr, 1, "Longest time for the whole job.")),
          optional(integer("preRunningDeadlineSeconds", nullptr, 1, "Longest time until it runs.")),
          optional(
              integer("progressDeadlineSeconds", nullptr, 1, "Longest time without a heartbeat.")),
          optional(
              integer("ttlSecondsAfterFinished", nullptr, 0, "When a finished job is deleted.")),
          choice("cleanPodPolicy", "Running", {"None", "Running", "All"},
                 "Pods that are deleted at the end."),
          integer("terminationGracePeriodSeconds", 60, 0, "Time to finish the step and leave."),
          object(
              "schedulingPolicy",
              {
                  choice("gang", "none", {"none", "kueue", "volcano"},
                         "Who places all pods at once."),
                  string("queue", "", "The scheduler's queue."),
                  string("priorityClassName", "", "Of the pods."),
                  integer("scheduleTimeoutSeconds", 600, 1, "How long a pod may stay unscheduled."),
              },
              "How pods are placed."),
      },
      "Limits and clean-up.");
}

Field failure_policy() {
  Field rules =
      up_to(100, list("rules", Type::object, json::array(), "The first that matches decides."));
  rules.fields = {list("onExitCodes", Type::integer, json::array(), "Exit codes of the trainer."),
                  list("onReasons", Type::string, json::array(), "Reasons, such as Evicted."),
                  required(choice("action", nullptr, {"Fail", "Restart", "RestartIgnoreLimit"},
                                  "What a match means."))};
  return object("failurePolicy", {rules}, "What a failure means.");
}

Field elastic_policy() {
  return optional(object(
      "elasticPolicy",
      {
          at_most(integer("minReplicas", 1, 1, "Fewest workers that train."), big),
          at_most(integer("maxReplicas", 1, 1, "Most workers."), big),
          choice("autoscaling", "none", {"none", "goodput"}, "Who decides how many."),
          at_most(number("minimumEfficiency", 0.6, 0, "goodput: least scaling efficiency."), 1),
          integer("stabilizationWindowSeconds", 300, 0, "goodput: how long a wish must last."),
      },
      "The number of workers may change."));
}

Field checkpoint() {
  return object(
      "checkpoint",
      {
          string("path", "", "Folder on a volume."),
          integer("everySteps", 0, 0, "Steps between two checkpoints; 0: none by steps."),
          integer("everySeconds", 0, 0, "Seconds between two checkpoints; 0: none by time."),
          integer("keep", 3, 1, "Newest checkpoints that stay."),
          choice("keepBest", "", {"", "validation_loss", "validation_accuracy"},
                 "The best one by this stays too."),
          choice("resume", "auto", {"auto", "never"},
                 "Continue from the newest checkpoint of this job."),
          string("resumeFrom", "", "Another job's checkpoint folder to start from."),
      },
      "What survives.");
}

Field spec() {
  auto pod_template = free_object("template", "PodTemplateSpec, merged over the default one.");
  return required(object(
      "spec",
      {
          choice("profile", "", {"", "research", "production", "constrained"},
                 "Presets for what is not set."),
          strategy(),
          model(),
          data(),
          training(),
          object("workers",
                 {
                     at_most(integer("replicas", 1, 1, "Worker pods."), 100000),
                     with_auto(optional(at_most(
                         integer("devicesPerWorker", nullptr, 1, "Ranks in a pod, or auto."), 64))),
                     up_to(317, string("deviceResource", "nvidia.com/gpu",
                                       "The resource that a rank needs.")),
                     choice("network", "default", {"default", "rdma"},
                            "rdma adds IPC_LOCK and the host's network."),
                     pod_template,
                 },
                 "Who trains."),
          object("servers",
                 {at_most(integer("replicas", 0, 0,
                                  "Parameter-server pods; 0: the workers host the shards."),
                          100000),
                  pod_template},
                 "For async and hybrid."),
          object("coordinator", {pod_template}, "The coordinator's pod."),
          object(
              "recovery",
              {
                  number("heartbeatTimeoutSeconds", 3, 0.6, "Silence after which a rank is lost."),
                  with_auto(optional(
                      above(number("hangTimeoutSeconds", nullptr, 0,
                                   "Wait in a collective after which a rank hangs, or auto.")))),
                  integer("rankRestarts", 10, 0, "Restarts of a rank's process in its pod."),
              },
              "How failures are noticed."),
          elastic_policy(),
          checkpoint(),
          string("output", "", "Folder of metrics.jsonl and export/."),
          run_policy(),
          failure_policy(),
      },
      "What is asked for."));
}

Field build() {
  return object("",
                {
                    required(choice("apiVersion", nullptr, {"muster.dev/v1alpha1"},
                                    "The API's version: muster.dev/v1alpha1.")),
                    required(choice("kind", nullptr, {"TrainingJob"}, "TrainingJob.")),
                    required(object("metadata",
                                    {
                                        required(string("name", nullptr, "The job's name.")),
                                        string("namespace", "default", "Its namespace."),
                                        {.name = "labels",
                                         .type = Type::string_map,
                                         .description = "Labels.",
                                         .preset = json::object()},
                                        {.name = "annotations",
                                         .type = Type::string_map,
                                         .description = "Annotations.",
                                         .preset = json::object()},
                                    },
                                    "Name and labels.")),
                    spec(),
                },
                "A TrainingJob.");
}

void describe_field(const Field& f, const std::string& path, std::string& out) {
  const auto here = path.empty() ? f.name : path + "." + f.name;
  static const char* names[] = {"object",  "list",   "string", "integer", "number",
                                "boolean", "object", "object", "object"};
  std::string type = names[static_cast<int>(f.type)];
  if (!f.choices.empty()) {
    type.clear();
    for (const auto& c : f.choices) type += (type.empty() ? "" : ", ") + (c.empty() ? "\"\"" : c);
  }
  if (f.or_auto) type += " or auto";
  std::string preset = f.required               ? "required"
                       : f.preset.is_null()     ? ""
                       : f.type == Type::object ? ""
                                                : "`" + f.preset.dump() + "`";
  if (!here.empty())
    out += "| `" + here + "` | " + type + " | " + preset + " | " + f.description + " |\n";
  for (const auto& child : f.fields)
    describe_field(child, f.type == Type::list ? here + "[]" : here, out);
}

}  // namespace

const Field* builtin_config(const std::string& model) {
  static const Field gpt2 =
      object("config",
             {optional(integer("layers", nullptr, 1, "Blocks.")),
              optional(integer("heads", nullptr, 1, "Attention heads.")),
              optional(integer("hidden", nullptr, 1, "Width; a multiple of heads.")),
              optional(boolean("tieWeights", true, "The output shares the embedding's weights.")),
              optional(at_most(number("dropout", nullptr, 0, "Share of what is dropped."), 1))},
             "A GPT-2.");
  static const Field mlp =
      object("config",
             {optional(widths(nullptr)),
              optional(choice("activation", nullptr, {"relu", "gelu", "tanh", "sigmoid"},
                              "Between layers."))},
             "A stack of layers.");
  return model == "gpt2" ? &gpt2 : model == "mlp" ? &mlp : nullptr;
}

const Field& schema() {
  static const Field root = build();
  return root;
}

std::string api_document() {
  std::string out =
      "# TrainingJob: all fields\n\nGenerated by `muster-api-doc` from common/job/schema.cpp.\n\n"
      "| field | type | default | meaning |\n|---|---|---|---|\n";
  for (const auto& f : schema().fields) describe_field(f, "", out);
  return out;
}

}  // namespace muster::job
