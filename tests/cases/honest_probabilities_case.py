"""A model that has learned its rows by heart is honest about others: calibrated on the validation
rows, its log loss is below that of a constant; without, it is above, and a warning says so. Updates
correct the calibration."""

import csv
import json
import math
import shutil

import numpy as np

from case import cluster_yaml, expect, program, simurgh, write

random = np.random.default_rng(5)
rows = 6000
user, item = random.integers(0, 600, rows), random.integers(0, 600, rows)
of_user, of_item = random.normal(0, 0.5, 600), random.normal(0, 0.5, 600)
odds = of_user[user] + of_item[item] - 0.8
label = (random.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
cells = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], label))
header = ["user", "item", "click"]
for name, part in [("train", cells[:4000]), ("valid", cells[4000:5000]), ("test", cells[5000:])]:
    write(f"{name}.csv", header, part)
share = label[5000:].mean()
constant = -share * math.log(share) - (1 - share) * math.log(1 - share)

with open("clicks.yaml", "w") as file:
    file.write(cluster_yaml() + """
data:
  train: [train.csv]
  validation: [valid.csv]
  test: [test.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: click, kind: label}
model: deepfm
training: {epochs: 20, evaluate_every_epochs: 20}
""")


def train(name, *more):
    words = [x for one in (f"checkpoint.directory={name}", *more) for x in ("--set", one)]
    return program("nn-worker", "--standalone", "--config", "clicks.yaml", *words)


def predict(name, *more):
    simurgh("predict", "--model", name, "--input", "test.csv", "--output", f"{name}.csv", *more)
    with open(f"{name}.csv", newline="") as file:
        return np.array([float(row["p"]) for row in csv.DictReader(file)])


def calibration(name, *step):
    done = json.loads(simurgh("model", "info", name, *step, "--json").out)
    return done["manifest"]["extra"].get("calibration")


raw = train("raw", "training.calibration=none")
expect(raw.value("test_logloss") > constant + 0.05, f"raw log loss is above {constant}: {raw.out}")
line = raw.line("^warning: label 'click': the test's log loss")
expect(f"{raw.value('test_logloss'):.4f}" in line and f"{constant:.4f}" in line,
       f"the warning has both numbers: {raw.out}")
expect(calibration("raw") is None, "calibration: none is kept")

honest = train("honest")
expect(honest.value("test_logloss") < constant - 0.001,
       f"calibrated log loss is below {constant}: {honest.out}")
expect("warning:" not in honest.out, f"no warning: {honest.out}")
expect(abs(honest.value("test_auc") - raw.value("test_auc")) < 1e-4, "the AUC stays")

# low * ln p - high * ln(1 - p) + shift, in predictions, their evaluation, and what was saved.
*slopes, shift = map(float, calibration("honest").split())
low, high = slopes[0], slopes[-1]
p = predict("raw")
wanted = 1 / (1 + np.exp(-(low * np.log(p) - high * np.log1p(-p) + shift)))
found = predict("honest")
expect(np.abs(found - wanted).max() < 1e-4, f"predictions: {np.abs(found - wanted).max()}")
expect(0 < low < 0.9 and 0 < high < 0.9, f"the outputs shrink: {slopes}")
y = label[5000:]
log_loss = -(y * np.log(found) + (1 - y) * np.log1p(-found)).mean()
expect(abs(log_loss - honest.value("test_logloss")) < 1e-4, f"the test is of predictions: {log_loss}")
evaluated = simurgh("predict", "--model", "honest", "--input", "test.csv", "--evaluate")
expect(evaluated.value("test_logloss") == honest.value("test_logloss"), evaluated.out)
expect("calibration: " in simurgh("model", "info", "honest").out, "model info shows it")

# Numbers of the user win; training that continues keeps what was fitted.
given = train("given", "training.calibration=0.5 -0.25")
expect(calibration("given") == "0.5 -0.25", "given numbers are kept")
again = train("honest", "training.calibration=platt")  # The word of older versions.
expect(again.value("test_logloss") == honest.value("test_logloss"), "a new start tests the same")
refused = program("nn-worker", "--standalone", "--config", "clicks.yaml", "--set",
                  "training.calibration=0 1", code=2)
expect("is not one or two slopes above 0 and a shift" in refused.all, refused.all)

# Both trainings of --refit, also where log loss stops the first one.
refit = simurgh("train", "clicks.yaml", "--refit", "--set", "checkpoint.directory=refit", "--set",
                "training.evaluate_every_epochs=1", "--set",
                "training.early_stopping={patience: 2, metric: log_loss}")
