"""simurgh update says what is wrong with a day of rows, and reads those of another format."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from case import BIN, clicks, cluster_yaml, expect, np, simurgh, write

HEADER = ["label", "user", "item", "price"]


def day(seed, rows, user="u{}"):
    users, item, price, _, label, _ = clicks(rows, seed=seed)
    return [list(row) for row in
            zip(label.tolist(), [user.format(x) for x in users], [f"i{x}" for x in item], price.tolist())]


def newest(model):
    step = int(pathlib.Path(model, "latest").read_text().split("-")[1])
    return json.loads(pathlib.Path(model, f"step-{step}", "manifest.json").read_text())


def update(name, *words, code=0, text=False):
    """The result of an update of a copy of the model, as JSON unless `text`."""
    shutil.rmtree("copy", ignore_errors=True)
    shutil.copytree("model", "copy")
    done = simurgh("update", "copy", "--data", name, *([] if text else ["--json"]), *words, code=code)
    return done if text or code else json.loads(done.out)


write("train.csv", HEADER, day(1, 4000))
with open("clicks.yaml", "w") as file:
    file.write(cluster_yaml() + """
data:
  train: [train.csv]
  csv: {separator: ",", header: true}
  columns:
    - {name: label, kind: label}
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense, transform: log1p, fit: true, missing: 7}
model: wide_deep
tables: [{names: [user, item], dim: 4, capacity_rows: 1000, optimizer: {learning_rate: 0.05}}]
training: {mode: sync, batch_size: 64, epochs: 2}
checkpoint: {directory: model}
""")
simurgh("train", "clicks.yaml")
good = day(2, 2000)
write("good.csv", HEADER, good)

# A good day has no warning.
result = update("good.csv")
expect(result["new_rows"] == 2000 and "warnings" not in result, f"no warning: {result}")
before = result["before_logloss"]
done = update("good.csv", text=True)
expect(" warn " not in done.err and "warning" not in done.all, f"daemons warn of nothing: {done.err}")
left = [int(text) for text in re.findall(r"seconds_left=(\d+)", done.err)]
expect(all(seconds < 1000 for seconds in left), f"the time that is left: {left}")

# Labels that are the opposite: the model is worse than the share of positives.
write("opposite.csv", HEADER, [[1 - row[0], *row[1:]] for row in good])
labels = np.array([1 - row[0] for row in good])
constant = -np.mean(np.where(labels == 1, np.log(labels.mean()), np.log(1 - labels.mean())))
result = update("opposite.csv")
found = [text for text in result["warnings"] if "log loss" in text]
expect(len(result["warnings"]) == 1 and f"{constant:.4f}" in found[0]
       and f"{result['before_logloss']:.4f}" in found[0], f"worse than a constant: {result}")

# Ids in another form.
write("form.csv", HEADER, day(2, 2000, "user-{}"))
result = update("form.csv")
expect([text for text in result["warnings"] if "'user'" in text and "100 %" in text],
       f"ids that the model has not seen: {result}")
expect(not [text for text in result["warnings"] if "'item'" in text], f"only of users: {result}")

# Columns without a value, of numbers and of ids. A constant column is none.
for column, place in ("price", 3), ("user", 1):
    write("empty.csv", HEADER, [[*row[:place], "", *row[place + 1:]] for row in good])
    done = update("empty.csv", text=True)
    expect(f"column '{column}' has no value in the first 2000 of the new rows" in done.err,
           f"{column}: {done.err[:500]}")
    expect(done.err.count("has no value") == 1, f"only of {column}: {done.err[:500]}")
    expect("spoil" not in done.err, f"and nothing else: {done.err[:500]}")
write("same.csv", HEADER, [[*row[:3], 7] for row in good])
expect("has no value" not in update("same.csv", text=True).err, "a constant is a value")

# A bad row ends the update before a step, with a remedy that works. It counts once.
write("bad.csv", HEADER, good[:1500] + [[1, "u1", "i1", "cheap"]] + good[1500:])
half = pathlib.Path("good.csv").read_text()
pathlib.Path("half.csv").write_text(half[:half.rindex(",")])
with gzip.open("half.csv.gz", "wt") as file:
    file.write(half[:half.rindex(",")])
samples = newest("model")["samples"]
for name, rows in ("bad.csv", 2000), ("half.csv", 1999), ("half.csv.gz", 1999):
    done = update(name, code=2)
    expect(name in done.err and "--set data.on_bad_row=skip" in done.err, f"{name}: {done.err[-600:]}")
    expect(newest("copy")["samples"] == samples, f"{name}: nothing is trained")
    result = update(name, "--set", "data.on_bad_row=skip")
    expect((result["new_rows"], result.get("bad_rows")) == (rows, 1), f"{name}: {result}")
result = update("bad.csv", "--set", "data.missing_values=['', cheap]")
expect(result["new_rows"] == 2001, f"data.missing_values works, too: {result}")

# Another format, if rows have names. The model's own stays.
with open("good.jsonl", "w") as file:
    for label, user, item, price in good:
        file.write(json.dumps({"label": label, "user": user, "item": item, "price": price}) + "\n")
write("good.tsv", HEADER, good, separator="\t")
for name in "good.jsonl", "good.tsv":
    result = update(name)
    expect(result["new_rows"] == 2000 and abs(result["before_logloss"] - before) < 1e-9,
           f"{name}: the same rows: {result}, expected {before}")
    for other in "good.csv", name:
        simurgh("predict", "--model", "copy", "--input", other, "--evaluate")
done = simurgh("update", "copy", "--data", "good.csv", "good.jsonl", code=2)
expect("seem to have different formats" in done.err, f"a set has one format: {done.err}")

# training.calibration of an update is that of the model.
for value in "none", "0.7 1.2 0.1":
    update("good.csv", "--set", f"training.calibration={value}")
    simurgh("predict", "--model", "copy", "--input", "good.csv", "--evaluate")

# More new ids than a table has rows: a warning, and a capacity that stays.
write("many.csv", HEADER, [[row[0], f"n{i}", *row[2:]] for i, row in enumerate(day(3, 4000))])
write("more.csv", HEADER, [[row[0], f"m{i}", *row[2:]] for i, row in enumerate(day(4, 4000))])
done = update("many.csv", text=True)
expect("evicts rows of the model" in done.err and "table=user " in done.err, done.err[-2000:])
done = update("many.csv", "--set", "tables.0.capacity_rows=20000", text=True)
expect("evicts" not in done.err, f"the table has room: {done.err[-2000:]}")
done = simurgh("update", "copy", "--data", "more.csv")
expect("evicts" not in done.err, f"and in the next update, too: {done.err[-2000:]}")

# --follow leaves a bad file out, and goes on.
os.mkdir("days")
shutil.copytree("model", "followed")
command = [str(BIN / "simurgh"), "update", "followed", "--data", "days", "--follow"]
with open("followed.err", "w") as errors:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
os.makedirs("made")
for name in "bad.csv", "good.csv":
    os.utime(shutil.copy(name, "made"), (time.time() - 60, time.time() - 60))
    os.rename(f"made/{name}", f"days/{name}")
expect("files=good.csv" in process.stdout.readline(), "the good file is trained")
process.terminate()
process.communicate()
expect("days/bad.csv is left out until it changes" in open("followed.err").read(), "it says so")
expect(process.returncode == 0 and newest("followed")["samples"] == samples + 2000, "and only it")
