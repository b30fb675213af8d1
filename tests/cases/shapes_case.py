"""Shapes of data on which training once diverged, or learned nothing without a word."""

import json
import re

import numpy as np

from case import clicks, cluster_yaml, expect, simurgh, write


def wide(columns):
    """Many id columns, of which six tell something: training does not diverge."""
    random = np.random.default_rng(1)
    rows = 2000
    values = random.integers(0, 5, (rows, columns))
    weights = random.normal(0, 1.5, (6, 5))
    odds = sum(weights[k][values[:, k]] for k in range(6))
    label = (random.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    write("wide.csv", ["label"] + [f"c{k}" for k in range(columns)],
          [[label[i]] + [f"v{x}" for x in values[i]] for i in range(rows)])
    simurgh("init", "wide.csv")
    done = simurgh("train", "wide.yaml", "--set", "training.epochs=4",
                   "--set", "training.progress_interval=100ms")
    losses = [float(x) for x in re.findall(r"progress: .* loss=([\d.]+)", done.err)]
    expect(losses and max(losses) < 1.2, f"{columns} columns: losses {losses}")
    expect(done.value("test_logloss") < 0.75, f"{columns} columns: {done.out}")
    expect(done.value("test_auc") > 0.7, f"{columns} columns: {done.out}")


def numbers():
    """A label with mean 250,000: predictions are in its unit, near the noise of 20,000."""
    user, item, price, _, _, odds = clicks(8000)
    noise = np.random.default_rng(3).normal(0, 20000, 8000)
    target = (250000 + 80000 * odds + noise).round(2)
    rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, target))
    write("numbers.csv", ["user", "item", "price", "target"], rows)
    simurgh("init", "numbers.csv", "--label", "target")
    done = simurgh("train", "numbers.yaml")
    expect(done.value("test_rmse") < 26000, f"init and train: {done.out}")
    expect(abs(done.value("test_calibration") - 1) < 0.05, done.out)
    # Predictions of a file agree with the test.
    again = simurgh("predict", "--model", "numbers-model", "--input", "numbers.test.csv",
                    "--output", "scores.csv", "--evaluate")
    expect(abs(again.value("test_rmse") / done.value("test_rmse") - 1) < 1e-4, again.all)
    with open("scores.csv") as file:
        scores = [float(line) for line in file.read().split()[1:]]
    tested = np.loadtxt("numbers.test.csv", delimiter=",", skiprows=1, usecols=3)
    own = np.sqrt(np.mean((np.array(scores) - tested) ** 2))
    expect(abs(own / done.value("test_rmse") - 1) < 1e-3, f"{own} of scores.csv, {done.out}")


def pairs_of_numbers():
    """The same label in libsvm."""
    user, item, price, _, _, odds = clicks(6000)
    noise = np.random.default_rng(3).normal(0, 20000, 6000)
    target = 250000 + 80000 * odds + noise
    for name, part in (("train.svm", slice(0, 4200)), ("valid.svm", slice(4200, 5000)),
                       ("test.svm", slice(5000, 6000))):
        with open(name, "w") as file:
            for u, i, p, t in zip(user[part], item[part], np.log(price[part]), target[part]):
                file.write(f"{t:.2f} {u + 1}:1 {i + 201}:1 300:{p:.4f}\n")
    with open("svm.yaml", "w") as file:
        file.write(cluster_yaml() + "data: {format: libsvm, train: [train.svm], validation: "
                   "[valid.svm], test: [test.svm]}\nmodel: {wide_deep: , loss: {kind: "
                   "squared_error}}\n")
    done = simurgh("train", "svm.yaml")
    expect(done.value("test_rmse") < 40000, f"libsvm: {done.out}")


