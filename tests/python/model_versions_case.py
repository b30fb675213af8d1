"""Answers of simurgh.Model while new versions appear, full ones and deltas: each is of exactly one version."""

import collections
import os
import pathlib
import shutil
import threading
import time

from package import ROOT, raises, simurgh
from case import expect, program, skip, until

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
        until(lambda: model.step == step or problems, f"step {step} is used")
    ended.set()
    for thread in threads:
        thread.join()
expect(not problems, "\n".join(problems[:3]))
answered = {step for _, step in seen}
expect(len(answered) > 10, f"versions with answers: {sorted(answered)}")
print(f"{sum(seen.values())} answers of {len(answered)} versions", flush=True)

# A version with other inputs is an error: its arrays have other columns than those that the program knows.
small = {"label": [0, 1] * 50, "site": [f"s{i % 7}" for i in range(100)], "ad": [f"a{i % 5}" for i in range(100)],
         "age": [20.5 + i for i in range(100)], "hour": [float(i % 24) for i in range(100)]}
polars.DataFrame(small).write_csv("small.csv")
for number, (ids, dense) in enumerate(((("site", "ad"), ("age", "hour")), (("site", "ad"), ("age",)),
                                       (("ad", "site"), ("age", "hour")), (("site", "ad"), ("hour", "age")),
                                       (("site", "ad"), ("age", "hour")))):
    columns = [("label", "label"), *((name, "id") for name in ids), *((name, "dense") for name in dense)]
    lines = [f"    - {{name: {name}, kind: {kind}}}" for name, kind in columns]
    pathlib.Path("small.yaml").write_text("\n".join(["data:", "  train: [small.csv]", "  columns:", *lines, "model: dlrm"]))
    program("nn-worker", "--config", "small.yaml", "--standalone", "--log-level", "warn", "--set", f"training.max_steps={number + 1}",
            "--set", "training.epochs=9", "--set", "training.batch_size=20", "--set", f"checkpoint.directory=small-{number}")
    if number == 0:
        shutil.copytree("small-0", "small")
        model = simurgh.Model("small", follow=True, overrides=["serving.poll=5ms"], log_level="error")
        before = model.features(small)
        continue
    shutil.copytree(f"small-{number}/step-{number + 1}", f"small/step-{number + 1}")
    pathlib.Path("small/latest.new").write_text(f"step-{number + 1}\n")
    os.rename("small/latest.new", "small/latest")
    if number == 4:  # As the first one.
        break
    deadline = time.monotonic() + 30
    found = ""
    while f"step-{number + 1}:" not in found and time.monotonic() < deadline:
        try:
            expect(model.features(small).step == 1, f"{ids}, {dense}: features of another configuration")
        except simurgh.InvalidError as error:
            found = str(error)
    expect(f"step-{number + 1}:" in found and "open the model again" in found, f"{ids}, {dense}: {found}")
    for call in (lambda: model.predict(small), lambda: model.rows("ad", [1]), lambda: model.step):
        raises(simurgh.InvalidError, call, "open the model again")
deadline = time.monotonic() + 30
step = 0
while step != 5 and time.monotonic() < deadline:
    try:
        step = model.step
    except simurgh.InvalidError:
        pass
after = model.features(small)
expect(after.step == 5 and after.dense.shape == before.dense.shape, "a version with the first inputs is used again")
