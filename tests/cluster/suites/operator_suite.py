"""The operator itself: its rights, two replicas, restarts and upgrades with running jobs, one team's namespace."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster  # noqa: E402

PLACE = "operation"
SYSTEM = cluster.SYSTEM


def operators():
    return [pod for pod in cluster.listed("pods", SYSTEM, "app.kubernetes.io/name=muster-operator")
            if "deletionTimestamp" not in pod["metadata"]]


def holder():
    return cluster.get("lease", "muster-operator", SYSTEM)["spec"].get("holderIdentity", "").split("_")[0]


def kill(pod):
    """SIGKILL to the operator in this pod: it can give nothing back."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"POD_NAME={pod}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
                return
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    raise AssertionError(f"there is no process of {pod}")


def scrape(pod, port=8080):
    return cluster.run(cluster.ROOT / "scripts/cluster", "exec", "curl", "-sf", f"http://{pod['status']['podIP']}:{port}/metrics")


class Operator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.install()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__(None, None, None)
        cluster.install()

    def tearDown(self):
        cluster.kubectl("--namespace", PLACE, "delete", "tj", "--all", "--timeout=60s")

    def running(self, name, **spec):
        cluster.apply(cluster.penguins(name, training={"epochs": 100000}, **spec), namespace=PLACE)
        return cluster.wait_phase(name, PLACE, "Running")

    def may(self, verb, what, place=PLACE, account=f"system:serviceaccount:{SYSTEM}:muster-operator"):
        what, _, part = what.partition("/")
        answer = cluster.kubectl("auth", "can-i", verb, what, *([f"--subresource={part}"] if part else []),
                                 "--namespace", place, "--as", account, check=False)
        return answer.strip() == "yes"

    def test_it_may_do_no_more_than_it_must(self):
        for verb, what in [("create", "secrets"), ("create", "pods"), ("delete", "pods"), ("update", "trainingjobs/status"),
                           ("watch", "trainingjobs")]:
            self.assertTrue(self.may(verb, what), f"{verb} {what}")
        for verb, what in [("get", "secrets"), ("list", "secrets"), ("watch", "secrets"), ("update", "secrets"),
                           ("delete", "secrets"), ("create", "pods/exec"), ("get", "nodes"), ("list", "nodes"),
                           ("update", "trainingjobs"), ("delete", "namespaces"), ("create", "deployments"),
                           ("create", "clusterroles"), ("impersonate", "users")]:
            self.assertFalse(self.may(verb, what), f"{verb} {what}")

    def test_helm_says_it_works(self):
        self.assertIn("Succeeded", cluster.helm("test", "muster", "--namespace", SYSTEM))

    # One job of a running operator asks for nothing while it has no news, and neither does a new operator that finds it.
    def test_a_restart_writes_nothing(self):
        self.running("steady")
        self.running("stayed")
        before = {name: cluster.get("tj", name, PLACE) for name in ("steady", "stayed")}
        uids = sorted(pod["metadata"]["uid"] for pod in cluster.listed("pods", PLACE))
        old = operators()[0]["metadata"]["name"]
        asked = len(cluster.audit())
        cluster.kubectl("--namespace", SYSTEM, "delete", "pod", old, "--grace-period=0", "--force")
        cluster.wait_for("another leads", lambda: holder() not in ("", old), 60)
        time.sleep(5)  # for writes that must not come
        written = [(e["verb"], e["objectRef"].get("resource"), e["objectRef"].get("subresource"))
                   for e in cluster.writes(cluster.audit()[asked:])]
        # Progress is news: it may be written, after 15 s. Nothing else may.
        self.assertEqual([], [w for w in written if w != ("update", "trainingjobs", "status")])
        self.assertEqual(uids, sorted(pod["metadata"]["uid"] for pod in cluster.listed("pods", PLACE)))
        for name, job in before.items():
            now = cluster.status(name, PLACE)
            self.assertEqual((job["status"]["attempt"], job["status"]["conditions"]), (now["attempt"], now["conditions"]))

    def test_the_other_goes_on_when_the_leader_is_killed(self):
        cluster.install("replicas=2")
        try:
            cluster.wait_for("two are ready", lambda: sum(
                pod["status"]["containerStatuses"][0]["ready"] for pod in operators()
                if pod["status"].get("containerStatuses")) == 2)
            leader = cluster.wait_for("a leader", lambda: holder() in [
                pod["metadata"]["name"] for pod in operators()] and holder())
            self.running("before")
            kill(leader)
            start = time.monotonic()
            cluster.apply(cluster.penguins("after", training={"epochs": 2}), namespace=PLACE)
            cluster.wait_for("its pods", lambda: len(cluster.listed("pods", PLACE, "muster.dev/job-name=after")) == 3, 40)
            took = time.monotonic() - start
            print(f"a killed leader's work went on after {took:.1f} s")
            cluster.wait_phase("after", PLACE, "Succeeded")
            self.assertLess(took, 20)
            self.assertEqual(3, len(cluster.listed("pods", PLACE, "muster.dev/job-name=before")))
        finally:
            cluster.install("replicas=1")

    # A clean end releases the lease: the next one leads at once.
    def test_an_upgrade_leaves_running_jobs_alone(self):
        self.running("running")
        before = cluster.get("tj", "running", PLACE)
        uids = sorted(pod["metadata"]["uid"] for pod in cluster.listed("pods", PLACE))
        cluster.install("trainerImage.repository=localhost/other", "log.level=debug")
        try:
            cluster.apply(cluster.penguins("newer", training={"epochs": 2}), namespace=PLACE)
            told = cluster.wait_for("a new job has the new default", lambda: cluster.condition(
                cluster.status("newer", PLACE), "Scheduled").get("reason") == "ImagePullFailed")
            self.assertTrue(told)
            self.assertEqual(uids, sorted(pod["metadata"]["uid"] for pod in cluster.listed(
                "pods", PLACE, "muster.dev/job-name=running")))
            now = cluster.status("running", PLACE)
            self.assertEqual((before["status"]["attempt"], before["status"]["conditions"], before["status"]["specHash"]),
                             (now["attempt"], now["conditions"], now["specHash"]))
        finally:
            cluster.install("trainerImage.repository=localhost/muster-trainer", "log.level=info")

    def test_one_teams_operator(self):
        with cluster.namespace("muster-team") as team, cluster.namespace("others") as others:
            cluster.helm("uninstall", "muster", "--namespace", SYSTEM, "--wait")
            asked = len(cluster.audit(team))
            try:
                cluster.install("watchNamespaces={muster-team}", "crds.install=false", name="team", namespace=team)
                made = json.loads(cluster.kubectl("get", "clusterroles,clusterrolebindings", "--output", "json",
                                                  "--selector", "app.kubernetes.io/instance=team"))["items"]
                self.assertEqual([], made)
                account = f"system:serviceaccount:{team}:team-muster-operator"
                self.assertFalse(self.may("list", "pods", others, account))
                cluster.apply(cluster.penguins("theirs", training={"epochs": 2}), namespace=others)
                cluster.apply(cluster.penguins("ours", training={"epochs": 2}), namespace=team)
                cluster.wait_phase("ours", team, "Succeeded")
                self.assertEqual({}, cluster.status("theirs", others))
                refused = [e for e in cluster.audit(team)[asked:] if e["responseStatus"]["code"] == 403]
                self.assertEqual([], refused)
            finally:
                cluster.helm("uninstall", "team", "--namespace", team, "--wait", check=False)
                cluster.install()

    def test_the_example_of_a_controller(self):
        with subprocess.Popen([cluster.ROOT / "scripts/cluster", "exec", cluster.BIN / "example-controller",
                               cluster.STATE / "admin.kubeconfig", PLACE], start_new_session=True) as process:
            try:
                cluster.kubectl("--namespace", PLACE, "create", "configmap", "counted", "--from-literal=a=1",
                                "--from-literal=b=2")
                cluster.kubectl("--namespace", PLACE, "label", "configmap", "counted", "count=wanted")

                def told():
                    return cluster.get("configmap", "counted", PLACE)["metadata"].get("annotations", {}).get("keys")
                cluster.wait_for("two keys are told", lambda: told() == "2")
                cluster.kubectl("--namespace", PLACE, "annotate", "--overwrite", "configmap", "counted", "keys=7")
                cluster.wait_for("what is wrong is put right", lambda: told() == "2")
            finally:
                os.killpg(process.pid, signal.SIGTERM)
        self.assertEqual(0, process.returncode)

    def test_its_metrics(self):
        self.running("seen")
        text = scrape(operators()[0])
        for name in ("controller_runtime_reconcile_total", "workqueue_depth", "rest_client_requests_total",
                     "leader_election_master_status", "muster_build_info", "muster_jobs"):
            self.assertIn(name, text)
        done = cluster.run(cluster.ROOT / ".deps/promtool/usr/bin/promtool", "check", "metrics", input=text)
        self.assertEqual("", done)


if __name__ == "__main__":
    unittest.main()