with open("refit-trial/best") as file:
    best = file.readline().strip().removeprefix("step-")
expect(calibration("refit") is not None, "the second training has a calibration")
expect(calibration("refit") == calibration("refit-trial", best), "that of the first one's best")
expect(refit.value("test_logloss") < constant, f"its log loss: {refit.out}")

# Only the first training has validation rows to drift from: raw outputs that get worse and rank
# better. One line says so at the end.
drift = simurgh("train", "clicks.yaml", "--refit", "--set", "checkpoint.directory=drift", "--set",
                "training={evaluate_every_epochs: 1, early_stopping: {patience: 20}, "
                "calibration: none}")
expect(drift.out.count("warning: training and validation drift apart after epoch") == 1,
       f"the drift of the first training is told once: {drift.out}")
expect("drift apart" not in refit.out, f"a calibrated model does not drift: {refit.out}")

# An update tests the model on new rows. If they need another calibration, it is fitted to that
# test, also after --refit. Its log loss on these rows is that of the minimum by Newton's method.
user, item = random.integers(0, 600, 3000), random.integers(0, 600, 3000)
label = (random.random(3000) < 1 / (1 + np.exp(-(of_user[user] + of_item[item] + 1)))).astype(int)
write("day.csv", header, zip([f"u{x}" for x in user], [f"i{x}" for x in item], label))


def slopes_of(text):
    *slopes, shift = map(float, text.split())
    return slopes[0], slopes[-1], shift


def bent(z, low, high, shift):
    return high * np.logaddexp(0, z) - low * np.logaddexp(0, -z) + shift


def outputs(name, rows, numbers):
    """What the network gives for rows: its predictions without the calibration."""
    simurgh("predict", "--model", name, "--input", rows, "--output", "p.csv")
    with open("p.csv", newline="") as file:
        p = np.array([float(row["p"]) for row in csv.DictReader(file)])
    least, most = np.full(len(p), -60.0), np.full(len(p), 60.0)
    for _ in range(60):
        middle = (least + most) / 2
        is_below = bent(middle, *numbers) < np.log(p / (1 - p))
        least, most = np.where(is_below, middle, least), np.where(is_below, most, middle)
    return least


def loss_of(z):
    return np.mean(np.logaddexp(0, z) - label * z)


shutil.copytree("refit", "kept")
before = calibration("refit")
z = outputs("refit", "day.csv", slopes_of(before))
same = simurgh("update", "refit", "--data", "test.csv")
expect(" calibration=old " in same.out and calibration("refit") == before,
       f"rows like those of the training keep the calibration: {same.out}")
expect("the calibration stays: step=" in same.err, "the log has the reason")
shutil.rmtree("refit")
shutil.copytree("kept", "refit")
updated = simurgh("update", "refit", "--data", "day.csv")
after = calibration("refit")
expect(" calibration=new " in updated.out, updated.out)
expect("calibrated: step=" in updated.err, "the log has the numbers")
expect(abs(loss_of(bent(z, *slopes_of(before))) - updated.value("before_logloss")) < 1e-4,
       f"the test is with the old calibration: {updated.out}")
positives = label.sum()
target = np.where(label, (positives + 1) / (positives + 2), 1 / (3000 - positives + 2))
terms = np.stack([z, np.ones(3000)])
weights = np.array([0.0, 0.0])
for _ in range(50):
    q = 1 / (1 + np.exp(-weights @ terms))
    weights += np.linalg.solve(terms * (q * (1 - q)) @ terms.T, terms @ (target - q))
found, least = loss_of(bent(z, *slopes_of(after))), loss_of(weights @ terms)
print(f"on the new rows: {updated.value('before_logloss')}, then {found}; one slope {least}")
expect(found < least + 1e-6, "the new calibration is at least as good as the best line")
expect(found < updated.value("before_logloss") - 0.05, "and clearly better than the old one")

# The outputs for rows that the model was trained on would be too good.
again = simurgh("update", "refit", "--data", "day.csv")
expect(" calibration=" not in again.out and calibration("refit") == after,
       f"rows of an earlier update keep the calibration: {again.out}")

# Three rows tell nothing.
write("valid.csv", header, cells[4000:4003])
few = train("few")
expect(calibration("few") is None, "three rows of validation keep the outputs")
expect("the probabilities are not calibrated" in few.all, "the log has the reason")
