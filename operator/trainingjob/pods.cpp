#include "operator/trainingjob/pods.h"

#include <algorithm>

#include "operator/trainingjob/merge.h"
#include "operator/trainingjob/names.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

constexpr char default_output[] = "/output";

json labels_of(const JobObject& job, Role role, std::int64_t index, std::int64_t incarnation,
               std::int64_t attempt) {
  return {{label_managed_by, managed_by},
          {"app.kubernetes.io/name", std::string("muster-") + name_of(role)},
          {label_job, job.name},
          {label_job_uid, job.uid},
          {label_role, name_of(role)},
          {label_index, std::to_string(index)},
          {label_incarnation, std::to_string(incarnation)},
          {label_attempt, std::to_string(attempt)}};
}

json owner_of(const JobObject& job) {
  return json::array({{{"apiVersion", api_version},
                       {"kind", "TrainingJob"},
                       {"name", job.name},
                       {"uid", job.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

json field_env(const char* name, const char* path) {
  return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
}

json token_env(const AttemptContext& context) {
  return {{"name", "MUSTER_TOKEN"},
          {"valueFrom",
           {{"secretKeyRef",
             {{"name", token_name(context.job.name, context.attempt)}, {"key", "token"}}}}}};
}

json container_security() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", {"ALL"}}}}};
}

json toleration(const char* taint, int seconds) {
  return {{"key", taint},
          {"operator", "Exists"},
          {"effect", "NoExecute"},
          {"tolerationSeconds", seconds}};
}

// What both kinds of pod have in common. A lost node is answered after 30 s, not the default 300.
json common_spec(const job::Spec& spec) {
  json pod{{"restartPolicy", "Never"},
           {"automountServiceAccountToken", false},
           {"enableServiceLinks", false},
           {"terminationGracePeriodSeconds", spec.run_policy.termination_grace_period_seconds},
           {"securityContext",
            {{"runAsNonRoot", true},
             {"runAsUser", 65532},
             {"runAsGroup", 65532},
             {"fsGroup", 65532},
             {"fsGroupChangePolicy", "OnRootMismatch"},
             {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
           {"tolerations",
            {toleration("node.kubernetes.io/not-ready", 30),
             toleration("node.kubernetes.io/unreachable", 30)}}};
  const auto& scheduling = spec.run_policy.scheduling_policy;
  if (!scheduling.priority_class_name.empty()) {
    pod["priorityClassName"] = scheduling.priority_class_name;
  }
  return pod;
}

json mounts_of(const json& pod_template, const std::string& container) {
  const auto spec = pod_template.value("spec", json::object());
  if (!spec.is_object()) return json::array();
  for (const auto& candidate : spec.value("containers", json::array())) {
    if (candidate.is_object() && candidate.value("name", "") == container) {
      return candidate.value("volumeMounts", json::array());
    }
  }
  return json::array();
}

void add_scratch(json& spec, json& container, const std::string& name, const std::string& path,
                 const json& volume) {
  spec["volumes"].push_back({{"name", name}, {"emptyDir", volume}});
  container["volumeMounts"].push_back({{"name", name}, {"mountPath", path}});
}

// The coordinator publishes checkpoints: it needs the folder, and finds it where the workers do.
json coordinator_template(const job::Spec& spec) {
  auto own = spec.coordinator_template;
  if (!own.is_object()) own = json::object();
  const auto mounts = mounts_of(spec.workers.pod_template, "trainer");
  const bool inherits =
      !spec.checkpoint.path.empty() && !mounts.empty() && mounts_of(own, "coordinator").empty();
  if (!inherits) return own;
  const auto volumes = spec.workers.pod_template["spec"].value("volumes", json::array());
  return strategic_merge(
      {{"spec",
        {{"volumes", volumes},
         {"containers", {{{"name", "coordinator"}, {"volumeMounts", mounts}}}}}}},
      own);
}

json coordinator_container(const AttemptContext& context, const PodSlot& slot) {
  const auto port = [](const char* name, int number) {
    return json{{"name", name}, {"containerPort", number}};
  };
  return {
      {"name", "coordinator"},
      {"image", context.images.coordinator},
      {"imagePullPolicy", context.images.pull_policy},
      {"command", {"/usr/local/bin/muster-coordinator"}},
      {"args",
       {"--listen", "0.0.0.0:" + std::to_string(rank_port), "--http",
        "0.0.0.0:" + std::to_string(state_port), "--job-uid", context.job.uid, "--epoch",
        std::to_string(slot.incarnation + 1), "--attempt", std::to_string(context.attempt),
        "--termination-message", "/dev/termination-log", "--json-logs"}},
      {"ports", {port("ranks", rank_port), port("http", state_port)}},
      {"env",
       {token_env(context), field_env("MUSTER_SPEC", "metadata.annotations['muster.dev/spec']")}},
      {"resources", {{"requests", {{"cpu", "50m"}, {"memory", "32Mi"}}}}},
      {"securityContext", container_security()},
      {"volumeMounts", json::array()}};
}

json worker_container(const AttemptContext& context) {
  const auto& spec = context.resolved.spec;
  return {{"name", "trainer"},
          {"image", context.images.trainer},
          {"imagePullPolicy", context.images.pull_policy},
          {"command", {"/usr/local/bin/muster-trainer"}},
          {"args",
           {"--coordinator", context.coordinator_ip + ":" + std::to_string(rank_port), "--pod",
            "$(POD_NAME)", "--pod-uid", "$(POD_UID)", "--host", "$(POD_IP)", "--ranks",
            std::to_string(spec.workers.devices_per_worker.value_or(1)), "--output", spec.output,
            "--metrics", "0.0.0.0:" + std::to_string(metrics_port), "--connect-seconds", "600",
            "--json-logs"}},
          {"ports", {{{"name", "metrics"}, {"containerPort", metrics_port}}}},
          {"env",
           {token_env(context),
            field_env("POD_NAME", "metadata.name"),
            field_env("POD_UID", "metadata.uid"),
            field_env("POD_IP", "status.podIP"),
            // As many threads as the limit allows: on a large node they would wait for each other.
            {{"name", "OMP_NUM_THREADS"},
             {"valueFrom", {{"resourceFieldRef", {{"resource", "limits.cpu"}}}}}},
            {{"name", "HOME"}, {"value", "/tmp"}}}},
          // The last lines of a trainer that failed say why.
          {"terminationMessagePolicy", "FallbackToLogsOnError"},
          {"securityContext", container_security()},
          {"volumeMounts", json::array()}};
}

json coordinator_spec(const AttemptContext& context, const PodSlot& slot) {
  const auto& spec = context.resolved.spec;
  auto pod = common_spec(spec);
  pod["volumes"] = json::array();
  auto container = coordinator_container(context, slot);
  add_scratch(pod, container, "tmp", "/tmp", json::object());
  pod["containers"] = json::array({container});
  // No worker's death should take the coordinator along, and no worker's load slow it.
  pod["affinity"] = {
      {"podAntiAffinity",
       {{"preferredDuringSchedulingIgnoredDuringExecution",
         {{{"weight", 50},
           {"podAffinityTerm",
            {{"topologyKey", "kubernetes.io/hostname"},
             {"labelSelector",
              {{"matchLabels", {{label_job, context.job.name}, {label_role, "worker"}}}}}}}}}}}}};
  return pod;
}

json worker_spec(const AttemptContext& context) {
  const auto& spec = context.resolved.spec;
  auto pod = common_spec(spec);
  pod["volumes"] = json::array();
  auto container = worker_container(context);
  add_scratch(pod, container, "tmp", "/tmp", json::object());
  add_scratch(pod, container, "shm", "/dev/shm", {{"medium", "Memory"}});
  if (!on_volume(spec, spec.output)) {
    add_scratch(pod, container, "output", spec.output, json::object());
  }
  pod["containers"] = json::array({container});
  return pod;
}

// The path, or a folder above it.
bool covers(const std::string& mount, const std::string& path) {
  return path == mount ||
         (path.starts_with(mount) && (mount.ends_with('/') || path[mount.size()] == '/'));
}

}  // namespace

bool on_volume(const job::Spec& spec, const std::string& path) {
  for (const auto& mount : mounts_of(spec.workers.pod_template, "trainer")) {
    if (!mount.is_object() || !mount.contains("mountPath")) continue;
    if (mount["mountPath"].is_string() && covers(mount["mountPath"], path)) return true;
  }
  return false;
}

job::TrainingJob as_run(job::TrainingJob job) {
  if (job.spec.output.empty()) job.spec.output = default_output;
  if (!on_volume(job.spec, job.spec.checkpoint.path)) job.spec.checkpoint.path.clear();
  return job;
}

json make_pod(const AttemptContext& context, const PodSlot& slot) {
  const auto& spec = context.resolved.spec;
  const bool leads = slot.role == Role::coordinator;
  json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata",
            {{"labels",
              labels_of(context.job, slot.role, slot.index, slot.incarnation, context.attempt)}}},
           {"spec", leads ? coordinator_spec(context, slot) : worker_spec(context)}};
  pod = strategic_merge(pod, leads ? coordinator_template(spec) : spec.workers.pod_template);
  // What identifies the pod is not the template's to say.
  auto& metadata = pod["metadata"];
  metadata["name"] = pod_name(context.job.name, slot.role, slot.index, slot.incarnation);
  metadata["namespace"] = context.job.name_space;
  metadata["ownerReferences"] = owner_of(context.job);
  metadata["labels"].update(
      labels_of(context.job, slot.role, slot.index, slot.incarnation, context.attempt));
  if (leads) metadata["annotations"][annotation_spec] = job::to_json(context.resolved).dump();
  pod["spec"]["restartPolicy"] = "Never";
  return pod;
}

json make_service(const JobObject& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata",
           {{"name", job.name},
            {"namespace", job.name_space},
            {"labels", {{label_managed_by, managed_by}, {label_job, job.name}}},
            {"ownerReferences", owner_of(job)}}},
          {"spec",
           {{"selector", {{label_job_uid, job.uid}, {label_role, "coordinator"}}},
            {"ports",
             {{{"name", "ranks"}, {"port", rank_port}, {"targetPort", rank_port}},
              {{"name", "http"}, {"port", state_port}, {"targetPort", state_port}}}}}}};
}

json make_token_secret(const JobObject& job, std::int64_t attempt, const std::string& token) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"immutable", true},
          {"metadata",
           {{"name", token_name(job.name, attempt)},
            {"namespace", job.name_space},
            {"labels", {{label_managed_by, managed_by}, {label_job, job.name}}},
            {"ownerReferences", owner_of(job)}}},
          {"stringData", {{"token", token}}}};
}

json make_network_policy(const std::string& name_space, const std::string& operator_namespace) {
  const json ours{{"matchLabels", {{label_managed_by, managed_by}}}};
  const json the_operator{
      {"namespaceSelector",
       {{"matchLabels", {{"kubernetes.io/metadata.name", operator_namespace}}}}},
      {"podSelector", {{"matchLabels", {{"app.kubernetes.io/name", "muster-operator"}}}}}};
  const json prometheus{
      {"namespaceSelector", json::object()},
      {"podSelector", {{"matchLabels", {{"app.kubernetes.io/name", "prometheus"}}}}}};
  return {{"apiVersion", "networking.k8s.io/v1"},
          {"kind", "NetworkPolicy"},
          {"metadata",
           {{"name", "muster"},
            {"namespace", name_space},
            {"labels", {{label_managed_by, managed_by}}}}},
          {"spec",
           {{"podSelector", ours},
            {"policyTypes", {"Ingress"}},
            {"ingress", {{{"from", {{{"podSelector", ours}}, the_operator, prometheus}}}}}}}};
}

std::string worker_selector(const std::string& job) {
  return std::string(label_job) + "=" + job + "," + label_role + "=worker";
}

}  // namespace muster::trainingjob
