#include "common/job/fields.h"
#include "operator/crd/crd.h"

namespace muster::crd {
namespace {

using job::Field;
using job::Type;
using namespace job::fields;  // NOLINT(google-build-using-namespace)

Field text(const char* name, const char* description) {
  return string(name, nullptr, description);
}
Field time(const char* name, const char* description) {
  auto f = text(name, description);
  f.format = "date-time";
  return f;
}
Field count(const char* name, const char* description) {
  return integer(name, nullptr, 0, description);
}

Field conditions() {
  Field f =
      up_to(32, list("conditions", Type::object, nullptr,
                     "Valid, Durable, Scheduled, Running, ProgressStalled, Suspended, SpecDrift, "
                     "Succeeded, Failed."));
  f.key = "type";
  f.fields = {required(text("type", "What is true or not.")),
              required(choice("status", nullptr, {"True", "False", "Unknown"}, "Whether it is.")),
              required(text("reason", "Why, in CamelCase.")),
              up_to(32768, text("message", "Why, for a person.")),
              required(time("lastTransitionTime", "When the status changed.")),
              count("observedGeneration", "Of the spec that it is about.")};
  return f;
}

Field replicas(const char* name) {
  return object(
      name,
      {count("desired", "Pods that should be there."), count("active", "Pods that have not ended."),
       count("ready", "Pods that are ready."), count("succeeded", "Pods that finished."),
       count("failed", "Pods that failed.")},
      "Pods of this role in the current attempt.");
}

Field attempts() {
  Field f = up_to(10, list("attempts", Type::object, nullptr, "The last attempts that are over."));
  f.fields = {count("number", "1 is the first."),
              time("startTime", "When its pods were asked for."),
              time("endTime", "When it was over."),
              text("reason", "Why, in CamelCase."),
              text("pod", "The pod that failed first."),
              text("node", "Where it ran."),
              integer("exitCode", nullptr, -1, "Of the process; 128 + n: killed by signal n."),
              count("lastStep", "The last step that was reported."),
              text("message", "Why, for a person.")};
  return f;
}

Field progress() {
  return object(
      "progress",
      {count("step", "Steps that are done."), count("totalSteps", "Steps that the run has."),
       count("epoch", "Passes that are done."), count("percentage", "Of the steps."),
       text("loss", "Of the last reported step."),
       text("validationLoss", "Of the last validation."),
       text("samplesPerSecond", "Over all workers."),
       count("checkpointStep", "Step of the newest checkpoint."),
       time("lastStepTime", "When a new step was last seen.")},
      "How far the training is.");
}

Field result() {
  return object(
      "result",
      {text("parametersSha256", "Of the final parameters, in the order of their names."),
       count("steps", "Steps that were done."), count("samples", "Samples that were seen."),
       text("finalLoss", "Of the last step."), text("validationLoss", "Of the last validation."),
       text("validationAccuracy", "Of the last validation.")},
      "What the run came to.");
}

Field build() {
  return object(
      "status",
      {
          count("observedGeneration", "Of the spec that this status is about."),
          choice(
              "phase", nullptr,
              {"Pending", "Starting", "Running", "Restarting", "Suspended", "Succeeded", "Failed"},
              "For people; programs read the conditions."),
          text("message", "What a person should know now."),
          conditions(),
          time("startTime", "When the job was begun, or resumed."),
          time("completionTime", "When it succeeded or failed."),
          text("specHash", "SHA-256 of what may not change while the job lives."),
          object("strategy",
                 {text("effective", "The strategy that trains."), text("reason", "Why this one.")},
                 "How the workers co-operate."),
          object("replicaStatuses",
                 {replicas("worker"), replicas("server"), replicas("coordinator")},
                 "Pods, by role."),
          text("workers", "Workers that are there, of those that should be."),
          text("selector", "Of the worker pods, for the scale subresource."),
          count("attempt", "The current attempt."),
          time("nextAttemptTime", "When the next attempt may begin."),
          count("failures", "Failed attempts that count against runPolicy.backoffLimit."),
          count("restarts", "Attempts after the first."),
          {.name = "incarnations",
           .type = Type::integer_map,
           .description =
               "Of all pods (all), and of those that were replaced since; above 0 only."},
          count("generation", "Of the membership."),
          attempts(),
          progress(),
          result(),
      },
      "What is.");
}

}  // namespace

const Field& status_schema() {
  static const Field root = build();
  return root;
}

}  // namespace muster::crd
