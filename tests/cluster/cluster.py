"""A suite's hands on the cluster that `scripts/cluster up --nodes 3` started."""

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = os.environ.get("MUSTER_CLUSTER", "muster")
STATE = pathlib.Path(f"/tmp/{NAME}-cluster")
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
SYSTEM = "muster-system"


class Refused(Exception):
    """A command that failed, with what it said."""


def run(*command, input=None, check=True, timeout=180, env=None):
    done = subprocess.run([str(part) for part in command], input=input, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})})
    if check and done.returncode != 0:
        raise Refused(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def kubectl(*arguments, **options):
    return run(ROOT / "scripts/cluster", "kubectl", *arguments, **options)


def helm(*arguments, **options):
    return run(ROOT / "scripts/cluster", "helm", *arguments, **options)


def apply(*objects, namespace=None):
    place = ["--namespace", namespace] if namespace else []
    return kubectl(*place, "apply", "-f", "-", input="\n---\n".join(json.dumps(o) for o in objects))


def get(kind, name, namespace="default"):
    return json.loads(kubectl("--namespace", namespace, "get", kind, name, "--output", "json"))


def listed(kind, namespace="default", selector=""):
    place = ["--selector", selector] if selector else []
    return json.loads(kubectl("--namespace", namespace, "get", kind, *place, "--output", "json"))["items"]


def wait_for(what, condition, seconds=120):
    """The first true value of condition(); fails with what it was about."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.2)


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return text.split("project(muster VERSION ")[1].split()[0]


def install(*settings, name="muster", namespace=SYSTEM):
    """The chart, with images that scripts/cluster load gave to the nodes."""
    if not json.loads(kubectl("get", "namespaces", "--output", "json", "--field-selector", f"metadata.name={namespace}"))["items"]:
        kubectl("create", "namespace", namespace)
    kubectl("label", "--overwrite", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    helm("upgrade", "--install", name, ROOT / "helm/muster", "--namespace", namespace, "--wait", "--timeout", "90s",
         "--set", "image.pullPolicy=Never,trainerImage.pullPolicy=Never,stateSeconds=1",
         *[part for setting in settings for part in ("--set", setting)])


def installed():
    """The operator of all namespaces, installed once for all suites."""
    if not json.loads(helm("list", "--namespace", SYSTEM, "--output", "json")):
        install()


@contextlib.contextmanager
def namespace(name):
    """A namespace that admits only restricted pods; gone at the end."""
    kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=120s")
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    try:
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false", check=False)


def volume(name, place):
    """A folder of this machine as a claim of that name: all nodes are this machine. Returns the folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-volume-"))
    folder.chmod(0o777)
    pv = folder.name.lower().replace("_", "-")  # its own: an old one of the name could not be changed
    apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": pv},
           "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
                    "hostPath": {"path": str(folder)}, "claimRef": {"namespace": place, "name": name}}},
          {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": place},
           "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": pv,
                    "resources": {"requests": {"storage": "1Gi"}}}})
    return folder


# Several trainers share this machine's cores: one thread each, or they wait for each other.
ONE_THREAD = {"name": "trainer", "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}


def penguins(name, *, replicas=2, claim=None, **spec):
    """examples/penguins.yaml with another name, and fields of the spec replaced or added."""
    job = example("penguins")
    job["metadata"] = {"name": name}
    job["spec"]["workers"] = {"replicas": replicas, "template": {"spec": {"containers": [ONE_THREAD]}}}
    for field, value in spec.items():
        old = job["spec"].get(field)
        job["spec"][field] = {**old, **value} if isinstance(old, dict) else value
    if claim:
        job["spec"]["workers"]["template"] = {"spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [{**ONE_THREAD, "volumeMounts": [{"name": "data", "mountPath": "/volume"}]}]}}
        job["spec"].setdefault("output", f"/volume/{name}/output")
        job["spec"].setdefault("checkpoint", {"path": f"/volume/{name}/checkpoints", "everySteps": 200})
    return job


def example(name):
    """examples/NAME.yaml as JSON, read by kubectl."""
    file = ROOT / "examples" / f"{name}.yaml"
    job = json.loads(kubectl("create", "--dry-run=client", "--validate=false", "--output", "json", "-f", file))
    job["metadata"] = {"name": name}
    return job


def status(name, namespace):
    return get("trainingjob", name, namespace).get("status", {})


def condition(status, kind):
    """The condition of that type, or an empty one."""
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def wait_phase(name, namespace, *phases, seconds=120):
    def reached():
        now = status(name, namespace)
        if now.get("phase") in phases:
            return now
        if now.get("phase") == "Failed":
            raise AssertionError(f"{name} failed: {now.get('message')}")
        return None

    try:
        return wait_for(f"{name} is {' or '.join(phases)}", reached, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{describe(name, namespace)}") from None


def state(name, namespace):
    """What the job's coordinator says now; nothing while it does not answer."""
    now = status(name, namespace)
    for pod in listed("pods", namespace, f"muster.dev/job-name={name},muster.dev/role=coordinator"):
        if pod["status"]["phase"] != "Running" or pod["metadata"]["labels"]["muster.dev/attempt"] != str(now["attempt"]):
            continue
        token = base64.b64decode(get("secret", f"{name}-token-{now['attempt']}", namespace)["data"]["token"]).decode()
        said = run(ROOT / "scripts/cluster", "exec", "curl", "-s", "--max-time", "2", "-H", f"Authorization: Bearer {token}",
                   f"http://{pod['status']['podIP']}:7078/state", check=False)
        return json.loads(said) if said.startswith("{") else {}
    return {}


def wait_step(name, namespace, step, seconds=120):
    """The status tells steps every 15 s; the coordinator knows them at once."""
    def reached():
        assert status(name, namespace).get("phase") not in ("Succeeded", "Failed"), f"{name} is over"
        return state(name, namespace).get("progress", {}).get("step", -1) >= step
    return wait_for(f"{name} reaches step {step}", reached, seconds)


def describe(name, namespace):
    jobs = kubectl("--namespace", namespace, "describe", "trainingjob", name, check=False)
    pods = kubectl("--namespace", namespace, "get", "pods", "--output", "wide", check=False)
    logs = kubectl("--namespace", namespace, "logs", "--selector", f"muster.dev/job-name={name}", "--tail=15",
                   "--prefix", check=False)
    return f"{jobs}\n{pods}\n{logs}"


def muster_run_of_example(job):
    """Runs it on this machine from examples/, with as many workers; its parametersSha256."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([BIN / "muster", "run", "-", "--output", folder], cwd=ROOT / "examples", text=True,
                              input=json.dumps(job), capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads((pathlib.Path(folder) / "summary.json").read_text())["parametersSha256"]


def audit(namespace=SYSTEM):
    """What ServiceAccounts of the namespace asked the API server for, as the audit log has it."""
    with open(STATE / "audit.log", encoding="utf-8") as log:
        entries = [json.loads(line) for line in log]
    return [e for e in entries if e["user"]["username"].startswith(f"system:serviceaccount:{namespace}:")]


def writes(entries):
    """Those that changed something, without leases."""
    return [e for e in entries if e["verb"] not in ("get", "list", "watch")
            and e.get("objectRef", {}).get("resource") not in ("leases", "selfsubjectaccessreviews")]
