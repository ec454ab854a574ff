"""Jobs from apply to their end, as a user sees them with kubectl."""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster  # noqa: E402

PLACE = "training"


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.installed()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__(None, None, None)

    def succeeds_with_the_hash_of_muster_run(self, job):
        name = job["metadata"]["name"]
        cluster.apply(job, namespace=PLACE)
        cluster.wait_phase(name, PLACE, "Succeeded", seconds=400)
        cluster.kubectl("--namespace", PLACE, "wait", "--for=condition=Succeeded", f"tj/{name}", "--timeout=5s")
        status = cluster.status(name, PLACE)
        self.assertEqual(cluster.muster_run_of_example(job), status["result"]["parametersSha256"])
        return status

    def test_penguins(self):
        job = cluster.penguins("penguins")
        status = self.succeeds_with_the_hash_of_muster_run(job)
        self.assertEqual("sync", status["strategy"]["effective"])
        self.assertEqual({"desired": 2, "active": 0, "ready": 0, "succeeded": 2, "failed": 0},
                         status["replicaStatuses"]["worker"])
        self.assertGreater(float(status["result"]["validationAccuracy"]), 0.9)
        self.assertEqual(status["progress"]["totalSteps"], status["progress"]["step"])
        events = cluster.kubectl("--namespace", PLACE, "describe", "tj", "penguins")
        for reason in ("CreatedPods", "JobRunning", "JobSucceeded"):
            self.assertIn(reason, events)
        row = cluster.kubectl("--namespace", PLACE, "get", "tj", "penguins", "--no-headers").split()
        self.assertEqual(["penguins", "Succeeded", "sync", "2/2"], row[:4])

    # The example's 600 steps would take minutes; 40 show the same.
    def test_tiny_gpt(self):
        job = cluster.example("tiny-gpt")
        job["spec"]["workers"] = cluster.penguins("any")["spec"]["workers"]
        job["spec"]["training"]["steps"] = 40
        self.succeeds_with_the_hash_of_muster_run(job)

    def test_applying_twice_changes_nothing(self):
        job = cluster.penguins("twice", training={"epochs": 2})
        cluster.apply(job, namespace=PLACE)
        cluster.wait_phase("twice", PLACE, "Succeeded")
        before = cluster.get("tj", "twice", PLACE)
        asked = len(cluster.writes(cluster.audit()))
        self.assertIn("unchanged", cluster.apply(job, namespace=PLACE))
        time.sleep(2)  # for a write that must not come
        self.assertEqual(before["metadata"]["resourceVersion"],
                         cluster.get("tj", "twice", PLACE)["metadata"]["resourceVersion"])
        self.assertEqual(asked, len(cluster.writes(cluster.audit())))

    def test_deleting_takes_everything_along(self):
        cluster.apply(cluster.penguins("gone", training={"epochs": 2000}), namespace=PLACE)
        cluster.wait_phase("gone", PLACE, "Running")
        cluster.kubectl("--namespace", PLACE, "delete", "tj", "gone")
        for kind in ("pods", "services", "secrets"):
            cluster.wait_for(f"no {kind} are left",
                             lambda kind=kind: not cluster.listed(kind, PLACE, "muster.dev/job-name=gone"))

    def test_a_job_that_is_deleted_while_it_starts(self):
        cluster.apply(cluster.penguins("early", training={"epochs": 2000}), namespace=PLACE)
        cluster.wait_for("its first pod", lambda: cluster.listed("pods", PLACE, "muster.dev/job-name=early"))
        cluster.kubectl("--namespace", PLACE, "delete", "tj", "early")
        cluster.wait_for("no pods are left", lambda: not cluster.listed("pods", PLACE, "muster.dev/job-name=early"))
        # Nor do any come back under the same name.
        job = cluster.penguins("early", training={"epochs": 2})
        cluster.apply(job, namespace=PLACE)
        cluster.wait_phase("early", PLACE, "Succeeded")

    def test_a_job_that_cannot_be_run_says_why(self):
        job = cluster.penguins("odd", model={"tabular": None, "builtin": {"name": "mlp", "config": {"hiden": [3]}}})
        del job["spec"]["model"]["tabular"]
        cluster.apply(job, namespace=PLACE)
        failed = cluster.wait_for("it fails", lambda: cluster.condition(cluster.status("odd", PLACE), "Failed"))
        self.assertEqual("InvalidSpec", failed["reason"])
        self.assertIn("did you mean hidden?", failed["message"])

    def test_wrong_data_fail_at_once(self):
        cluster.apply(cluster.penguins("nodata", data={"train": ["data/absent.csv"]}), namespace=PLACE)
        failed = cluster.wait_for("it fails", lambda: cluster.condition(cluster.status("nodata", PLACE), "Failed"))
        self.assertEqual("NonRetryableExitCode", failed["reason"])
        self.assertIn("absent.csv", failed["message"])
        self.assertEqual(1, cluster.status("nodata", PLACE)["attempt"])

    def test_time_to_live(self):
        cluster.apply(cluster.penguins("brief", training={"epochs": 2}, runPolicy={"ttlSecondsAfterFinished": 1}),
                      namespace=PLACE)
        cluster.wait_for("it is deleted", lambda: not cluster.kubectl(
            "--namespace", PLACE, "get", "tj", "--output", "name", "--field-selector", "metadata.name=brief"))

    def test_an_active_deadline(self):
        cluster.apply(cluster.penguins("slow", training={"epochs": 100000}, runPolicy={"activeDeadlineSeconds": 8}),
                      namespace=PLACE)
        failed = cluster.wait_for("it fails", lambda: cluster.condition(cluster.status("slow", PLACE), "Failed"))
        self.assertEqual("DeadlineExceeded", failed["reason"])
        cluster.wait_for("its pods end", lambda: all(
            pod["status"]["phase"] in ("Succeeded", "Failed")
            for pod in cluster.listed("pods", PLACE, "muster.dev/job-name=slow")))


if __name__ == "__main__":
    unittest.main()
