"""How fast the operator turns TrainingJobs into pods, and what that costs, on a real API server and etcd.

It starts a cluster of its own without nodes or scheduler, so that pods are created and stay Pending, and takes it down
again. As root, after a release build:

    bench/operator/operator_bench.py [--jobs 1000] [--workers 3]

It prints one JSON object: seconds from the first apply to the last pod, pods a second, CPU seconds and resident memory of
the operator, requests a job by verb and resource, and the memory after all jobs were deleted.
"""

import argparse
import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
CLUSTER = "bench"
ACCOUNT = "system:serviceaccount:muster-system:operator"  # of that namespace the cluster keeps an audit log
STATE = pathlib.Path(f"/tmp/{CLUSTER}-cluster")
ENVIRONMENT = {**os.environ, "MUSTER_CLUSTER": CLUSTER}
TICKS = os.sysconf("SC_CLK_TCK")


def cluster(*arguments, **options):
    return subprocess.run([ROOT / "scripts/cluster", *map(str, arguments)], env=ENVIRONMENT, check=True, text=True,
                          capture_output=True, **options).stdout


class Api:
    """The API server with the administrator's certificate; one connection a thread. Runs inside the cluster's network."""

    def __init__(self):
        config = json.loads((STATE / "admin.kubeconfig").read_text())
        self.host = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        user = config["users"][0]["user"]
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self.context.load_cert_chain(pem.name)
        self.local = threading.local()

    def call(self, method, path, body=None):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPSConnection(self.host, context=self.context, timeout=60)
        self.local.connection.request(method, path, json.dumps(body) if body is not None else None,
                                      {"Content-Type": "application/json"})
        response = self.local.connection.getresponse()
        text = response.read().decode()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:300]}")
        return text

    def count(self, path):
        page = json.loads(self.call("GET", path + "?limit=1"))
        return len(page["items"]) + page["metadata"].get("remainingItemCount", 0)



def job(name, workers):
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"model": {"tabular": {}}, "data": {"format": "csv", "train": ["data/penguins.csv"]},
                     "training": {"epochs": 1}, "workers": {"replicas": workers}}}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid, name="VmRSS"):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return round(int(re.search(rf"{name}:\s+(\d+)", text)[1]) / 1024, 1)


class Operator:
    def __init__(self, folder):
        key = pathlib.Path(folder) / "key"
        key.write_bytes(os.urandom(32))
        self.log = open(pathlib.Path(folder) / "operator.log", "a", encoding="utf-8")
        self.command = [BIN / "muster-operator", "--kubeconfig", STATE / "operator.kubeconfig", "--no-leader-elect",
                        "--token-key-file", key, "--http", "127.0.0.1:18080", "--json-logs"]

    def start(self):
        """Starts it; seconds until it is ready."""
        begin = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", 18080, timeout=5)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return round(time.monotonic() - begin, 3)
            except OSError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError(f"the operator ended; see {self.log.name}")
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(function, items))


def wait_count(api, path, wanted, seconds):
    end = time.monotonic() + seconds
    while (now := api.count(path)) != wanted:
        if time.monotonic() > end:
            raise RuntimeError(f"{path}: {now} of {wanted} after {seconds} s")
        time.sleep(0.1)


def asked(jobs):
    """The operator's requests so far by verb and resource, a job; watches apart."""
    counts = {}
    with open(STATE / "audit.log", encoding="utf-8") as log:
        for entry in map(json.loads, log):
            target = entry.get("objectRef", {})
            if entry["user"]["username"] == ACCOUNT and entry["verb"] != "watch":
                name = " ".join(filter(None, [entry["verb"], target.get("resource"), target.get("subresource")]))
                counts[name] = counts.get(name, 0) + 1
    return {name: round(count / jobs, 3) for name, count in sorted(counts.items(), key=lambda pair: -pair[1])}


def quiet_requests(jobs, before):
    return {name: round(count - before.get(name, 0), 3) for name, count in asked(jobs).items() if count > before.get(name, 0)}


def measure(jobs, workers, folder):
    api = Api()
    pods, all_jobs = "/api/v1/pods", "/apis/muster.dev/v1alpha1/namespaces/default/trainingjobs"
    operator = Operator(folder)
    empty_start = operator.start()
    pid = operator.process.pid
    memory_before, cpu_before = memory(pid), cpu_seconds(pid)
    names = [f"job-{i}" for i in range(jobs)]
    begin = time.monotonic()
    in_parallel(lambda name: api.call("POST", all_jobs, job(name, workers)), names)
    applied = time.monotonic() - begin
    wait_count(api, pods, jobs * (workers + 1), 600)
    took = time.monotonic() - begin
    cpu, peak = cpu_seconds(pid) - cpu_before, memory(pid, "VmHWM")
    time.sleep(3)
    counted, quiet_cpu = asked(jobs), cpu_seconds(pid)
    time.sleep(20)
    quiet = quiet_requests(jobs, counted)
    idle = (cpu_seconds(pid) - quiet_cpu) / 20
    operator.stop()
    restart = operator.start()
    pid = operator.process.pid
    full = memory(pid)
    in_parallel(lambda name: api.call("DELETE", f"{all_jobs}/{name}"), names)
    wait_count(api, pods, 0, 600)
    time.sleep(5)
    result = {"jobs": jobs, "pods": jobs * (workers + 1), "seconds": round(took, 2), "apply_seconds": round(applied, 2),
              "pods_per_second": round(jobs * (workers + 1) / took, 1), "cpu_seconds": round(cpu, 2),
              "resident_mb": {"before": memory_before, "peak": peak, "after_restart": full, "after_deletion": memory(pid)},
              "requests_per_job": counted, "requests_per_job_sum": round(sum(counted.values()), 3),
              "requests_per_job_in_20_quiet_seconds": quiet, "idle_cores": round(idle, 4),
              "ready_seconds": {"without_jobs": empty_start, "with_jobs": restart}}
    operator.stop()
    return result


def prepare():
    """The definition of TrainingJob, an account for the operator, and no scheduler: what is measured is the operator."""
    cluster("kubectl", "apply", "-f", ROOT / "crds/muster.dev_trainingjobs.yaml")
    cluster("kubectl", "wait", "--for=condition=Established", "crd/trainingjobs.muster.dev")
    cluster("kubectl", "create", "namespace", "muster-system")
    cluster("kubectl", "create", "serviceaccount", "operator", "--namespace", "muster-system")
    cluster("kubectl", "create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin",
            "--serviceaccount=muster-system:operator")
    token = cluster("kubectl", "create", "token", "operator", "--namespace", "muster-system").strip()
    config = json.loads((STATE / "admin.kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token}
    (STATE / "operator.kubeconfig").write_text(json.dumps(config))
    pids = dict(line.split() for line in (STATE / "pids").read_text().splitlines())
    os.kill(int(pids["kube-scheduler"]), signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # in the cluster's network already
    options = parser.parse_args()
    if options.inside:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.jobs, options.workers, folder), indent=1))
        return
    cluster("up", "--nodes", 0)
    try:
        prepare()
        print(cluster("exec", "python3", __file__, "--inside", "--jobs", options.jobs, "--workers", options.workers))
    finally:
        cluster("down")


if __name__ == "__main__":
    main()
