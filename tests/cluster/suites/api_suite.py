"""The definition of TrainingJob on a real API server: the same verdicts as `muster validate`, immutability, kubectl."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cluster  # noqa: E402

PLACE = "api"


def documents(name):
    """tests/common/job/cases/NAME as objects: kubectl cannot read all of them, PyYAML need not be there."""
    text = (cluster.ROOT / "tests/common/job/cases" / name).read_text()
    return [part for part in text.split("\n---\n") if "apiVersion" in part]


def verdict_of_validate(document):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(document)
        file.flush()
        done = subprocess.run([cluster.BIN / "muster", "validate", file.name], capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def verdict_of_server(document):
    try:
        cluster.kubectl("--namespace", PLACE, "create", "--dry-run=server", "--validate=strict", "-f", "-", input=document)
        return True, ""
    except cluster.Refused as refused:
        return False, str(refused)


def field(text, name):
    """An annotation of a case: path: "spec.x", says: "..." """
    return text.split(f'{name}: "')[1].split('"')[0]


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cluster.installed()
        cls.place = cluster.namespace(PLACE)
        cls.place.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__(None, None, None)

    def test_good_jobs_are_good_for_both(self):
        for document in documents("good.yaml"):
            with self.subTest(document=document[:200]):
                self.assertEqual((True, ""), verdict_of_server(document))
                self.assertTrue(verdict_of_validate(document)[0])

    def test_bad_jobs_are_bad_for_both(self):
        seen = named = 0
        for document in documents("bad.yaml"):
            if "namespace:" in document.split("spec:")[0] or "told-by: operator" in document:
                continue
            seen += 1
            with self.subTest(path=field(document, "path")):
                good, words = verdict_of_server(document)
                self.assertFalse(good)
                self.assertFalse(verdict_of_validate(document)[0])
                # Both name the field; a few do not even get past kubectl, which has words of its own.
                if "is invalid" in words or "strict decoding" in words:
                    named += 1
                    self.assertIn(field(document, "path").split(".")[-1].split("[")[0], words)
        self.assertGreater(seen, 45)
        self.assertGreater(named, seen - 4)

    def test_what_the_schema_cannot_see_is_accepted(self):
        for document in documents("bad.yaml"):
            if "told-by: operator" in document:
                self.assertTrue(verdict_of_server(document)[0], document)

    def test_examples_are_accepted(self):
        for name in ("penguins", "tiny-gpt"):
            self.assertTrue(verdict_of_server((cluster.ROOT / f"examples/{name}.yaml").read_text())[0])

    def refused(self, name, patch):
        with self.assertRaises(cluster.Refused) as caught:
            cluster.kubectl("--namespace", PLACE, "patch", "tj", name, "--type=merge", "--patch", json.dumps(patch))
        return str(caught.exception)

    def test_immutable_fields_are_refused_in_words(self):
        job = cluster.penguins("fixed", checkpoint={"path": "/c"}, runPolicy={"suspend": True})
        cluster.apply(job, namespace=PLACE)
        for patch, word in [
            ({"strategy": {"type": "sync"}}, "strategy may not change"),
            ({"model": {"tabular": {"hidden": [8]}}}, "model may not change"),
            ({"data": {"sequenceLength": 7}}, "data may not change"),
            ({"training": {"globalBatchSize": 64}}, "globalBatchSize may not change"),
            ({"training": {"seed": 3}}, "seed may not change"),
            ({"training": {"optimizer": {"learningRate": 0.5}}}, "optimizer may not change"),
            ({"checkpoint": {"path": "/d"}}, "checkpoint.path may not change"),
            ({"checkpoint": None}, "checkpoint.path may not change"),
            ({"workers": {"replicas": 3}}, "elasticPolicy"),
        ]:
            with self.subTest(patch=patch):
                self.assertIn(word, self.refused("fixed", {"spec": patch}))
        for patch in [{"training": {"epochs": 41}}, {"runPolicy": {"backoffLimit": 9}}, {"checkpoint": {"keep": 5}},
                      {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}, {"workers": {"replicas": 3}}]:
            cluster.kubectl("--namespace", PLACE, "patch", "tj", "fixed", "--type=merge", "--patch", json.dumps({"spec": patch}))

    def test_the_spec_stays_as_it_was_written(self):
        job = cluster.penguins("written", runPolicy={"suspend": True})
        cluster.apply(job, namespace=PLACE)
        self.assertEqual(job["spec"], cluster.get("tj", "written", PLACE)["spec"])

    def test_without_workers_there_is_one(self):
        job = cluster.penguins("alone", runPolicy={"suspend": True})
        del job["spec"]["workers"]
        cluster.apply(job, namespace=PLACE)
        self.assertEqual({"replicas": 1}, cluster.get("tj", "alone", PLACE)["spec"]["workers"])

    def test_explain_describes(self):
        for path in ("spec.training.optimizer.learningRate", "spec.runPolicy.backoffLimit", "status.progress.step"):
            text = cluster.kubectl("explain", f"trainingjob.{path}")
            self.assertIn("DESCRIPTION", text)
            self.assertGreater(len(text.split("DESCRIPTION:")[1].strip()), 10)

    def test_columns(self):
        cluster.apply(cluster.penguins("seen", runPolicy={"suspend": True}), namespace=PLACE)
        header = cluster.kubectl("--namespace", PLACE, "get", "tj").splitlines()[0].split()
        self.assertEqual(["NAME", "PHASE", "STRATEGY", "WORKERS", "STEP", "LOSS", "RESTARTS", "AGE"], header)
        wide = cluster.kubectl("--namespace", PLACE, "get", "tj", "--output", "wide").splitlines()[0].split()
        self.assertEqual(header + ["STEPS", "MESSAGE"], wide)
        self.assertIn("seen", cluster.kubectl("--namespace", PLACE, "get", "ml"))


if __name__ == "__main__":
    unittest.main()
