#include "common/job/job.h"

namespace muster::job {
namespace {

Error later(const std::string& what) {
  return {Code::unsupported, what + " comes with a later version of Muster"};
}

Status check_strategy(const Spec& spec) {
  switch (spec.strategy.type) {
    case StrategyType::async:
      return later("strategy async");
    case StrategyType::zero:
      return later("strategy zero");
    case StrategyType::hybrid:
      return later("strategy hybrid");
    case StrategyType::sync:
    case StrategyType::automatic:
      break;
  }
  if (spec.strategy.sync.compression != "none") return later("strategy.sync.compression");
  if (spec.strategy.sync.local_steps != 1) return later("strategy.sync.localSteps above 1");
  return {};
}

Status check_model(const Model& model) {
  if (model.hugging_face) return later("model.huggingFace");
  if (model.plugin) return later("model.plugin");
  if (model.external) return later("model.external");
  if (model.builtin && model.builtin->name != "mlp" && model.builtin->name != "gpt2") {
    return later("the model " + model.builtin->name);
  }
  return {};
}

}  // namespace

Status check_supported(const TrainingJob& job) {
  const auto& spec = job.spec;
  MUSTER_CHECK_OK(check_strategy(spec));
  MUSTER_CHECK_OK(check_model(spec.model));
  const auto& format = spec.data.format;
  if (format != "csv" && format != "text" && format != "tokens")
    return later("the format " + format);
  if (!spec.data.tokenizer.empty()) return later("data.tokenizer");
  const auto& precision = spec.training.precision;
  if (precision != "fp32" && precision != "auto") return later("precision " + precision);
  if (spec.training.reproducibility == "bitwise") return later("reproducibility bitwise");
  if (spec.workers.devices_per_worker.value_or(1) != 1)
    return later("workers.devicesPerWorker above 1");
  if (spec.workers.network != "default") return later("workers.network rdma");
  if (!spec.checkpoint.resume_from.empty()) return later("checkpoint.resumeFrom");
  if (!spec.profile.empty()) return later("profile " + spec.profile);
  if (spec.run_policy.scheduling_policy.gang != "none") return later("gang scheduling");
  if (spec.elastic_policy && spec.elastic_policy->autoscaling != "none")
    return later("autoscaling");
  return {};
}

}  // namespace muster::job
