"""What Kubernetes does to pods: eviction, memory, images, nodes, quotas, names that are taken."""

import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster  # noqa: E402

PLACE = "faults"
LONG = {"epochs": 100000}


def kubectl(*arguments, **options):
    return cluster.kubectl("--namespace", PLACE, *arguments, **options)


def pods(name, **labels):
    selector = ",".join([f"muster.dev/job-name={name}"] + [f"muster.dev/{k}={v}" for k, v in labels.items()])
    return cluster.listed("pods", PLACE, selector)


def condition(name, kind):
    return cluster.condition(cluster.status(name, PLACE), kind)


def running(job):
    cluster.apply(job, namespace=PLACE)
    return cluster.wait_phase(job["metadata"]["name"], PLACE, "Running")


def on_nodes(*nodes):
    """Fields of the spec that place the workers on these nodes, apart where they can be, and the coordinator on node0."""
    apart = {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {
        "matchLabels": {"muster.dev/role": "worker"}}}}
    there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [there]}},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return {"workers": {"template": {"spec": {"containers": [cluster.ONE_THREAD], "affinity": affinity}}},
            "coordinator": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "node0"}}}}}


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.installed()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__(None, None, None)

    def tearDown(self):
        kubectl("delete", "tj", "--all", "--timeout=60s")

    def test_an_evicted_worker_is_replaced(self):
        running(cluster.penguins("evicted", training=LONG))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": "evicted-worker-0-0", "namespace": PLACE}}
        kubectl("create", "--raw", f"/api/v1/namespaces/{PLACE}/pods/evicted-worker-0-0/eviction", "-f", "-",
                input=json.dumps(eviction))
        cluster.wait_for("the replacement runs", lambda: [
            pod for pod in pods("evicted", index=0, incarnation=1) if pod["status"]["phase"] == "Running"])
        status = cluster.status("evicted", PLACE)
        self.assertEqual((1, 0), (status["attempt"], status["restarts"]))

    def test_out_of_memory_is_told(self):
        job = cluster.penguins("hungry", training=LONG, runPolicy={"backoffLimit": 0})
        job["spec"]["workers"]["template"] = {"spec": {"containers": [
            {**cluster.ONE_THREAD, "resources": {"limits": {"memory": "20Mi"}}}]}}
        cluster.apply(job, namespace=PLACE)
        failed = cluster.wait_for("it fails", lambda: condition("hungry", "Failed"))
        self.assertEqual("BackoffLimitExceeded", failed["reason"])
        self.assertEqual("OutOfMemory", cluster.status("hungry", PLACE)["attempts"][-1]["reason"])

    def test_a_missing_image_is_told_and_may_come(self):
        job = cluster.penguins("imageless", runPolicy={"preRunningDeadlineSeconds": 30})
        job["spec"]["workers"]["template"] = {"spec": {"containers": [
            {"name": "trainer", "image": "localhost/absent:1"}]}}
        cluster.apply(job, namespace=PLACE)
        scheduled = cluster.wait_for("it is told", lambda: condition("imageless", "Scheduled"))
        self.assertEqual(("False", "ImagePullFailed"), (scheduled["status"], scheduled["reason"]))
        self.assertIn("imageless-worker-", scheduled["message"])
        failed = cluster.wait_for("the deadline", lambda: condition("imageless", "Failed"))
        self.assertEqual("PreRunningDeadlineExceeded", failed["reason"])

    def test_a_quota_that_refuses_pods(self):
        kubectl("create", "quota", "few", "--hard=pods=2")
        try:
            cluster.apply(cluster.penguins("many"), namespace=PLACE)
            scheduled = cluster.wait_for("it is told", lambda: condition("many", "Scheduled"))
            self.assertEqual(("False", "PodCreateFailed"), (scheduled["status"], scheduled["reason"]))
            self.assertIn("exceeded quota: few", scheduled["message"])
            self.assertIn("FailedToCreatePods", kubectl("describe", "tj", "many"))
            kubectl("patch", "quota", "few", "--type=merge", "--patch", '{"spec": {"hard": {"pods": "10"}}}')
            status = cluster.wait_phase("many", PLACE, "Succeeded")
            self.assertEqual(1, status["attempt"])
        finally:
            kubectl("delete", "quota", "few")

    def test_names_that_belong_to_others(self):
        kubectl("create", "service", "clusterip", "taken", "--tcp=80:80")
        before = cluster.get("service", "taken", PLACE)
        cluster.apply(cluster.penguins("taken"), namespace=PLACE)
        scheduled = cluster.wait_for("it is told", lambda: condition("taken", "Scheduled"))
        self.assertEqual("NameTaken", scheduled["reason"])
        self.assertIn("is not this job's", scheduled["message"])
        self.assertEqual(before, cluster.get("service", "taken", PLACE))
        self.assertEqual([], pods("taken"))
        kubectl("delete", "service", "taken")
        cluster.wait_phase("taken", PLACE, "Succeeded")

    def test_a_pods_name_that_belongs_to_another(self):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shadow-worker-1-0"}, "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "other", "image": "localhost/busybox:1", "command": ["sleep", "1000"],
                            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
            "terminationGracePeriodSeconds": 1}}
        cluster.apply(pod, namespace=PLACE)
        uid = cluster.get("pod", "shadow-worker-1-0", PLACE)["metadata"]["uid"]
        cluster.apply(cluster.penguins("shadow"), namespace=PLACE)
        scheduled = cluster.wait_for("it is told", lambda: condition("shadow", "Scheduled"))
        self.assertEqual("NameTaken", scheduled["reason"])
        self.assertEqual(uid, cluster.get("pod", "shadow-worker-1-0", PLACE)["metadata"]["uid"])
        kubectl("delete", "pod", "shadow-worker-1-0")
        cluster.wait_phase("shadow", PLACE, "Succeeded")

    def test_a_resource_that_only_some_nodes_have(self):
        job = cluster.penguins("gpu", training={"epochs": 5})
        job["spec"]["workers"]["template"] = {"spec": {"containers": [
            {**cluster.ONE_THREAD, "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
        cluster.apply(job, namespace=PLACE)
        scheduled = cluster.wait_for("it is told", lambda: condition("gpu", "Scheduled"))
        self.assertEqual("Unschedulable", scheduled["reason"])
        self.assertIn("nvidia.com/gpu", scheduled["message"])
        patch = '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "2"}]'
        cluster.kubectl("patch", "node", "node1", "--subresource=status", "--type=json", "--patch", patch)
        try:
            cluster.wait_phase("gpu", PLACE, "Succeeded")
            self.assertEqual({"node1"}, {pod["spec"]["nodeName"] for pod in pods("gpu", role="worker")})
        finally:
            cluster.kubectl("patch", "node", "node1", "--subresource=status", "--type=json", "--patch",
                            '[{"op": "remove", "path": "/status/capacity/nvidia.com~1gpu"}]')

    def test_a_drained_node(self):
        running(cluster.penguins("moved", training=LONG, **on_nodes("node1", "node2")))
        node = pods("moved", role="worker", index=0)[0]["spec"]["nodeName"]
        cluster.kubectl("cordon", node)
        try:
            cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
                            "--pod-selector=muster.dev/job-name=moved,muster.dev/role=worker", "--timeout=60s")
            cluster.wait_for("all workers run elsewhere", lambda: {
                pod["spec"].get("nodeName") for pod in pods("moved", role="worker") if pod["status"]["phase"] == "Running"
            } not in ({node}, {"node1", "node2"}, set()) and len([
                pod for pod in pods("moved", role="worker") if pod["status"]["phase"] == "Running"]) == 2)
            self.assertEqual(0, cluster.status("moved", PLACE)["failures"]
                             if "failures" in cluster.status("moved", PLACE) else 0)
        finally:
            cluster.kubectl("uncordon", node)

    # Its worker is dead at once; that the node is lost shows after 10 s, and its pod goes after 30 s of toleration.
    def test_a_lost_node(self):
        running(cluster.penguins("orphan", training=LONG, **on_nodes("node1", "node2")))
        lost = {pod["metadata"]["uid"] for pod in pods("orphan")}
        script = cluster.ROOT / "tests/cluster/node-fault.sh"
        subprocess.run([script, "stop", "2"], check=True)
        try:
            cluster.wait_for("two other workers run on node1", lambda: len([
                pod for pod in pods("orphan", role="worker") if pod["spec"].get("nodeName") == "node1"
                and pod["metadata"]["uid"] not in lost and pod["status"]["phase"] == "Running"]) == 2, 200)
            cluster.wait_phase("orphan", PLACE, "Running")
        finally:
            subprocess.run([script, "start", "2"], check=True)
            cluster.kubectl("wait", "--for=condition=Ready", "node/node2", "--timeout=60s")


if __name__ == "__main__":
    unittest.main()
