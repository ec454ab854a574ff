// What one field's schema cannot say, in CEL. The same rules in C++: common/job/parse.cpp. A rule
// on an optional field is skipped when the field comes or goes, so rules on such fields stand at
// what holds them, with has().
#include "operator/crd/crd.h"

namespace muster::crd {
namespace {

using nlohmann::ordered_json;

void rule(ordered_json& schema, const std::string& expression, const std::string& message) {
  schema["x-kubernetes-validations"].push_back({{"rule", expression}, {"message", message}});
}

// `path` below self is there and holds something.
std::string holds(const std::string& path) {
  return "(has(self." + path + ") && size(self." + path + ") > 0)";
}

void model_rules(ordered_json& spec) {
  rule(spec["properties"]["model"],
       "[has(self.tabular), has(self.builtin), has(self.huggingFace), has(self.plugin), "
       "has(self.external)].filter(one, one).size() == 1",
       "must have exactly one of tabular, builtin, huggingFace, plugin and external; for a CSV "
       "write "
       "tabular: {}");
  rule(spec, "!has(self.model.tabular) || self.data.format in ['csv', 'parquet']",
       "data.format: model.tabular reads csv or parquet");
  rule(spec,
       "!(has(self.model.builtin) && self.model.builtin.name in ['gpt2', 'llama'] && "
       "self.data.format == 'csv')",
       "data.format is csv, but gpt2 and llama read text, tokens or jsonl");
}

void data_rules(ordered_json& spec) {
  auto& data = spec["properties"]["data"];
  rule(data, "!has(self.tokenBits) || self.tokenBits in [16, 32]", "tokenBits must be 16 or 32");
  rule(data,
       "!(" + holds("validation") +
           " && has(self.validationFraction) && self.validationFraction > 0.0)",
       "validation and validationFraction exclude each other; keep one");
  const std::string validates =
      "(" + holds("data.validation") +
      " || (has(self.data.validationFraction) && self.data.validationFraction > 0.0))";
  const std::string needs =
      " needs validation data; set data.validation or data.validationFraction";
  rule(spec, validates + " || !has(self.training.earlyStopping)", "training.earlyStopping" + needs);
  rule(spec,
       validates +
           " || !has(self.training.schedule) || !has(self.training.schedule.type) || "
           "self.training.schedule.type != 'plateau'",
       "training.schedule.type plateau" + needs);
  rule(spec,
       validates +
           " || !has(self.checkpoint) || !has(self.checkpoint.keepBest) || "
           "self.checkpoint.keepBest == ''",
       "checkpoint.keepBest" + needs);
}

void training_rules(ordered_json& spec) {
  auto& training = spec["properties"]["training"];
  rule(training, "has(self.epochs) != has(self.steps)",
       "must have exactly one of epochs and steps; for example epochs: 10");
  rule(training, "!(has(self.globalBatchSize) && has(self.perWorkerBatchSize))",
       "globalBatchSize and perWorkerBatchSize exclude each other; keep one");
  rule(training["properties"]["optimizer"],
       "!has(self.betas) || (size(self.betas) == 2 && self.betas.all(b, b < 1.0))",
       "betas must be two numbers in [0, 1), such as [0.9, 0.999]");
}

void worker_rules(ordered_json& spec) {
  rule(spec,
       "!has(self.servers) || !has(self.servers.replicas) || self.servers.replicas == 0 || "
       "(has(self.strategy) && has(self.strategy.type) && self.strategy.type in ['async', "
       "'hybrid'])",
       "servers.replicas must be 0 unless strategy.type is async or hybrid");
  const std::string least =
      "(has(self.elasticPolicy.minReplicas) ? self.elasticPolicy.minReplicas : 1)";
  const std::string most =
      "(has(self.elasticPolicy.maxReplicas) ? self.elasticPolicy.maxReplicas : 1)";
  const std::string now = "self.workers.replicas";
  rule(spec, "!has(self.elasticPolicy) || " + least + " <= " + most,
       "elasticPolicy.minReplicas must be at most maxReplicas");
  rule(spec,
       "!has(self.elasticPolicy) || " + least + " > " + most + " || (" + least + " <= " + now +
           " && " + now + " <= " + most + ")",
       "workers.replicas must lie between elasticPolicy.minReplicas and maxReplicas");
  rule(spec["properties"]["failurePolicy"]["properties"]["rules"]["items"],
       holds("onExitCodes") + " || " + holds("onReasons"),
       "matches nothing; give it onExitCodes or onReasons");
}

// The field came, went or changed: refused.
std::string unchanged(const std::string& name) {
  return "has(self." + name + ") == has(oldSelf." + name + ") && (!has(self." + name +
         ") || self." + name + " == oldSelf." + name + ")";
}

void immutability(ordered_json& spec) {
  const std::string remedy =
      " may not change while the job lives; delete the job and create another";
  for (const char* name : {"strategy", "model", "data"}) rule(spec, unchanged(name), name + remedy);
  auto& training = spec["properties"]["training"];
  for (const auto& [name, ignored] : training["properties"].items()) {
    if (name == "epochs" || name == "steps") continue;
    rule(training, unchanged(name), name + remedy);
  }
  rule(spec,
       "(has(self.checkpoint) && has(self.checkpoint.path) ? self.checkpoint.path : '') == "
       "(has(oldSelf.checkpoint) && has(oldSelf.checkpoint.path) ? oldSelf.checkpoint.path : '')",
       "checkpoint.path" + remedy);
  rule(spec, "has(self.elasticPolicy) || self.workers.replicas == oldSelf.workers.replicas",
       "workers.replicas may change only with an elasticPolicy; add one with minReplicas and "
       "maxReplicas");
}

}  // namespace

void add_rules(ordered_json& spec) {
  model_rules(spec);
  data_rules(spec);
  training_rules(spec);
  worker_rules(spec);
  immutability(spec);
}

}  // namespace muster::crd
