"""What the programs of this folder share: where things lie, running them, medians, tables, JSON."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
PYTHON = os.environ.get("MUSTER_ORACLE_PYTHON", str(ROOT / ".deps/oracle/bin/python"))
ONE_THREAD = dict(os.environ, OMP_NUM_THREADS="1")


def arguments(description, rounds):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds,
                        help="each round runs everything once, one after the other (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write every round's figures there")
    parser.add_argument("--build", metavar="DIR", default=str(ROOT / "build/release"),
                        help="the build to measure (%(default)s)")
    return parser


def program(build, name):
    path = pathlib.Path(build) / "bin" / name
    if not path.exists():
        sys.exit(f"{path} is missing; build it: cmake --preset release && cmake --build --preset release")
    return str(path)


def torchrun(processes):
    """The command that starts a script of the rival in so many processes, as its manual says."""
    if not pathlib.Path(PYTHON).exists():
        sys.exit(f"{PYTHON} is missing; install it: scripts/bootstrap --for-tests")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(processes),
            "--master-addr", "127.0.0.1", "--master-port", str(port)]


def last_json(command, environment=None, tries=3):
    """Runs a command to its end; the last line of its output that is a JSON object.

    PyTorch's processes abort now and then while gloo shuts down: such a run is said and repeated.
    """
    for left in reversed(range(tries)):
        done = subprocess.run(command, env=environment or ONE_THREAD, capture_output=True, text=True)
        lines = [l for l in done.stdout.splitlines() if l.startswith("{")]
        if done.returncode == 0 and lines:
            return json.loads(lines[-1])
        print(f"{' '.join(command)}\nended with {done.returncode}; {left} tries left", file=sys.stderr)
    sys.exit(done.stderr[-3000:])


def medians(rounds):
    """Of a list of flat dictionaries: the median of each field that every one of them has."""
    fields = [f for f in rounds[0] if all(f in r for r in rounds)]
    return {f: statistics.median(r[f] for r in rounds) for f in fields}


def table(head, rows):
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        first, *others = (c.ljust(w) if i == 0 else c.rjust(w)
                          for i, (c, w) in enumerate(zip(row, widths)))
        print("  ".join([first, *others]).rstrip())


def write_json(path, content):
    if path:
        pathlib.Path(path).write_text(json.dumps(content, indent=1) + "\n")
