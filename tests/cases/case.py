"""What the cases share: data with a known structure, the programs, and expectations.

A case is a program of its own, NAME_case.py. It makes its files in a temporary folder, runs the
programs of SIMURGH_BIN_DIR there, and ends with 1 if an expectation failed. It exits with 77, which
CTest reports as skipped, if something that it needs is missing.
"""

import atexit
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is missing")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SIMURGH_BIN_DIR", ROOT / "build/release/bin")).resolve()

_folder = tempfile.mkdtemp(prefix="simurgh-case-")
os.chdir(_folder)
_failures = []


def _end():
    os.chdir("/")
    shutil.rmtree(_folder, ignore_errors=True)
    if _failures:
        sys.stdout.flush()
        os._exit(1)


atexit.register(_end)


def expect(holds, what):
    """Reports `what` if it does not hold. The case continues, and ends with 1."""
    if not holds:
        _failures.append(what)
        print(f"FAILED: {what}", flush=True)


def until(holds, what, patience=60):
    """Waits until holds() is true. For what another process does, which can only be asked."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"not in {patience} s: {what}")
        time.sleep(0.01)


def skip(reason):
    """Ends the case; CTest reports it as skipped."""
    print(f"SKIPPED: {reason}", flush=True)
    os._exit(77)


class Output:
    """What a program printed: stdout, stderr and both together; its exit code."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr
        self.all = process.stdout + process.stderr

    def line(self, pattern):
        """The first line that matches, or an empty text."""
        return next((line for line in self.all.splitlines() if re.search(pattern, line)), "")

    def value(self, key):
        """The number of `key=number` in the last line that has it; NaN if none has."""
        found = re.findall(rf"\b{re.escape(key)}=([-+.\deE]+)", self.all)
        return float(found[-1]) if found else float("nan")


def simurgh(*words, code=0, **options):
    """Runs `simurgh WORDS`. Expects the exit code unless it is None."""
    return program("simurgh", *words, code=code, **options)


def program(name, *words, code=0, **options):
    """Runs a program of SIMURGH_BIN_DIR. Expects the exit code unless it is None."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 500, **options}
    command = [str(BIN / name), *map(str, words)]
    done = Output(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 encoding="utf-8", errors="surrogateescape", **options))
    if code is not None and done.code != code:
        expect(False, f"{' '.join(command)}: exit code {done.code}, expected {code}; it printed:\n"
                      f"{done.all[-3000:]}")
    return done


def clicks(rows=3000, seed=7, items=40, users=200):
    """Users, items, prices, hours, labels and log odds. Labels depend on all but the hours."""
    random = np.random.default_rng(seed)
    user = random.integers(0, users, rows)
    item = random.integers(0, items, rows)
    price = np.round(np.exp(random.normal(2, 1, rows)), 2)
    hour = random.integers(0, 24, rows)
    of_user = np.random.default_rng(1).normal(0, 1.2, users)
    of_item = np.random.default_rng(2).normal(0, 1.2, items)
    odds = of_user[user] + of_item[item] - 0.5 * (np.log(price) - 2) - 0.3
    label = (random.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return user, item, price, hour, label, odds


def write(path, header, rows, separator=",", encoding="utf-8"):
    """Writes rows of cells as CSV, with a header unless it is empty."""
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        if header:
            writer.writerow(header)
        writer.writerows(rows)


def free_port():
    """A TCP port of the loopback interface that was free just now."""
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def cluster_yaml():
    """The start of a configuration with one server and one worker at free ports."""
    return (f'cluster: {{name: case}}\n'
            f'embedding_ps: {{instances: [{{address: "127.0.0.1:{free_port()}"}}]}}\n'
            f'embedding_worker: {{instances: [{{address: "127.0.0.1:{free_port()}"}}]}}\n')
