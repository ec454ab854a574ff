#include "operator/trainingjob/conditions.h"

#include <cmath>
#include <cstdio>

#include "common/json_fields.h"
#include "operator/kube/time.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

// Kubernetes' API has no floats worth the name: figures are text of four digits.
std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

void put_figure(json& to, const char* name, const json& from, const char* source) {
  const double value = number_field(from, source, std::nan(""));
  if (std::isfinite(value)) to[name] = figure(value);
}

}  // namespace

bool set_condition(JobStatus& status, const std::string& type, bool value,
                   const std::string& reason, const std::string& message, double now) {
  for (auto& condition : status.conditions) {
    if (condition.type != type) continue;
    const bool changed = condition.status != value || condition.reason != reason;
    if (condition.status != value) condition.transition = now;
    condition.status = value;
    condition.reason = reason;
    condition.message = message;
    condition.observed_generation = status.observed_generation;
    return changed;
  }
  status.conditions.push_back({type, value, reason, message, now, status.observed_generation});
  return true;
}

bool clear_condition(JobStatus& status, const std::string& type, const std::string& reason,
                     double now) {
  if (status.find(type) == nullptr || !status.is(type)) return false;
  return set_condition(status, type, false, reason, "", now);
}

void count_pods(const job::Spec& spec, const Observed& observed, JobStatus& status) {
  status.workers = {spec.workers.replicas, 0, 0, 0, 0};
  status.coordinator = {1, 0, 0, 0, 0};
  for (const auto& pod : observed.pods) {
    if (pod->attempt != status.attempt) continue;
    auto& counts = pod->role == Role::worker ? status.workers : status.coordinator;
    switch (pod->phase) {
      case PodObject::Phase::succeeded:
        ++counts.succeeded;
        break;
      case PodObject::Phase::failed:
        ++counts.failed;
        break;
      case PodObject::Phase::pending:
      case PodObject::Phase::running:
        if (pod->deleting) break;
        ++counts.active;
        if (pod->ready) ++counts.ready;
        break;
    }
  }
}

void take_state(const json& state, JobStatus& status, double now) {
  if (!state.is_object()) return;
  if (const auto generation = state.find("generation");
      generation != state.end() && generation->is_object()) {
    status.generation = integer_field(*generation, "n", status.generation);
  }
  if (const auto result = state.find("result"); result != state.end() && result->is_object()) {
    json kept = json::object();
    for (const char* name : {"parametersSha256", "steps", "samples"}) {
      if (result->contains(name)) kept[name] = (*result)[name];
    }
    put_figure(kept, "finalLoss", *result, "finalLoss");
    if (const auto validation = result->find("validation");
        validation != result->end() && validation->is_object()) {
      put_figure(kept, "validationLoss", *validation, "loss");
      put_figure(kept, "validationAccuracy", *validation, "accuracy");
    }
    status.result = kept;
  }
  const auto progress = state.find("progress");
  if (progress == state.end() || !progress->is_object()) return;
  auto& p = status.progress;
  const auto step = integer_field(*progress, "step", 0);
  if (step > integer_field(p, "step", -1)) p["lastStepTime"] = kube::format_time(now);
  p["step"] = step;
  const auto total = integer_field(*progress, "totalSteps", 0);
  if (total > 0) {
    p["totalSteps"] = total;
    p["percentage"] = step * 100 / total;
  }
  if (progress->contains("epoch")) p["epoch"] = integer_field(*progress, "epoch", 0);
  put_figure(p, "loss", *progress, "loss");
  put_figure(p, "validationLoss", *progress, "validationLoss");
  put_figure(p, "samplesPerSecond", *progress, "samplesPerSecond");
  const auto checkpoint = integer_field(state, "checkpointStep", -1);
  if (checkpoint >= 0) p["checkpointStep"] = checkpoint;
}

}  // namespace muster::trainingjob