def weights():
    """Weights times 1000 train the same model, and a line says that they are divided."""
    user, item, price, _, label, _ = clicks(3000)
    results = []
    for factor in (1, 1000):
        write("weights.csv", ["user", "item", "label", "weight"],
              zip([f"u{x}" for x in user], [f"i{x}" for x in item], label,
                  [factor * (1 + x % 2) for x in user]))
        with open("weights.yaml", "w") as file:
            file.write(cluster_yaml() + "data: {train: [weights.csv], test: [weights.csv], columns: "
                       "[{name: user, kind: id}, {name: item, kind: id}, {name: label, kind: "
                       "label}, {name: weight, kind: weight}]}\nmodel: deepfm\n")
        results.append(simurgh("train", "weights.yaml"))
    first, second = results
    expect(abs(first.value("test_logloss") - second.value("test_logloss")) < 1e-3,
           f"{first.out}{second.out}")
    expect(second.line("weights are divided by their mean"), second.err[-2000:])


def full_table():
    """A full table that evicts ids in use: one warning with its name and capacity."""
    random = np.random.default_rng(3)
    user = random.integers(0, 3000, 30000)
    of_user = random.normal(0, 1.5, 3000)
    label = (random.random(30000) < 1 / (1 + np.exp(-of_user[user]))).astype(int)
    write("full.csv", ["user", "label"], zip([f"u{x}" for x in user], label))
    for capacity, lines in ((500, 2), (5000, 0)):
        with open("full.yaml", "w") as file:
            file.write(cluster_yaml() + "data: {train: [full.csv], test: [full.csv], columns: "
                       "[{name: user, kind: id}, {name: label, kind: label}]}\n"
                       f"tables: [{{name: user, capacity_rows: {capacity}}}]\nmodel: wide_deep\n"
                       f"checkpoint: {{directory: full-{capacity}}}\n")
        done = simurgh("train", "full.yaml")
        found = [line for line in done.err.splitlines() if "a full table evicts rows" in line]
        expect(len(found) == lines, f"capacity {capacity}: {found}")
        if lines:
            expect(f"table=user capacity_rows={capacity}" in "".join(found), found)
        simurgh("report", f"full-{capacity}", "--json", "full.json", "--importance-rows", "0")
        with open("full.json") as file:
            evicted = {table["name"]: table["evicted"] for table in json.load(file)["tables"]}
        users = len(set(user))
        expect(evicted["user"] >= users - capacity if lines else evicted["user"] == 0, f"{capacity}: {evicted}")


def doubtful():
    """Ids that training has not seen, and a column that is the label, each have one warning."""
    user, item, _, _, label, _ = clicks(3000)
    write("train.csv", ["user", "item", "leak", "label"],
          zip([f"u{x}" for x in user], [f"i{x}" for x in item], [f"x{x}" for x in label], label))
    write("test.csv", ["user", "item", "leak", "label"],
          zip([f"U{x}" for x in user], [f"i{x}" for x in item], [f"x{x}" for x in label], label))
    for leaks, test in ((False, "train.csv"), (False, "test.csv"), (True, "train.csv")):
        with open("doubtful.yaml", "w") as file:
            file.write(cluster_yaml() + f"data: {{train: [train.csv], test: [{test}], columns: "
                       "[{name: user, kind: id}, {name: item, kind: id}, {name: leak, kind: "
                       f"{'id' if leaks else 'skip'}}}, {{name: label, kind: label}}]}}\n"
                       "model: deepfm\n")
        done = simurgh("train", "doubtful.yaml")
        warnings = [line for line in done.out.splitlines() if line.startswith("warning: ")]
        expect(len(warnings) == (leaks or test == "test.csv"), f"{leaks} {test}: {done.out}")
        if leaks:
            expect("as if a column contained the label" in "".join(warnings), warnings)
            expect("such as 'leak'" in "".join(warnings), warnings)
        elif warnings:
            expect("100 % of the test rows have ids of 'user'" in warnings[0], warnings)


wide(120)
numbers()
pairs_of_numbers()
weights()
full_table()
doubtful()
