"""The members of a run as real processes: joins, leaves, stops, deaths, strangers."""
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", SOURCE / "build/release/bin"))
PROMTOOL = SOURCE / ".deps/promtool/usr/bin/promtool"
DEADLINE = 60  # seconds, for anything that is waited for
STEPS = 250
BATCH = 30


def job(folder, workers):
    """Steps of some ten milliseconds, so that a newcomer has time to arrive."""
    return {
        "apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "members"},
        "spec": {
            "model": {"tabular": {"hidden": [1024, 1024]}},
            "data": {"format": "csv", "train": [str(SOURCE / "examples/data/penguins.csv")],
                     "validationFraction": 0.2,
                     "tabular": {"output": {"name": "species", "type": "category"}}},
            "strategy": {"type": "sync"},
            "training": {"steps": STEPS, "globalBatchSize": BATCH, "microBatchSize": 5,
                         "optimizer": {"learningRate": 1e-4}},
            "workers": {"replicas": workers},
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3},
            "checkpoint": {"path": str(folder / "checkpoints"), "everySteps": 40},
            "output": str(folder / "out"),
        }}


class MembersTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-members-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = dict(os.environ, MUSTER_TOKEN="secret", OMP_NUM_THREADS="1")
        self.epoch = 0

    def start(self, name, *command, **environment):
        log = open(self.folder / f"{name}.log", "ab")
        self.addCleanup(log.close)
        process = subprocess.Popen([str(PROGRAMS / command[0]), *command[1:]], stdout=log, stderr=log,
                                   env={**self.environment, **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_coordinator(self, workers=2, **changes):
        spec = job(self.folder, workers)
        spec["spec"].update(changes)
        (self.folder / "job.json").write_text(json.dumps(spec))
        ports = self.folder / "ports"
        ports.unlink(missing_ok=True)
        self.epoch += 1
        self.coordinator = self.start(
            "coordinator", "muster-coordinator", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--port-file", str(ports), "--spec", str(self.folder / "job.json"), "--job-uid", "uid",
            "--epoch", str(self.epoch), "--final-state", str(self.folder / "state.json"))
        self.wait_until(lambda: ports.exists() and ports.read_text(), "no ports")
        self.ports = json.loads(ports.read_text())

    def start_worker(self, number, *more, **environment):
        return self.start(f"worker-{number}", "muster-trainer", "--coordinator",
                          f"127.0.0.1:{self.ports['port']}", "--pod", f"worker-{number}",
                          "--output", str(self.folder / "out"), *more, **environment)

    def wait_until(self, condition, what):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        self.fail(what + "\n" + self.logs())

    def logs(self):
        return "".join(f"--- {log.name}\n{log.read_text()[-1500:]}"
                       for log in sorted(self.folder.glob("*.log")))

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['http']}{path}", timeout=5) as r:
            return r.read().decode()

    def state(self):
        return json.loads(self.get("/state"))

    def wait_for(self, step=0, world_size=None):
        def there():
            state = self.state()
            return state["progress"].get("step", 0) >= step and world_size in (None, state["worldSize"])
        self.wait_until(there, f"no step {step} with world size {world_size}")

    def end(self, process, code):
        try:
            self.assertEqual(process.wait(timeout=DEADLINE), code, self.logs())
        except subprocess.TimeoutExpired:
            self.fail("it did not end\n" + self.logs())

    def final_state(self):
        return json.loads((self.folder / "state.json").read_text())

    def losses(self):
        lines = (self.folder / "out/metrics.jsonl").read_text().splitlines()
        records = [r for r in map(json.loads, lines) if "validation" not in r]
        steps = [r["step"] for r in records]
        self.assertEqual(steps, list(range(1, STEPS + 1)), "each step once, in order")
        return [r["loss"] for r in records]

    def undisturbed(self):
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        for process in (*workers, self.coordinator):
            self.end(process, 0)
        losses, state = self.losses(), self.final_state()
        shutil.rmtree(self.folder / "out")
        shutil.rmtree(self.folder / "checkpoints")
        return losses, state["result"]["parametersSha256"]

    def assert_same_curve(self, losses, expected):
        for step in range(100):
            self.assertAlmostEqual(losses[step] / expected[step], 1, delta=1e-6, msg=f"step {step + 1}")

    def assert_every_sample_once(self):
        state = self.final_state()
        self.assertEqual(state["phase"], "Succeeded")
        self.assertEqual(state["result"]["samples"], STEPS * BATCH)
        self.assertEqual(state["ledger"], {"firstStep": 0, "samplesComputed": STEPS * BATCH})

    def test_a_newcomer_and_leavers_do_not_move_the_curve(self):
        expected, _ = self.undisturbed()
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        self.wait_for(step=3)
        workers.append(self.start_worker(2))
        self.wait_for(world_size=3)
        joined_at = self.state()["progress"]["step"]
        self.wait_for(step=joined_at + 3)
        workers[1].send_signal(signal.SIGTERM)
        self.end(workers[1], 75)
        self.wait_for(world_size=2)
        workers[0].send_signal(signal.SIGTERM)  # the one that writes metrics.jsonl
        self.end(workers[0], 75)
        self.wait_for(world_size=1)
        left_at = self.state()["progress"]["step"]
        self.assertLess(left_at, STEPS, "the run was over before its members had changed")
        self.end(workers[2], 0)
        self.end(self.coordinator, 0)
        self.assert_same_curve(self.losses(), expected)
        self.assert_every_sample_once()
        self.assertEqual(self.final_state()["generation"]["n"], 4)

    def stop_and_go_on(self, stop):
        """The final state after a stop in the middle and a second attempt."""
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        self.wait_for(step=10)
        stop(workers)
        for process in (*workers, self.coordinator):
            self.end(process, 75)
        stopped = self.final_state()
        self.assertEqual(stopped["phase"], "Stopped")
        self.assertGreaterEqual(stopped["checkpointStep"], 10)
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        for process in (*workers, self.coordinator):
            self.end(process, 0)
        self.assertEqual(self.final_state()["ledger"]["firstStep"], stopped["checkpointStep"])

    def test_a_stopped_run_goes_on_bit_for_bit(self):
        expected, sha256 = self.undisturbed()
        self.stop_and_go_on(lambda workers: self.coordinator.send_signal(signal.SIGTERM))
        self.assertEqual(self.losses(), expected)
        self.assertEqual(self.final_state()["result"]["parametersSha256"], sha256)

    def test_when_all_leave_the_run_stops_at_a_checkpoint(self):
        expected, _ = self.undisturbed()
        self.stop_and_go_on(lambda workers: [w.send_signal(signal.SIGTERM) for w in workers])
        self.assert_same_curve(self.losses(), expected)

    def test_a_checkpoint_loads_at_another_world_size(self):
        expected, _ = self.undisturbed()
        self.start_coordinator(workers=3)
        workers = [self.start_worker(i) for i in range(3)]
        self.wait_for(step=10)
        self.coordinator.send_signal(signal.SIGTERM)
        for process in (*workers, self.coordinator):
            self.end(process, 75)
        self.start_coordinator(workers=1)
        worker = self.start_worker(0)
        self.end(worker, 0)
        self.end(self.coordinator, 0)
        self.assert_same_curve(self.losses(), expected)

    def test_a_newcomer_that_nobody_needs_is_sent_home(self):
        self.start_coordinator(elasticPolicy={"minReplicas": 1, "maxReplicas": 2})
        workers = [self.start_worker(i) for i in range(2)]
        self.wait_for(step=3)
        leaver, waiter = self.start_worker(8), self.start_worker(9)
        self.wait_until(lambda: len(self.state()["members"]) == 4, "they did not register")
        leaver.send_signal(signal.SIGTERM)
        self.end(leaver, 75)
        for process in (*workers, self.coordinator, waiter):
            self.end(process, 0)

    def test_a_checkpoint_by_time_is_published_while_the_run_goes_on(self):
        self.start_coordinator(checkpoint={"path": str(self.folder / "checkpoints"),
                                           "everySeconds": 1})
        workers = [self.start_worker(i) for i in range(2)]
        state = self.wait_until(lambda: (s := self.state()).get("checkpointStep", -1) > 0 and s,
                                "no checkpoint")
        self.assertEqual(state["phase"], "Running")
        self.assertLess(state["checkpointStep"], STEPS)
        for process in (*workers, self.coordinator):
            self.end(process, 0)

    def disturb(self, number):
        self.start_coordinator(workers=3)
        workers = [self.start_worker(i) for i in range(3)]
        self.wait_for(step=5)
        rank = self.rank_of(workers[1])
        os.kill(rank, number)
        for process in (workers[0], workers[2], self.coordinator):
            self.end(process, 1)
        if number == signal.SIGSTOP:
            os.kill(rank, signal.SIGKILL)
        return self.final_state()["failure"]

    def rank_of(self, launcher):
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
        return int(children.split()[0])

    def test_a_killed_rank_ends_the_attempt_for_all_and_is_named(self):
        failure = self.disturb(signal.SIGKILL)
        self.assertIn("worker-1", failure["message"])
        self.assertEqual((failure["pod"], failure["reason"]), ("worker-1", "WorkerLost"))

    def test_a_stopped_rank_ends_the_attempt_for_all_and_is_named(self):
        failure = self.disturb(signal.SIGSTOP)
        self.assertIn("worker-1 has not been heard of", failure["message"])

    def test_without_the_coordinator_nobody_hangs(self):
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        self.wait_for(step=5)
        self.coordinator.kill()
        for worker in workers:
            self.end(worker, 1)

    def test_strangers_change_nothing(self):
        self.start_coordinator()
        workers = [self.start_worker(i) for i in range(2)]
        self.wait_for(step=2)
        stranger = self.start_worker(7, MUSTER_TOKEN="guessed")
        self.end(stranger, 1)
        self.assertIn("token", (self.folder / "worker-7.log").read_text())
        attacks = [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">I", 0xffffffff) + b"x" * 100,
                   struct.pack(">I", 10) + b"not json!!", struct.pack(">I", 2) + b"{}",
                   struct.pack(">I", 4) + b"null", b"", os.urandom(4096)]
        sockets = []
        for attack in attacks:
            peer = socket.create_connection(("127.0.0.1", self.ports["port"]), timeout=5)
            self.addCleanup(peer.close)
            try:
                peer.sendall(attack)
            except OSError:
                pass  # it has already hung up
            sockets.append(peer)
        for process in (*workers, self.coordinator):
            self.end(process, 0)
        self.assert_every_sample_once()

    def test_metrics_are_clean_for_promtool(self):
        self.start_coordinator()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        workers = [self.start_worker(0, "--metrics", f"127.0.0.1:{port}"), self.start_worker(1)]
        self.wait_for(step=5)
        pod = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        for text in (self.get("/metrics"), pod):
            done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        for part in ("data", "forward", "backward", "communication", "optimizer"):
            self.assertIn(part, pod)
        for process in (*workers, self.coordinator):
            self.end(process, 0)

    def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            (self.folder / "job.json").write_text(json.dumps(job(self.folder, 1)))
            for flag in ("--listen", "--http"):
                process = self.start("taken", "muster-coordinator", flag, address, "--spec",
                                     str(self.folder / "job.json"))
                self.end(process, 1)
            log = (self.folder / "taken.log").read_text()
            self.assertEqual(log.count(f"cannot listen on {address}: Address already in use"), 2, log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
