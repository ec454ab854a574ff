"""Runs of the GPT-2-type model (rival_model.py) by `muster run` and by PyTorch, measured alike.

Both sides give the same figures of one run:
    step_ms    median time from the end of a step to the end of the next, from the third step on: data,
               forward, backward, exchange of gradients, optimizer, and whatever else the loop does
    start_s    from the command to the end of the first step
    peak_mib   most resident memory of a rank up to its last step, less what the libraries alone take;
               whole_peak_mib with them. A rank's memory includes what it has mapped of its peers'.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import measure

JOB = """
apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {{name: bench}}
spec:
  strategy: {{type: sync}}
  model: {{builtin: {{name: gpt2, config: {{layers: 6, heads: 6, hidden: 384, tieWeights: false}}}}}}
  data: {{format: text, train: ["{text}"], sequenceLength: 256}}
  training:
    steps: {steps}
    globalBatchSize: {batch}
    optimizer: {{type: adamw, learningRate: 3e-4}}
  checkpoint: {{resume: never}}
"""
POLL_SECONDS = 0.05


def default_text():
    return str(measure.ROOT / "examples/data/text.txt")


def status(pid):
    """Fields of /proc/<pid>/status; nothing when the process has gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def mib(field):
    return int(field.split()[0]) / 1024


def ranks_below(pid):
    """The rank processes of a `muster run` or of a muster-trainer: a trainer's child of the same name."""
    known = {p: s for p, s in ((int(d), status(d)) for d in os.listdir("/proc") if d.isdigit()) if s}
    trainers = {p: int(s["PPid"]) for p, s in known.items() if s["Name"].strip() == "muster-trainer"}
    return [p for p, parent in trainers.items() if parent in trainers and pid in (parent, trainers[parent])]


def libraries_mib(build):
    """Resident memory of a rank that has loaded its libraries and waits for a coordinator."""
    trainer = subprocess.Popen([measure.program(build, "muster-trainer"), "--coordinator", "127.0.0.1:1",
                                "--pod", "nobody", "--connect-seconds", "30"], stderr=subprocess.DEVNULL,
                               env=dict(measure.ONE_THREAD, MUSTER_TOKEN="none"))
    try:
        deadline = time.time() + 20
        while not (ranks := ranks_below(trainer.pid)):
            if time.time() > deadline or trainer.poll() is not None:
                sys.exit("muster-trainer started no rank")
            time.sleep(POLL_SECONDS)
        time.sleep(1)
        return mib(status(ranks[0])["VmHWM"])
    finally:
        trainer.terminate()
        trainer.wait()


def step_ends(log):
    """When each step ended that metrics.jsonl tells of; a line still being written is left out."""
    if not log.exists():
        return []
    records = map(json.loads, log.read_text().rpartition("\n")[0].splitlines())
    return [r["time"] for r in records if "loss" in r]


def watch(process, workers, log, steps):
    """Waits for the last step; [(time, peak of the largest rank in MiB)] until then."""
    peaks, ranks = [], []
    while process.poll() is None and len(step_ends(log)) < steps:
        if len(ranks) < workers:
            ranks = ranks_below(process.pid)
        now = time.time()
        seen = [mib(s["VmHWM"]) for s in map(status, ranks) if "VmHWM" in s]
        if seen:
            peaks.append((now, max(seen)))
        time.sleep(POLL_SECONDS)
    return peaks


def stop_at_once(process):
    """What follows the last step (a sample of the model's writing takes long) is not what we measure."""
    while process.poll() is None:
        process.terminate()  # the second one stops everything at once
        time.sleep(0.1)


def median_gap_ms(ends):
    """Median time between the ends of steps, the first two steps left out; nothing for so few steps."""
    gaps = [b - a for a, b in zip(ends[1:], ends[2:])]
    return {"step_ms": statistics.median(gaps) * 1e3} if gaps else {}


def muster(build, workers, micro_batch, steps, text, libraries=0.0):
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        folder = pathlib.Path(folder)
        job, log = folder / "job.yaml", folder / "out/metrics.jsonl"
        job.write_text(JOB.format(text=os.path.abspath(text), steps=steps, batch=micro_batch * workers))
        begin = time.time()
        run = subprocess.Popen([measure.program(build, "muster"), "run", str(job), "--workers", str(workers),
                                "--output", str(folder / "out"), "--json"], env=measure.ONE_THREAD,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peaks = watch(run, workers, log, steps)
        stop_at_once(run)
        ends = step_ends(log)
    if len(ends) < steps:
        sys.exit(f"muster run ended with {run.returncode} after {len(ends)} of {steps} steps")
    peak = max((peak for when, peak in peaks if when <= ends[-1]), default=0.0)
    return {"start_s": ends[0] - begin, **median_gap_ms(ends), "peak_mib": peak - libraries,
            "whole_peak_mib": peak}


def pytorch(workers, micro_batch, steps, text):
    """DDP started by torchrun, or one process by itself."""
    command = measure.torchrun(workers) if workers > 1 else [measure.PYTHON]
    begin = time.time()
    result = measure.last_json([*command, str(measure.BENCH / "step_rival.py"), "--text", text,
                                "--steps", str(steps), "--micro-batch", str(micro_batch)])
    ends = result["step_ends"]
    return {"start_s": ends[0] - begin, **median_gap_ms(ends), "peak_mib": result["peak_mib"],
            "whole_peak_mib": result["whole_peak_mib"]}
