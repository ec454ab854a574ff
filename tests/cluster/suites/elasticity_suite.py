"""Scaling, suspension and losses in mid-run: the same curve, and the same final parameters where nothing may change."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster  # noqa: E402

PLACE = "elasticity"
EPOCHS = 400  # 9 steps each; some 15 s on two cores


def losses(folder, name):
    """step -> loss of a job whose output is on the volume; a step that was done twice counts as it was last."""
    lines = (folder / name / "output/metrics.jsonl").read_text().splitlines()
    return {entry["step"]: entry["loss"] for entry in map(json.loads, lines) if "loss" in entry}


class Elasticity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.installed()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()
        cls.folder = cluster.volume("data", PLACE)
        cls.start(cls.job("calm"))
        cls.calm = cluster.wait_phase("calm", PLACE, "Succeeded", seconds=300)

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__(None, None, None)

    @staticmethod
    def job(name, **spec):
        return cluster.penguins(name, claim="data", training={"epochs": EPOCHS}, **spec)

    @staticmethod
    def start(job):
        cluster.apply(job, namespace=PLACE)

    def same_curve(self, name, steps=100):
        ours, calm = losses(self.folder, name), losses(self.folder, "calm")
        self.assertGreaterEqual(len(calm), steps)
        for step in sorted(calm)[:steps]:
            self.assertAlmostEqual(calm[step], ours[step], delta=1e-6, msg=f"step {step}")

    def scaled(self, name, replicas):
        cluster.kubectl("--namespace", PLACE, "scale", "tj", name, f"--replicas={replicas}")

    def members(self, name, count):
        """The membership has that many: the operator has seen it, and training goes on."""
        def there():
            status = cluster.status(name, PLACE)
            return status.get("phase") == "Running" and status["replicaStatuses"]["worker"]["active"] == count and status
        return cluster.wait_for(f"{name} has {count} workers", there)

    def test_scaling_in_mid_run(self):
        self.start(self.job("scaled", elasticPolicy={"minReplicas": 1, "maxReplicas": 4}))
        cluster.wait_step("scaled", PLACE, 20)
        self.scaled("scaled", 3)
        self.members("scaled", 3)
        cluster.wait_for("the third trains", lambda: cluster.state("scaled", PLACE).get("worldSize") == 3)
        self.scaled("scaled", 1)
        cluster.wait_for("one trains alone", lambda: cluster.state("scaled", PLACE).get("worldSize") == 1)
        self.members("scaled", 1)
        status = cluster.wait_phase("scaled", PLACE, "Succeeded", seconds=300)
        self.assertEqual(0, status["restarts"])
        self.assertEqual(1, status["attempt"])
        self.same_curve("scaled")
        events = cluster.kubectl("--namespace", PLACE, "describe", "tj", "scaled")
        self.assertIn("ScaledUp", events)
        self.assertIn("ScaledDown", events)

    def test_suspended_and_resumed(self):
        self.start(self.job("rested"))
        cluster.wait_step("rested", PLACE, 50)
        cluster.kubectl("--namespace", PLACE, "patch", "tj", "rested", "--type=merge",
                        "--patch", '{"spec": {"runPolicy": {"suspend": true}}}')
        status = cluster.wait_phase("rested", PLACE, "Suspended")
        self.assertFalse([pod for pod in cluster.listed("pods", PLACE, "muster.dev/job-name=rested")
                          if pod["status"]["phase"] in ("Pending", "Running")])
        self.assertLess(status["progress"]["step"], status["progress"]["totalSteps"])
        cluster.kubectl("--namespace", PLACE, "patch", "tj", "rested", "--type=merge",
                        "--patch", '{"spec": {"runPolicy": {"suspend": false}}}')
        status = cluster.wait_phase("rested", PLACE, "Succeeded", seconds=300)
        self.assertEqual(self.calm["result"]["parametersSha256"], status["result"]["parametersSha256"])
        self.assertEqual(0, status["restarts"])

    def test_a_deleted_worker_is_replaced(self):
        self.start(self.job("bereft"))
        cluster.wait_step("bereft", PLACE, 20)
        cluster.kubectl("--namespace", PLACE, "delete", "pod", "bereft-worker-1-0", "--wait=false")
        cluster.wait_for("the replacement", lambda: cluster.listed(
            "pods", PLACE, "muster.dev/job-name=bereft,muster.dev/incarnation=1"))
        status = cluster.wait_phase("bereft", PLACE, "Succeeded", seconds=300)
        self.assertEqual(0, status["restarts"])
        self.same_curve("bereft")

    # No time to leave: the others go on from the last step that all had done, without a restart.
    def test_a_killed_worker(self):
        self.start(self.job("killed"))
        cluster.wait_step("killed", PLACE, 20)
        cluster.kubectl("--namespace", PLACE, "delete", "pod", "killed-worker-1-0", "--grace-period=0", "--force")
        status = cluster.wait_phase("killed", PLACE, "Succeeded", seconds=300)
        self.assertNotIn("failures", status)
        self.same_curve("killed")

    def test_a_lost_coordinator_is_no_failure(self):
        self.start(self.job("headless", runPolicy={"backoffLimit": 0}))
        cluster.wait_step("headless", PLACE, 20)
        cluster.kubectl("--namespace", PLACE, "delete", "pod", "headless-coordinator-0", "--wait=false")
        status = cluster.wait_phase("headless", PLACE, "Succeeded", seconds=300)
        self.assertEqual(2, status["attempt"])
        self.assertEqual(self.calm["result"]["parametersSha256"], status["result"]["parametersSha256"])


if __name__ == "__main__":
    unittest.main()
