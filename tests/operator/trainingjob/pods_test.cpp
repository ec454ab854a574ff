#include "operator/trainingjob/pods.h"

#include <gmock/gmock.h>

#include "operator/trainingjob/merge.h"
#include "tests/operator/trainingjob/world.h"

namespace muster::trainingjob {
namespace {

using nlohmann::json;

json pod_of(World& world, const PodSlot& slot) {
  const auto parsed = job::parse(world.job().document);
  EXPECT_TRUE(parsed.ok()) << job::describe(parsed.problems, "job");
  const Images images{"op:1", "tr:1", "Never"};
  const auto resolved = as_run(parsed.job);
  return make_pod({world.job(), resolved, 3, "10.96.0.7", images}, slot);
}

TEST(Pods, MeetTheRestrictedLevel) {
  World world;
  for (const auto role : {Role::coordinator, Role::worker}) {
    const auto spec = pod_of(world, {role, 0, 0})["spec"];
    EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
    EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for (const auto& container : spec["containers"]) {
      EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
      EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], json({"ALL"}));
      EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
    }
    EXPECT_EQ(spec["automountServiceAccountToken"], false);
    EXPECT_EQ(spec["restartPolicy"], "Never");
  }
}

TEST(Pods, AreNamedAndOwned) {
  World world;
  const auto pod = pod_of(world, {Role::worker, 1, 4});
  EXPECT_EQ(pod["metadata"]["name"], "penguins-worker-1-4");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "uid-of-job");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["controller"], true);
  const auto read = pod_of_json(pod);
  EXPECT_EQ(read->member(), "worker-1");
  EXPECT_EQ(read->incarnation, 4);
  EXPECT_EQ(read->attempt, 3);
  EXPECT_EQ(read->job_key, "default/penguins");
}

TEST(Pods, TheSpecTravelsWithTheCoordinator) {
  World world;
  const auto pod = pod_of(world, {Role::coordinator, 0, 0});
  const auto spec = json::parse(pod["metadata"]["annotations"][annotation_spec].get<std::string>());
  EXPECT_EQ(spec["spec"]["data"]["train"], json({"penguins.csv"}));
  EXPECT_TRUE(job::parse(spec).ok());
}

TEST(Pods, TheTemplateIsMergedButDoesNotSayWhoThePodIs) {
  World world(
      {R"(workers.template={metadata: {labels: {team: vision, muster.dev/role: boss}, name: mine},
    spec: {nodeSelector: {gpu: h200}, restartPolicy: Always, tolerations: [{key: gpu, operator: Exists}],
    containers: [{name: trainer, env: [{name: A, value: b}], resources: {limits: {nvidia.com/gpu: 1}}}]}})"});
  const auto pod = pod_of(world, {Role::worker, 0, 0});
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "vision");
  EXPECT_EQ(pod["metadata"]["labels"][label_role], "worker");
  EXPECT_EQ(pod["metadata"]["name"], "penguins-worker-0-0");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["gpu"], "h200");
  EXPECT_EQ(pod["spec"]["tolerations"].size(), 3u);
  ASSERT_EQ(pod["spec"]["containers"].size(), 1u);
  const auto& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["image"], "tr:1");
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"], 1);
  std::set<std::string> names;
  for (const auto& variable : container["env"]) names.insert(variable["name"]);
  EXPECT_TRUE(names.contains("A") && names.contains("POD_NAME"));
}

TEST(Pods, AVariableOfTheTemplateReplacesOneOfOurs) {
  World world({R"(workers.template={spec: {containers: [{name: trainer,
    env: [{name: OMP_NUM_THREADS, value: "1"}]}]}})"});
  const auto pod = pod_of(world, {Role::worker, 0, 0});
  int found = 0;
  for (const auto& variable : pod["spec"]["containers"][0]["env"]) {
    if (variable["name"] != "OMP_NUM_THREADS") continue;
    ++found;
    EXPECT_EQ(variable, (json{{"name", "OMP_NUM_THREADS"}, {"value", "1"}}));
  }
  EXPECT_EQ(found, 1);
}

TEST(Pods, ACheckpointFolderOnNoVolumeIsNone) {
  World without({"checkpoint={path: /c}"});
  const auto parsed = job::parse(without.job().document);
  EXPECT_EQ(as_run(parsed.job).spec.checkpoint.path, "");
  World with(
      {"checkpoint={path: /c/deep}", R"(workers.template={spec: {volumes: [{name: v, emptyDir: {}}],
    containers: [{name: trainer, volumeMounts: [{name: v, mountPath: /c}]}]}})"});
  EXPECT_EQ(as_run(job::parse(with.job().document).job).spec.checkpoint.path, "/c/deep");
  // The coordinator publishes there, so it has the volume too.
  const auto pod = pod_of(with, {Role::coordinator, 0, 0});
  bool mounted = false;
  for (const auto& mount : pod["spec"]["containers"][0]["volumeMounts"])
    mounted = mounted || mount["mountPath"] == "/c";
  EXPECT_TRUE(mounted);
}

TEST(Merge, IsTheStrategicOne) {
  const json base{{"a", 1},
                  {"env", {{{"name", "X"}, {"value", "1"}}, {{"name", "Y"}, {"value", "2"}}}},
                  {"args", {"1"}}};
  const json over{
      {"a", nullptr}, {"env", {{{"name", "Y"}, {"value", "3"}}, {{"name", "Z"}}}}, {"args", {"2"}}};
  const auto merged = strategic_merge(base, over);
  EXPECT_FALSE(merged.contains("a"));
  EXPECT_EQ(merged["env"].size(), 3u);
  EXPECT_EQ(merged["env"][1]["value"], "3");
  EXPECT_EQ(merged["args"], json({"2"}));
}

json status_with(json status) {
  return {{"metadata", {{"name", "p"}, {"namespace", "n"}, {"labels", {{label_role, "worker"}}}}},
          {"status", status}};
}

TEST(PodObject, ReadsHowItEnded) {
  const auto pod = pod_of_json(status_with(
      {{"phase", "Failed"},
       {"containerStatuses",
        {{{"name", "sidecar"}, {"state", {{"terminated", {{"exitCode", 9}}}}}},
         {{"name", "trainer"},
          {"state", {{"terminated", {{"exitCode", 137}, {"reason", "OOMKilled"}}}}}}}}}));
  EXPECT_EQ(pod->exit_code, 137);
  EXPECT_TRUE(pod->out_of_memory);
  EXPECT_TRUE(pod->ended());
}

struct Disruption {
  json status;
  const char* reason;
};

TEST(PodObject, ReadsWhatDisruptedIt) {
  const auto target = [](const char* why) {
    return json{
        {"conditions", {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", why}}}}};
  };
  for (const auto& [status, reason] :
       std::vector<Disruption>{{target("EvictionByEvictionAPI"), "Evicted"},
                               {target("PreemptionByScheduler"), "Preempted"},
                               {target("DeletionByTaintManager"), "NodeLost"},
                               {{{"reason", "Evicted"}}, "Evicted"},
                               {{{"reason", "NodeShutdown"}}, "NodeLost"},
                               {json::object(), ""}}) {
    EXPECT_EQ(pod_of_json(status_with(status))->disruption, reason) << status;
  }
}

TEST(PodObject, SurvivesWhatIsNoPod) {
  for (const auto& odd : {json(), json::array(), json{{"metadata", nullptr}},
                          status_with({{"conditions", nullptr}})}) {
    EXPECT_EQ(pod_of_json(odd.is_object() ? odd : json::object())->job_uid, "");
  }
}

}  // namespace
}  // namespace muster::trainingjob
