"""muster run, as a user meets it: real processes, a real model, signals, and what is left behind."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", SOURCE / "build/release/bin"))
MUSTER = str(PROGRAMS / "muster")
DEADLINE = 180  # seconds, for anything that is waited for
# A shell that runs us in the background has it ignored, and muster would go by that.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
        self.assertEqual(self.summary()["steps"], max(r["step"] for r in self.metrics()))
        stopped_at = max(r["step"] for r in self.metrics())
        self.assertTrue(list((self.output / "checkpoints").glob(f"index-{stopped_at}*.json")),
                        f"no checkpoint of step {stopped_at}")
        done = self.run_to_end(*self.LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        steps = [r["step"] for r in self.metrics() if "loss" in r and "validation" not in r]
        self.assertEqual(len(steps), len(set(steps)), "a step was computed twice")

    def test_ctrl_c_before_the_first_step_ends_soon_and_says_so(self):
        process = self.start(*self.LONG)
        self.assertIn("2 workers", process.stdout.readline())  # and the first attempt begins
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 130, text)
        # On a fast machine a step may have been made all the same.
        self.assertIn("before the first step" if self.summary()["steps"] == 0
                      else "a checkpoint of step", text)

    def test_two_runs_do_not_share_a_folder(self):
        process = self.start(*self.LONG)
        self.wait_for_step(5)
        second = self.run_to_end(*self.LONG)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another `muster run` uses", second.stderr)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 130, text)

    def test_a_job_that_has_changed_is_said(self):
        self.run_to_end("--set", "training.epochs=2")
        done = self.run_to_end("--set", "training.epochs=3", "--set", "training.seed=9")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("changed since the last run in this folder: spec.training.seed;", done.stdout)
        done = self.run_to_end("--set", "training.epochs=4", "--set", "training.seed=9")
        self.assertNotIn("changed", done.stdout)

    def test_a_finished_job_is_only_shown_again(self):
        for _ in range(2):
            done = self.run_to_end("--set", "training.epochs=2", "--set", "data.validationFraction=null")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("validation", done.stdout + json.dumps(self.summary()))

    def test_a_taken_metrics_port_is_named_at_once(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.run_to_end("--metrics-port", str(taken.getsockname()[1]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Address already in use", done.stderr)

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
        self.assertEqual((self.summary()["restarts"], self.summary()["recoveries"]), (1, 1))
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

    def test_the_curve_does_not_depend_on_the_world_size(self):
        curves = {}
        for workers in (1, 2, 3, 5):
            shutil.rmtree(self.output, ignore_errors=True)
            done = self.run_to_end("--workers", str(workers), "--set", "training.epochs=12")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
            curves[workers] = [r["loss"] for r in self.metrics() if "validation" not in r][:100]
        self.assertEqual(len(curves[1]), 100)
        for workers in (2, 3, 5):
            for step, (one, many) in enumerate(zip(curves[1], curves[workers])):
                self.assertAlmostEqual(many / one, 1, delta=1e-6, msg=f"{workers}, step {step + 1}")

    def test_every_transport_gives_the_same_bits(self):
        for workers in ("3", "5"):
            hashes = set()
            for transport in ("shared-memory", "tcp"):
                shutil.rmtree(self.output, ignore_errors=True)
                done = self.run_to_end("--workers", workers, "--transport", transport,
                                       "--set", "training.epochs=3")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
                self.assertIn(f"transport={transport}", self.logs())
                hashes.add(self.summary()["parametersSha256"])
            self.assertEqual(len(hashes), 1)

    HEADER = "a,b,species\n"
    GOOD = "1,x,A\n2,y,B\n3,x,A\n4,y,B\n5,x,A\n"

    def wrong_data(self, text, *more):
        """What `muster run` says about a table that it cannot train on."""
        path = self.folder / "table.csv"
        if text is not None:
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        done = self.run_to_end("--set", f"data.train=[{path}]", *more)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr + self.logs())
        self.assertEqual(self.summary()["reason"], "NonRetryableExitCode")
        self.assertNotIn("trying again", done.stdout)
        return done.stdout

    def test_wrong_data_end_with_3_named_and_without_a_retry(self):
        rows = self.HEADER + self.GOOD
        self.assertIn("table.csv:4: ", self.wrong_data(self.HEADER + "1,x,A\n2,y,B\n3,x\n"))
        self.assertIn("table.csv:7: column 'a'", self.wrong_data(rows + "inf,x,A\n"))
        self.assertIn("table.csv:7: column 'a': '1e999'", self.wrong_data(rows + "1e999,x,A\n"))
        self.assertIn("table.csv:7: column 'species'", self.wrong_data(rows + "1,x,\n"))
        for text in ("", self.HEADER, b"a,b,species\n1,\xff,A\n"):
            self.assertIn("table.csv", self.wrong_data(text))
        other = self.folder / "other.csv"
        other.write_text(self.HEADER + "1,x,C\n")
        text = self.wrong_data(rows, "--set", f"data.validation=[{other}]",
                               "--set", "data.validationFraction=0")
        self.assertIn("other.csv:2: column 'species'", text)
        self.assertIn("'C'", text)

    def test_files_that_cannot_be_read_are_named(self):
        self.assertIn("table.csv", self.wrong_data(None))
        (self.folder / "table.csv").mkdir()
        self.assertIn("table.csv", self.wrong_data(None))

    def test_missing_values_and_unseen_categories_are_no_errors(self):
        table, other = self.folder / "table.csv", self.folder / "other.csv"
        table.write_text(self.HEADER + self.GOOD + "NA,,A\n,x,B\n")
        other.write_text(self.HEADER + "1,never seen,A\n,,B\n")
        done = self.run_to_end("--set", f"data.train=[{table}]", "--set",
                               f"data.validation=[{other}]", "--set", "data.validationFraction=0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())

    def test_a_full_disk_is_named_and_the_job_goes_on_from_the_last_checkpoint(self):
        process = self.start(*self.LONG)
        self.wait_for_step(60)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        before = sorted(p.name for p in (self.output / "checkpoints").glob("index-*.json"))
        limited = subprocess.run(
            ["bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "bash", *self.command(*self.LONG),
             "--set", "runPolicy.backoffLimit=0"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(limited.returncode, 1, limited.stdout + limited.stderr)
        self.assertIn("File too large", limited.stdout)
        after = sorted(p.name for p in (self.output / "checkpoints").glob("index-*.json"))
        self.assertEqual(after, before)
        done = self.run_to_end(*self.LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())

    def test_killed_at_any_moment_it_resumes(self):
        """Everything dies at once, checkpoints being written all the time."""
        often = ("--workers", "2", "--set", "training.epochs=4000", "--set",
                 "checkpoint.everySteps=3", "--set", "checkpoint.keep=2")
        reached = 0
        for i in range(10):
            process = self.start(*often)
            self.wait_for_step(reached + 20 + 7 * i)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE)
            reached = max(r["step"] for r in self.metrics())
            indexes = list((self.output / "checkpoints").glob("index-*.json"))
            self.assertTrue(indexes)
        process = self.start(*often)
        self.wait_for_step(reached + 20)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 130, text)
        steps = [r["step"] for r in self.metrics() if "validation" not in r]
        self.assertEqual(steps, list(range(1, len(steps) + 1)), "each step once, in order")
        resumed = [line for line in (self.output / "logs/worker-0.log").read_text().splitlines()
                   if "resumed" in line]
        self.assertTrue(resumed, "the last run began anew")

    def test_a_run_that_diverges_ends_with_4_or_goes_on_as_the_job_says(self):
        wild = ("--set", "training.optimizer.learningRate=1e30", "--set", "training.epochs=3")
        done = self.run_to_end(*wild)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr + self.logs())
        self.assertEqual(self.summary()["reason"], "Diverged")
        self.assertIn("learningRate", done.stdout)
        shutil.rmtree(self.output)
        done = self.run_to_end(*wild, "--set", "training.onDivergence=Continue")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.assertIn("update is left out", self.logs())

    def test_a_run_stops_early_when_validation_improves_no_more(self):
        done = self.run_to_end("--set", "training.epochs=4000", "--set",
                               "training.earlyStopping={metric: validation_loss, patience: 3}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.assertLess(self.summary()["steps"], 4000)

    def test_workers_serve_metrics_where_they_are_told_to(self):
        port = random.randint(20000, 50000)
        process = self.start(*self.LONG, "--metrics-port", str(port))
        self.wait_for_step(5)
        for worker in range(2):
            url = f"http://127.0.0.1:{port + worker}/metrics"
            text = urllib.request.urlopen(url, timeout=5).read().decode()
            self.assertIn("muster_", text)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)

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
