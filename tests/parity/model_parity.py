"""Trains a model in PyTorch and in Muster, side by side from one seed on the same batches.

Passes when the names and the initial bits are equal, the first gradient agrees within 2e-6 in every
tensor, losses and gradients of the first 20 steps within 1e-5, and the parameters after 100 steps
within 1e-4 in every tensor; all relative to the norm. The gradients after the first step are taken as
one vector: Adam turns rounding in elements near its epsilon into steps of visible size, so that single
small tensors are no longer at the same point in both programs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import oracle_models

STEPS, GRADIENT_STEPS, SAMPLES, SEED = 100, 20, 16, 1234

COLUMNS = {"number_columns": 5, "category_names": ["job", "town"], "category_sizes": [7, 120],
           "classes": 3, "vocabulary_size": 0, "sequence_length": 0, "task": 0}
NUMBERS = {**COLUMNS, "category_names": [], "category_sizes": []}
TEXT = {**NUMBERS, "number_columns": 0, "classes": 0, "vocabulary_size": 256,
        "sequence_length": 32, "task": 2}
GPT2 = {"layers": 2, "heads": 4, "hidden": 64}

CASES = {
    "tabular_classification": ({"tabular": {"hidden": [64, 64], "activation": "relu"}}, COLUMNS),
    "tabular_regression": ({"tabular": {"hidden": [32], "activation": "gelu"}},
                           {**COLUMNS, "task": 1, "classes": 0}),
    "mlp": ({"name": "mlp", "config": {"hidden": [48, 24], "activation": "tanh"}}, NUMBERS),
    "mlp_one_hot": ({"name": "mlp", "config": {"hidden": [48], "activation": "sigmoid"}}, COLUMNS),
    "gpt2": ({"name": "gpt2", "config": GPT2}, TEXT),
    "gpt2_untied": ({"name": "gpt2", "config": {**GPT2, "tieWeights": False}}, TEXT),
}


def make_batches(shape):
    """Random samples with something to learn; a tensor a column, [steps, samples, ...]."""
    generator = torch.Generator().manual_seed(SEED)
    if shape["task"] == 2:
        start = torch.randint(0, 64, (STEPS, SAMPLES, shape["sequence_length"] + 1),
                              generator=generator)
        return {"tokens": (start.cumsum(2) // 7) % shape["vocabulary_size"]}
    numbers = torch.randn(STEPS, SAMPLES, shape["number_columns"], generator=generator)
    batches = {"numbers": numbers, "values": numbers.sum(2).sin()}
    batches["classes"] = (numbers[..., 0] > 0).long() + (numbers[..., 1] > 0.5).long()
    if shape["category_sizes"]:
        batches["categories"] = torch.stack(
            [torch.randint(0, size, (STEPS, SAMPLES), generator=generator)
             for size in shape["category_sizes"]], dim=2)
    return batches


def run_muster(trainer, folder, model, shape, batches):
    case = {"model": model, "shape": shape, "seed": SEED, "steps": STEPS, "samples": SAMPLES,
            "gradient_steps": GRADIENT_STEPS}
    (folder / "case.json").write_text(json.dumps(case))
    for name, column in batches.items():
        suffix = "f32" if column.dtype == torch.float32 else "i64"
        (folder / f"{name}.{suffix}").write_bytes(column.contiguous().numpy().tobytes())
    subprocess.run([trainer, str(folder)], check=True, timeout=300)
    return {"names": json.loads((folder / "names.json").read_text()),
            "losses": np.fromfile(folder / "losses.f64", np.float64),
            **{name: np.fromfile(folder / f"{name}.f32", np.float32)
               for name in ("initial", "gradients", "final")}}


def flat(tensors):
    return np.concatenate([t.detach().numpy().ravel() for t in tensors])


def run_pytorch(model, shape, batches):
    module = oracle_models.build(model, shape, SEED)
    named = dict(module.named_parameters())
    parameters = list(named.values())
    result = {"names": list(named), "initial": flat(parameters), "losses": [], "gradients": [],
              "sizes": [p.numel() for p in parameters]}
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                                  foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = module({name: column[step] for name, column in batches.items()})
        loss.backward()
        result["losses"].append(loss.item())
        if step < GRADIENT_STEPS:
            result["gradients"].append(flat([p.grad for p in parameters]))
        optimizer.step()
    return {**result, "gradients": np.concatenate(result["gradients"]), "final": flat(parameters)}


def worst(ours, theirs, sizes):
    """The largest distance of two tensors, relative to the oracle's norm; sizes repeat."""
    assert ours.size == theirs.size, f"{ours.size} values, but PyTorch has {theirs.size}"
    edges = np.cumsum(sizes * (ours.size // sum(sizes)))[:-1]
    return max(np.linalg.norm(a.astype(np.float64) - b) / (np.linalg.norm(b) + 1e-12)
               for a, b in zip(np.split(ours, edges), np.split(theirs, edges)))


def without_key_biases(values, names, sizes):
    """Softmax ignores a shift of all scores, so the exact gradient of attention's key bias is 0 and
    Adam, which normalises, walks on rounding noise there: the one place with nothing to compare."""
    parts = np.split(values.copy(), np.cumsum(sizes)[:-1])
    for name, part in zip(names, parts):
        if name.endswith("c_attn.bias"):
            part[part.size // 3:2 * part.size // 3] = 0
    return np.concatenate(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainer", required=True, help="the program parity-trainer")
    parser.add_argument("--model", required=True, choices=CASES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, shape = CASES[arguments.model]
    batches = make_batches(shape)
    theirs = run_pytorch(model, shape, batches)
    with tempfile.TemporaryDirectory() as folder:
        ours = run_muster(arguments.trainer, pathlib.Path(folder), model, shape, batches)

    for result in (ours, theirs):
        result["final"] = without_key_biases(result["final"], theirs["names"], theirs["sizes"])
    total = sum(theirs["sizes"])
    losses = np.array(theirs["losses"])
    distances = np.abs(ours["losses"] - losses) / np.abs(losses)
    measured = {
        "loss, first 20 steps": (distances[:GRADIENT_STEPS].max(), 1e-5),
        "gradient, first step": (worst(ours["gradients"][:total], theirs["gradients"][:total],
                                       theirs["sizes"]), 2e-6),
        "gradient, first 20 steps": (worst(ours["gradients"], theirs["gradients"], [total]), 1e-5),
        "loss, all steps": (distances.max(), 1e-4),
        "parameters, after all steps": (worst(ours["final"], theirs["final"],
                                              theirs["sizes"]), 1e-4),
    }
    failures = []
    if ours["names"] != theirs["names"]:
        failures.append(f"names differ: {ours['names']} != {theirs['names']}")
    if ours["initial"].tobytes() != theirs["initial"].tobytes():
        failures.append("the initial bits differ")
    if not losses[-10:].mean() < losses[:10].mean():
        failures.append(f"the oracle learned nothing: {losses[:10].mean()} to {losses[-10:].mean()}")
    for what, (value, bound) in measured.items():
        print(f"{what}: {value:.2e} (bound {bound:.0e})")
        if not value <= bound:
            failures.append(f"{what}: {value:.2e} is above {bound:.0e}")
    print("\n".join(failures) or f"{arguments.model}: equal to PyTorch")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
