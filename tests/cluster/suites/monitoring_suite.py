"""Every panel of the dashboards has data, from a real Prometheus that scrapes a real operator and a job that trains."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "dashboards"))
import cluster  # noqa: E402
import dashboards  # noqa: E402

PLACE = "monitoring"
PORT = 19090
PROMETHEUS = cluster.ROOT / ".deps/promtool/usr/bin/prometheus"
# What only a fault or a second replica shows; promtool tests the rules about them.
QUIET = set()


def inside(*command, **options):
    return cluster.run(cluster.ROOT / "scripts/cluster", "exec", *command, **options)


def target(pod, port, job, **labels):
    return {"targets": [f"{pod['status']['podIP']}:{port}"],
            "labels": {"job": job, "namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"], **labels}}


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.installed()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()
        cluster.volume("data", PLACE)
        job = cluster.penguins("watched", claim="data", training={"epochs": 100000, "validateEverySteps": 50})
        cluster.apply(job, namespace=PLACE)
        cluster.wait_phase("watched", PLACE, "Running")
        cluster.apply(cluster.penguins("over", training={"epochs": 2}), namespace=PLACE)
        cls.folder = tempfile.TemporaryDirectory()
        cls.start_prometheus(pathlib.Path(cls.folder.name))

    @classmethod
    def start_prometheus(cls, folder):
        operator = cluster.listed("pods", cluster.SYSTEM, "app.kubernetes.io/name=muster-operator")[0]
        targets = [target(operator, 8080, "muster-operator")]
        for pod in cluster.listed("pods", PLACE, "muster.dev/job-name=watched"):
            leads = pod["metadata"]["labels"]["muster.dev/role"] == "coordinator"
            targets.append(target(pod, 7078 if leads else 9090, "muster-jobs", training_job="watched"))
        (folder / "targets.json").write_text(json.dumps(targets))
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(cluster.ROOT / "dashboards/rules/muster.yaml")],
            "scrape_configs": [{"job_name": "all", "file_sd_configs": [{"files": [str(folder / "targets.json")]}]}]}))
        cls.process = subprocess.Popen(
            [cluster.ROOT / "scripts/cluster", "exec", PROMETHEUS, f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{PORT}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cluster.wait_for("Prometheus", lambda: inside("curl", "-s", f"http://127.0.0.1:{PORT}/-/ready", check=False), 60)

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.wait()
        cls.folder.cleanup()
        cls.place.__exit__(None, None, None)

    def query(self, expression):
        said = inside("curl", "-s", f"http://127.0.0.1:{PORT}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(said)
        self.assertEqual("success", answer["status"], f"{expression}: {answer.get('error')}")
        return answer["data"]["result"]

    def test_every_target_is_scraped(self):
        cluster.wait_for("four targets are up", lambda: len(self.query("up == 1")) == 4, 60)

    def test_every_panel_has_data(self):
        empty = {}

        def all_have_data():
            empty.clear()
            for file in dashboards.FILES:
                for title, expression in dashboards.expressions(file, rate_interval="20s"):
                    if title not in QUIET and not self.query(expression):
                        empty[f"{file.stem}: {title}"] = expression
            return not empty

        try:
            cluster.wait_for("all panels have data", all_have_data, 60)
        except AssertionError:
            self.fail("no data: " + json.dumps(empty, indent=1))

    def test_nothing_is_alarming(self):
        time.sleep(3)  # for a rule that must not fire
        self.assertEqual([], self.query('ALERTS{alertstate="firing"}'))
        self.assertEqual([], [r for r in json.loads(inside("curl", "-s", f"http://127.0.0.1:{PORT}/api/v1/rules"))
                              ["data"]["groups"][0]["rules"] if r["health"] != "ok"])


if __name__ == "__main__":
    unittest.main()
