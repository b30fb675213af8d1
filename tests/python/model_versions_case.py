"""Answers of simurgh.Model while new versions appear, full ones and deltas: each is of exactly one version."""

import collections
import os
import pathlib
import shutil
import threading
import time

from package import ROOT, simurgh
from case import expect, program, skip

import numpy as np

try:
    import polars
except ImportError:
    skip("polars is missing")

THREADS = 8
COLUMNS = ("age workclass fnlwgt education education_num marital_status occupation relationship race gender capital_gain "
           "capital_loss hours_per_week native_country income").split()

text = (ROOT / "config/adult.yaml").read_text().replace("data/adult/", f"{ROOT}/config/data/adult/")
pathlib.Path("adult.yaml").write_text(text.replace("127.0.0.1:7521", "127.0.0.1:0"))
settings = ["checkpoint.directory=all", "checkpoint.every_steps=15", "checkpoint.full_every=5", "checkpoint.keep=100",
            "training.max_steps=240", "training.batch_size=64", "data.test=[]", "nn_worker.instances=[{}]"]
program("nn-worker", "--config", "adult.yaml", "--standalone", "--log-level", "warn",
        *(word for one in settings for word in ("--set", one)))
rows = polars.read_csv(ROOT / "config/data/adult/adult.test.csv.zst", has_header=False, new_columns=COLUMNS).head(300)
program("simurgh", "export", "embeddings", "--model", "all", "--table", "occupation", "--output", "occupation.npz")
ids = np.load("occupation.npz")["id"]

# What each version answers, alone.
steps = sorted(int(path.name.split("-")[1]) for path in pathlib.Path("all").glob("step-*"))
wanted = {}
for step in steps:
    with simurgh.Model("all", version=step) as model:
        features = model.features(rows)
        wanted[step] = {"predict": model.predict(rows), "features": np.concatenate([features.joined, features.dense], 1),
                        "rows": model.rows("occupation", ids)[0]}
with simurgh.Model("all") as model:
    deltas = [version.step for version in model.versions() if version.parent is not None]
expect(len(steps) == 16 and len(deltas) >= 10, f"versions: {steps}, of which deltas: {deltas}")
for part in ("predict", "features", "rows"):
    answers = {wanted[step][part].tobytes() for step in steps}
    expect(len(answers) == len(steps), f"{part}: the versions differ")


def publish(step):
    """Adds a version to the followed folder, as a training does."""
    shutil.copytree(f"all/step-{step}", f"live/step-{step}.tmp")
    os.rename(f"live/step-{step}.tmp", f"live/step-{step}")
    pathlib.Path("live/latest.new").write_text(f"step-{step}\n")
    os.rename("live/latest.new", "live/latest")


os.mkdir("live")
publish(steps[0])
problems = []
seen = collections.Counter()
ended = threading.Event()


def ask(number):
    random = np.random.default_rng(number)
    last = 0
    while not ended.is_set():
        part = ("predict", "features", "rows")[random.integers(3)]
        claimed = None
        if part == "predict":
            answer = model.predict(rows)
        elif part == "features":
            features = model.features(rows)
            answer, claimed = np.concatenate([features.joined, features.dense], 1), features.step
        else:
            answer = model.rows("occupation", ids)[0]
        found = [step for step in steps if np.array_equal(answer, wanted[step][part])]
        if len(found) != 1 or claimed not in (None, found[0]):
            far = {step: float(np.abs(answer - wanted[step][part]).max()) for step in steps}
            problems.append(f"{part} is of {found}, and says {claimed}; differences: {far}")
            return
        if found[0] < last:
            problems.append(f"{part} is of step {found[0]} after an answer of step {last}")
            return
        last = found[0]
        seen[part, last] += 1


with simurgh.Model("live", follow=True) as model:
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for step in steps[1:]:
        publish(step)
        deadline = time.monotonic() + 30
        while model.step != step and time.monotonic() < deadline and not problems:
            time.sleep(0.01)
        expect(model.step == step or problems, f"step {step} is not used after 30 s, but {model.step}")
    ended.set()
    for thread in threads:
        thread.join()
expect(not problems, "\n".join(problems[:3]))
answered = {step for _, step in seen}
expect(len(answered) > 10, f"versions with answers: {sorted(answered)}")
print(f"{sum(seen.values())} answers of {len(answered)} versions", flush=True)
