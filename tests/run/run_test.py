"""muster run, as a user meets it: real processes, a real model, signals, and what is left behind."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", SOURCE / "build/release/bin"))
MUSTER = str(PROGRAMS / "muster")
DEADLINE = 180  # seconds, for anything that is waited for


def children_of(pid):
    """Process ids by the name of their program, of the whole tree below pid."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it ended while we looked
        name, rest = text[text.index("(") + 1:].rsplit(")", 1)
        state, parent = rest.split()[:2]
        if state != "Z":
            found.setdefault(int(parent), []).append((int(stat.parent.name), name))
    result, open_pids = {}, [pid]
    while open_pids:
        for child, name in found.get(open_pids.pop(), []):
            result.setdefault(name, []).append(child)
            open_pids.append(child)
    return result


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-run-"))
        self.output = self.folder / "out"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def command(self, *more, job="penguins.yaml"):
        return [MUSTER, "run", str(SOURCE / "examples" / job), "--output", str(self.output), *more]

    def run_to_end(self, *more, **how):
        return subprocess.run(self.command(*more, **how), capture_output=True, text=True,
                              timeout=DEADLINE)

    def start(self, *more):
        process = subprocess.Popen(self.command(*more), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def summary(self):
        return json.loads((self.output / "summary.json").read_text())

    def metrics(self):
        path = self.output / "metrics.jsonl"
        if not path.exists():
            return []
        complete = path.read_text().rsplit("\n", 1)[0]
        return [json.loads(line) for line in complete.splitlines() if line]

    def wait_for_step(self, step):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if any(record.get("step", 0) >= step for record in self.metrics()):
                return
            time.sleep(0.02)
        self.fail(f"step {step} was not reached; logs:\n" + self.logs())

    def logs(self):
        return "".join(f"--- {log.name}\n{log.read_text()[-2000:]}"
                       for log in sorted((self.output / "logs").glob("*.log")))

    # Long enough to be interrupted, and with checkpoints to come back to.
    LONG = ("--workers", "2", "--set", "training.epochs=400", "--set", "checkpoint.everySteps=50")

    def test_trains_with_two_workers_and_leaves_everything(self):
        done = self.run_to_end("--workers", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        summary = self.summary()
        self.assertEqual(summary["state"], "Succeeded")
        self.assertEqual(summary["worldSize"], 2)
        self.assertGreater(summary["validation"]["accuracy"], 0.95)
        self.assertRegex(summary["parametersSha256"], "^[0-9a-f]{64}$")
        self.assertEqual(max(r["step"] for r in self.metrics()), summary["steps"])
        self.assertTrue(list((self.output / "export").glob("*.safetensors")))
        self.assertIn("validation accuracy", done.stdout)

    def test_the_same_run_twice_gives_the_same_bits(self):
        hashes = set()
        for _ in range(2):
            shutil.rmtree(self.output, ignore_errors=True)
            done = self.run_to_end("--workers", "3", "--set", "training.epochs=3")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
            hashes.add(self.summary()["parametersSha256"])
        self.assertEqual(len(hashes), 1)

    def test_json_is_one_object_a_line(self):
        done = self.run_to_end("--workers", "1", "--set", "training.epochs=3", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
        self.assertEqual(events[-1], "summary")

    def test_ctrl_c_stops_at_a_checkpoint_and_the_same_command_resumes(self):
        process = self.start(*self.LONG)
        self.wait_for_step(60)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 130, text + self.logs())
        self.assertIn("To go on from there:", text)
        self.assertEqual(self.summary()["state"], "Stopped")
        stopped_at = max(r["step"] for r in self.metrics())
        self.assertTrue(list((self.output / "checkpoints").glob(f"index-{stopped_at}*.json")),
                        f"no checkpoint of step {stopped_at}")
        done = self.run_to_end(*self.LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        steps = [r["step"] for r in self.metrics() if "loss" in r and "validation" not in r]
        self.assertEqual(len(steps), len(set(steps)), "a step was computed twice")

    def test_a_second_ctrl_c_stops_at_once(self):
        process = self.start(*self.LONG)
        self.wait_for_step(10)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, text)

    def test_a_killed_worker_is_followed_by_an_attempt_that_resumes(self):
        process = self.start(*self.LONG)
        self.wait_for_step(120)
        os.kill(children_of(process.pid)["muster-trainer"][-1], signal.SIGKILL)
        text, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, text + self.logs())
        self.assertEqual(self.summary()["restarts"], 1)
        self.assertIn("trying again from the last checkpoint", text)

    def test_nobody_outlives_the_command(self):
        process = self.start(*self.LONG)
        self.wait_for_step(5)
        everyone = [pid for pids in children_of(process.pid).values() for pid in pids]
        self.assertGreaterEqual(len(everyone), 5)  # coordinator, 2 launchers, 2 ranks
        process.kill()
        process.wait()
        end = time.monotonic() + 10
        alive = everyone
        while alive and time.monotonic() < end:
            alive = [pid for pid in everyone if self.is_alive(pid)]
        self.assertEqual(alive, [])

    @staticmethod
    def is_alive(pid):
        try:
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return text.rsplit(")", 1)[1].split()[0] != "Z"

    def test_wrong_data_end_with_3_and_without_a_retry(self):
        (self.folder / "broken.csv").write_text("a,b\n1,x\n2\n")
        done = self.run_to_end("--set", f"data.train=[{self.folder}/broken.csv]",
                               "--set", "data.tabular.output.name=b")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr + self.logs())
        self.assertRegex(done.stdout, "broken.csv")
        self.assertEqual(self.summary()["reason"], "NonRetryableExitCode")

    def test_a_wrong_job_ends_with_2_and_says_where(self):
        done = self.run_to_end("--set", "training.epochs=0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("spec.training.epochs", done.stderr)
        self.assertFalse(self.output.exists())

    def test_validate_and_help(self):
        good = subprocess.run([MUSTER, "validate", *map(str, (SOURCE / "examples").glob("*.yaml"))],
                              capture_output=True, text=True)
        self.assertEqual(good.returncode, 0, good.stderr)
        bad = subprocess.run([MUSTER, "validate", "-"], input="kind: TrainingJob\n",
                             capture_output=True, text=True)
        self.assertEqual(bad.returncode, 2)
        for command in ([], ["run"], ["validate"], ["completion"]):
            help_text = subprocess.run([MUSTER, *command, "--help"], capture_output=True, text=True)
            self.assertEqual(help_text.returncode, 0)
            self.assertTrue(re.search("Examples:", help_text.stdout), command)
        self.assertEqual(subprocess.run([MUSTER, "fly"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
