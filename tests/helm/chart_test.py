"""The chart: Helm accepts and packs it, its own suites pass, and its rights are those that the operator needs."""
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/muster"
HELM = ROOT / ".deps/cluster/bin/helm"
HELM_UNITTEST = ROOT / ".deps/cluster/bin/helm-unittest"
MONITORING = [f"--api-versions=monitoring.coreos.com/v1/{kind}"
              for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]
EVERYTHING = [*MONITORING, "--set", ",".join(
    [f"monitoring.{one}.enabled=true" for one in ("serviceMonitor", "podMonitor", "rules", "dashboards")]
    + ["replicas=2", "networkPolicy.apiServerPorts={443,6443}"])]
ROLE_ONLY = ["--set", "watchNamespaces={team-a,team-b},crds.install=false"]

# Calls of operator/kube/client.h and the right that each needs.
VERBS = {"get": ["get"], "list": ["list"], "create": ["create"], "update": ["update"], "merge_patch": ["patch"],
         "remove": ["delete"],
         "apply": ["create", "patch"]}  # what is not there yet is created
TYPES = {"training_jobs": "muster.dev/trainingjobs", "pods": "/pods", "services": "/services", "secrets": "/secrets",
         "network_policies": "networking.k8s.io/networkpolicies", "leases": "coordination.k8s.io/leases",
         "events": "events.k8s.io/events"}
# An admission plugin asks for it, no request of ours does.
ASKED_BY_OTHERS = {("muster.dev/trainingjobs/finalizers", "update")}


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def template(*arguments, chart=CHART):
    done = run(HELM, "template", "muster", chart, "--namespace", "muster-system", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kinds(manifest):
    return re.findall(r"^kind: (\w+)", manifest, re.M)


def granted(manifest):
    """(group/resource, verb) of all rules that are the operator's."""
    rights = set()
    for document in manifest.split("\n---\n"):
        if not re.search(r"^kind: (Cluster)?Role$", document, re.M) or "aggregate-to-" in document:
            continue
        for rule in document.split("- apiGroups: [")[1:]:
            group = rule.split("]")[0].strip('"')
            resources, verbs = (re.search(rf"^ +{key}: \[(.*)\]", rule, re.M)[1].split(", ")
                                for key in ("resources", "verbs"))
            rights |= {(f"{group}/{resource}", verb) for resource in resources for verb in verbs}
    return rights


def requested():
    """(group/resource, verb) of all requests in the operator's sources."""
    text = "\n".join(file.read_text() for file in sorted((ROOT / "operator").rglob("*.cpp")))
    rights = set()
    calls = re.findall(r"client_\.(\w+)\(\s*(?:kube::)?(\w+)((?:(?!client_\.)[^;])*)", text)
    for call, kind, arguments in calls:
        if kind == "type_":  # a reflector's: below
            continue
        part = re.search(r', "(status|scale)"', arguments)
        resource = TYPES[kind] + (f"/{part[1]}" if part else "")
        rights |= {(resource, verb) for verb in VERBS[call]}
    for kind in re.findall(r"reflectors_\.emplace_back\(\s*watcher_,\s*(?:\w+::)?(\w+)", text):
        rights |= {(TYPES[kind], verb) for verb in ("list", "watch")}
    return rights


class Chart(unittest.TestCase):
    def test_helm_lints_it(self):
        for values in ([], ROLE_ONLY, EVERYTHING):
            arguments = [part for part in values if not part.startswith("--api-versions")]
            done = run(HELM, "lint", "--strict", CHART, *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_its_own_suites_pass(self):
        done = run(HELM_UNITTEST, CHART)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"Tests: +[1-9]\d* passed")

    def test_a_package_is_what_the_folder_is(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(HELM, "package", CHART, "--destination", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            package = next(pathlib.Path(folder).glob("muster-*.tgz"))
            key = re.compile(r"^  key: .*$", re.M)  # random each time
            packed, plain = (key.sub("", template(*EVERYTHING, chart=chart)) for chart in (package, CHART))
        self.assertEqual(packed, plain)

    def test_everything_is_rendered(self):
        found = kinds(template(*EVERYTHING))
        for kind in ("CustomResourceDefinition", "ServiceMonitor", "PodMonitor", "PrometheusRule", "PodDisruptionBudget",
                     "NetworkPolicy", "ConfigMap", "Deployment", "Secret", "Pod"):
            self.assertIn(kind, found)

    def test_for_some_namespaces_nothing_is_cluster_wide(self):
        manifest = template(*ROLE_ONLY, *EVERYTHING)
        self.assertFalse([kind for kind in kinds(manifest) if kind.startswith(("Cluster", "Custom"))])
        namespaces = set(re.findall(r"^  namespace: (\S+)", manifest, re.M))
        self.assertEqual(namespaces, {"muster-system", "team-a", "team-b"})

    def test_two_renderings_have_two_keys(self):
        keys = {re.search(r"^  key: (\S+)", template(), re.M)[1] for _ in range(2)}
        self.assertEqual(len(keys), 2)

    def test_the_version_is_the_programs(self):
        version = re.search(r"project\(muster VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f'appVersion: "{version}"', (CHART / "Chart.yaml").read_text())


class Rights(unittest.TestCase):
    def test_they_are_what_the_operator_asks_for(self):
        needed = requested() | ASKED_BY_OTHERS
        self.assertGreater(len(needed), 15)
        self.assertEqual(granted(template()), needed)

    def test_they_are_the_same_for_some_namespaces(self):
        self.assertEqual(granted(template(*ROLE_ONLY)), granted(template()))

    def test_secrets_are_written_only(self):
        self.assertEqual({verb for resource, verb in granted(template()) if resource == "/secrets"}, {"create"})


if __name__ == "__main__":
    for program in (HELM, HELM_UNITTEST):
        if not program.exists():
            raise SystemExit(f"{program} is missing; tests/cluster/build.sh makes it")
    unittest.main()
