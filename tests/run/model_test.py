"""What training is worth: accuracy beside scikit-learn's, and the export as PyTorch reads it."""
import csv
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/parity"))
import oracle_models  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", SOURCE / "build/release/bin"))
PENGUINS = SOURCE / "examples/data/penguins.csv"
TEXT = SOURCE / "examples/data/text.txt"
DEADLINE = 180  # seconds
MISSING = {"", "NA"}
NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"]
CATEGORIES = ["island", "sex"]


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class ModelTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-model-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_muster(self, job, **settings):
        output = self.folder / "out"
        shutil.rmtree(output, ignore_errors=True)
        command = [str(PROGRAMS / "muster"), "run", str(SOURCE / "examples" / job), "--workers", "2",
                   "--output", str(output)]
        for path, value in settings.items():
            command += ["--set", f"{path.replace('__', '.')}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((output / "summary.json").read_text()), output / "export"

    def split_penguins(self, seed):
        """Two files, as a job names them."""
        rows = read(PENGUINS)
        random.Random(seed).shuffle(rows)
        held_out = len(rows) // 5
        paths = self.folder / "train.csv", self.folder / "validation.csv"
        for path, part in zip(paths, (rows[held_out:], rows[:held_out])):
            with open(path, "w", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=rows[0])
                writer.writeheader()
                writer.writerows(part)
        return paths

    def test_penguins_are_told_apart_as_well_as_by_scikit_learn(self):
        ours, theirs = [], []
        for seed in range(6):
            train, validation = self.split_penguins(seed)
            summary, _ = self.run_muster("penguins.yaml", data__train=f"[{train}]",
                                         data__validation=f"[{validation}]",
                                         data__validationFraction=0)
            ours.append(summary["validation"]["accuracy"])
            theirs.append(self.scikit_learn(read(train), read(validation)))
        print(f"accuracies: Muster {ours}, scikit-learn {theirs}")
        self.assertGreaterEqual(sum(ours) / len(ours), sum(theirs) / len(theirs) - 0.01)

    @staticmethod
    def scikit_learn(train, validation):
        def columns(rows):
            number = lambda text: float("nan") if text in MISSING else float(text)
            return [[number(r[c]) for c in NUMBERS] + [r[c] for c in CATEGORIES] for r in rows]

        numbers = list(range(len(NUMBERS)))
        categories = list(range(len(NUMBERS), len(NUMBERS) + len(CATEGORIES)))
        model = make_pipeline(
            make_column_transformer(
                (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
                (OneHotEncoder(handle_unknown="ignore"), categories)),
            MLPClassifier((64, 64), max_iter=1000, random_state=0))
        table = lambda rows: np.array(columns(rows), dtype=object)
        model.fit(table(train), [r["species"] for r in train])
        return model.score(table(validation), [r["species"] for r in validation])

    def test_a_table_models_export_gives_the_same_validation_in_pytorch(self):
        train, validation = self.split_penguins(7)
        summary, export = self.run_muster("penguins.yaml", data__train=f"[{train}]",
                                          data__validation=f"[{validation}]",
                                          data__validationFraction=0, training__epochs=3)
        config = json.loads((export / "config.json").read_text())
        prepare = config["preprocessing"]
        rows = read(validation)
        number = lambda text, c: (0.0 if text in MISSING
                                  else (float(text) - c["mean"]) / c["stddev"])
        category = lambda text, c: (c["values"].index(text) + 1 if text in c["values"] else 0)
        batch = {
            "numbers": torch.tensor([[number(r[c["name"]], c) for c in prepare["numbers"]]
                                     for r in rows]),
            "categories": torch.tensor([[category(r[c["name"]], c) for c in prepare["categories"]]
                                        for r in rows]),
            "classes": torch.tensor([prepare["output"]["classes"].index(r["species"])
                                     for r in rows])}
        shape = {**config, "task": 0}
        model = oracle_models.Dense(config, shape, one_hot=False)
        model.load_state_dict(load_file(export / "model.safetensors"))
        with torch.no_grad():
            loss = model(batch).item()
        self.assertAlmostEqual(loss / summary["validation"]["loss"], 1, delta=1e-5)

    def test_a_gpt2s_export_gives_the_same_validation_in_pytorch(self):
        length = 64
        validation = self.folder / "validation.txt"
        validation.write_bytes(TEXT.read_bytes()[:20 * length + 1])
        summary, export = self.run_muster(
            "tiny-gpt.yaml", training__steps=20, data__sequenceLength=length,
            data__validation=f"[{validation}]", data__validationFraction=0)
        config = json.loads((export / "config.json").read_text())
        model = oracle_models.Gpt2(
            {"hidden": config["n_embd"], "layers": config["n_layer"], "heads": config["n_head"],
             "tieWeights": config["tie_word_embeddings"]},
            {"vocabulary_size": config["vocab_size"], "sequence_length": config["n_positions"]})
        state = load_file(export / "model.safetensors")
        own = model.state_dict()
        named = {k if k in own else f"transformer.{k}": v for k, v in state.items()}
        model.load_state_dict(named)
        text = torch.tensor(list(validation.read_bytes()))
        tokens = torch.stack([text[i * length:(i + 1) * length + 1] for i in range(20)])
        with torch.no_grad():
            hidden = model.transformer(tokens[:, :-1])
            logits = hidden @ model.transformer.wte.weight.T
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
            hits = (logits.argmax(2) == tokens[:, 1:]).float().mean().item()
        self.assertAlmostEqual(loss / summary["validation"]["loss"], 1, delta=1e-5)
        self.assertAlmostEqual(hits, summary["validation"]["accuracy"], delta=1e-6)
        sample = (export / "sample.txt").read_bytes()
        self.assertEqual(len(sample), 400)

    def test_a_language_model_learns_and_the_ranks_agree_with_one(self):
        losses = {}
        for workers in (1, 2, 3, 5):
            output = self.folder / f"out-{workers}"
            subprocess.run([str(PROGRAMS / "muster"), "run", str(SOURCE / "examples/tiny-gpt.yaml"),
                            "--workers", str(workers), "--output", str(output), "--set",
                            "training.steps=100", "--set", "training.validateEverySteps=100", "--set",
                            "data.sequenceLength=32", "--set", "training.optimizer.learningRate=5e-4"],
                           check=True, capture_output=True, timeout=DEADLINE)
            lines = (output / "metrics.jsonl").read_text().splitlines()
            records = [r for r in map(json.loads, lines) if "validation" not in r]
            losses[workers] = [r["loss"] for r in records]
        self.assertLess(losses[1][-1], losses[1][0] - 1)
        for workers in (2, 3, 5):
            for step, (one, many) in enumerate(zip(losses[1], losses[workers])):
                self.assertAlmostEqual(many / one, 1, delta=1e-6, msg=f"{workers}, step {step + 1}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
