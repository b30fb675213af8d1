"""The examples of services/python/examples train on the cluster, and what they learn is what the data have."""

import contextlib
import os
import re
import shutil
import socket
import sys

from hosted import ROOT, expect, program, write

import numpy as np

EXAMPLES = ROOT / "services/python/examples"


def train(name, *arguments, settings=()):
    """Runs an example by `simurgh train`. Returns the test AUC."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    with contextlib.ExitStack() as stack:  # All ports at once, so that they differ.
        ports = [stack.enter_context(socket.socket()) for _ in re.findall(r"127\.0\.0\.1:\d+", text)]
        for port in ports:
            port.bind(("127.0.0.1", 0))
        text = re.sub(r"127\.0\.0\.1:\d+", lambda _: "127.0.0.1:%d" % ports.pop().getsockname()[1], text)
    with open(f"{name}.yaml", "w") as file:
        file.write(text)
    shutil.copy(EXAMPLES / f"{name}.py", ".")
    words = [f"--set={setting}" for setting in settings]
    run = program("simurgh", "train", f"{name}.yaml", *words, "--", sys.executable, f"{name}.py", *arguments,
                  env={**os.environ, "PYTHONPATH": str(ROOT / "services/python")})
    found = re.search(r"test_auc=(\S+)", run.out)
    return float(found[1]) if found else 0.0


# Data of datagen has a teacher, whose AUC is printed.
def check_dlrm():
    for path, first, samples in (("train.tsv", 0, 60_000), ("test.tsv", 60_000, 10_000)):
        program("datagen", "--output", path, "--samples", samples, "--first", first, "--distinct-ids", 2000)
    auc = train("dlrm", settings=["training.batch_size=256"])
    expect(auc > 0.74, f"dlrm: test AUC {auc}")


# A user of kind k clicks on items of kind k: the history alone tells the kind.
def check_history():
    random = np.random.default_rng(1)

    def rows(count):
        kind = random.integers(0, 4, count)
        item = random.integers(0, 80, count)
        history = [
            "|".join(f"i{4 * number + k}" for number in random.integers(0, 20, random.integers(0, 9)))
            for k in kind
        ]
        clicked = random.random(count) < np.where(item % 4 == kind, 0.8, 0.2)
        return [(int(c), f"i{i}", h) for c, i, h in zip(clicked, item, history)]

    write("train.csv", ["clicked", "item", "history"], rows(20_000))
    write("test.csv", ["clicked", "item", "history"], rows(4_000))
    # 1/9 of the users have no history. With full knowledge the AUC is 0.74.
    auc = train("history")
    expect(auc > 0.7, f"history: test AUC {auc}")


# The log odds are a sum over site, ad, pair and hour.
def check_fed():
    try:
        import polars  # noqa: F401
    except ImportError:
        print("polars is missing: fed.py is not run")
        return
    random = np.random.default_rng(2)
    rows = 60_000
    site, ad = random.integers(0, 20, rows), random.integers(0, 20, rows)
    time = random.integers(0, 10**6, rows)
    pair = random.normal(0, 1, (20, 20))[site, ad]
    odds = 1.5 * pair + 0.5 * ((time % 86_400) // 3_600 > 12)
    clicked = random.random(rows) < 1 / (1 + np.exp(-odds))
    write("clicks.csv", ["clicked", "site", "ad", "time"],
          zip(clicked.astype(int), (f"s{one}" for one in site), (f"a{one}" for one in ad), time))
    write("test.csv", ["clicked", "site", "ad", "pair", "hour"],
          ((int(c), f"s{s}", f"a{a}", f"s{s}/a{a}", t % 86_400 // 3_600)
           for c, s, a, t in zip(clicked[:4000], site, ad, time)))
    auc = train("fed", "clicks.csv", settings=["data.test=[test.csv]"])
    expect(auc > 0.75, f"fed: test AUC {auc}")


check_dlrm()
check_history()
check_fed()
