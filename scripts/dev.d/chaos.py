"""Implements scripts/dev chaos."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = "build/release/bin/simurgh"
FAILURES = "build/chaos"
# Ranks, loaders, embedding workers, mode. A stop by SIGTERM saves at another step, which only
# mode sync does not notice in the bits.
SHAPES = [(2, 2, 1, "sync"), (1, 0, 1, "hybrid"), (2, 0, 2, "hybrid"), (1, 2, 2, "sync")]
# In every other round most rows are on disk. The undisturbed training has all in memory.
MEMORY_ROWS = 24
QUIET_AFTER = 120  # Seconds of a round; it must then end within as many more.


def model_of(folder):
    """The place of a model: in the folder, or in the bucket of tests/support/with_bucket.sh."""
    bucket = os.environ.get("SIMURGH_TEST_BUCKET")
    return f"{bucket}/{'-'.join(folder.split('/')[-2:])}" if bucket else f"{folder}/model"


def command(folder, logs, shape, memory_rows=0):
    ranks, loaders, workers, mode = shape

    def listed(name, count):
        return ",".join(f"{{address: 'unix://{folder}/{name}-{i}'}}" for i in range(count))

    settings = [
        f"embedding_ps.instances=[{listed('ps', 2)}]",
        f"embedding_worker.instances=[{listed('worker', workers)}]",
        f"nn_worker.instances=[{listed('nn', ranks)}]",
        f"loaders.instances=[{','.join(['{}'] * loaders)}]",
        f"checkpoint.directory={model_of(folder)}",
        "checkpoint.every_steps=250",
        "training.max_steps=4000",
        "training.epochs=1000",
        "training.batch_size=32",
        f"training.mode={mode}",
    ]
    if mode == "hybrid":
        settings += ["training.staleness=4", "training.reproducible=true"]
    if memory_rows:
        settings += [f"tables.0.memory_rows={memory_rows}", f"embedding_ps.cold_directory={folder}"]
    words = [PROGRAM, "train", "config/adult-persia.yaml", "--logs", f"{folder}/{logs}"]
    return words + [word for one in settings for word in ("--set", one)]


def start(folder, logs, shape, memory_rows=0):
    with open(f"{folder}/{logs}.err", "w") as errors:
        return subprocess.Popen(
            command(folder, logs, shape, memory_rows), stdout=subprocess.PIPE, stderr=errors, text=True)


def daemons(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        return [child for child in children if b"--check-config" not in cmdline(child)]
    except OSError:
        return []


def cmdline(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def disturb(process, choices, paused, may_stop):
    """Returns whether the command was asked to stop."""
    victims = daemons(process.pid)
    if not victims:
        return False
    victim = choices.choice(victims)
    what = choices.random()
    if what < 0.04:
        send(process.pid, signal.SIGKILL)
    elif what < 0.08 and may_stop:
        send(process.pid, signal.SIGTERM)
        return True
    elif what < 0.6:
        send(victim, signal.SIGKILL)
    else:
        send(victim, signal.SIGSTOP)
        paused[victim] = time.time() + choices.choice([0.1, 0.5, 2, 4, 8])
    return False


def resume(paused, now):
    for victim in [one for one, end in paused.items() if end <= now]:
        send(victim, signal.SIGCONT)
        del paused[victim]


def attempt(process, choices, quiet_at, may_stop):
    """Disturbs a command until it ends. Returns what it printed, and whether it may fail."""
    paused, stopped = {}, False
    next_at = time.time() + choices.uniform(0.2, 2.5)
    while process.poll() is None:
        now = time.time()
        if now > quiet_at + QUIET_AFTER:
            process.kill()
            raise RuntimeError("it hangs")
        resume(paused, float("inf") if now > quiet_at else now)
        if next_at < now < quiet_at:
            stopped |= disturb(process, choices, paused, may_stop and not stopped)
            next_at = now + choices.uniform(0.2, 2.5)
        time.sleep(0.02)
    resume(paused, float("inf"))
    return process.stdout.read(), stopped


def result_of(output):
    """The tests' result. A command that was killed at its end says at its next start that nothing is left to do."""
    return re.search(r"test_auc=\S+ test_logloss=\S+", output)[0]


def disturbed(folder, shape, choices, memory_rows):
    quiet_at = time.time() + QUIET_AFTER
    for number in range(1, 1000):
        logs = f"logs-{number}"
        process = start(folder, logs, shape, memory_rows)
        output, may_fail = attempt(process, choices, quiet_at, shape[3] == "sync")
        if "test_auc=" in output:
            return output, number
        with open(f"{folder}/{logs}.err") as errors:
            may_fail |= "times without a new checkpoint" in errors.read()
        if process.returncode not in (0, -signal.SIGKILL) and not may_fail:
            raise RuntimeError(f"attempt {number} ended with code {process.returncode}")
    raise RuntimeError("it does not end")


def main():
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    end = time.time() + seconds
    expected = {}
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        while time.time() < end:
            shape = SHAPES[seed % len(SHAPES)]
            memory_rows = MEMORY_ROWS if seed % 2 else 0
            if shape not in expected:
                calm = f"{work}/calm-{len(expected)}"
                os.mkdir(calm)
                expected[shape] = (calm, start(calm, "logs", shape).communicate()[0])
            calm, calm_output = expected[shape]
            folder = f"{work}/{seed}"
            os.mkdir(folder)
            begin = time.time()
            try:
                output, attempts = disturbed(folder, shape, random.Random(seed), memory_rows)
                diff = subprocess.run(
                    [PROGRAM, "model", "diff", model_of(calm), model_of(folder)],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                same = result_of(output) == result_of(calm_output)
                problem = "" if diff.returncode == 0 and same else f"models differ: {diff.stdout}"
            except RuntimeError as error:
                attempts, problem = "?", str(error)
            print(f"seed={seed} shape={shape} memory_rows={memory_rows} attempts={attempts} "
                  f"seconds={time.time() - begin:.0f} {problem or 'equal'}", flush=True)
            if problem:
                failures += 1
                os.makedirs(FAILURES, exist_ok=True)
                shutil.move(folder, f"{FAILURES}/{seed}")
            shutil.rmtree(folder, ignore_errors=True)
            seed += 1
    sys.exit(1 if failures else 0)


main()
