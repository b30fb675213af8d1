"""simurgh update: a trained model learns a second day of rows, and only that.

The second day has the first day's users with other tastes, and new users. Predictions of its test
rows must get better by it, those of the first day's must stay about as good.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from case import BIN, clicks, cluster_yaml, expect, free_port, np, simurgh, write

HEADER = ["user", "item", "price", "label"]


def day(seed, rows, shift):
    """Rows of a day. shift: the change of the log odds of items, by item."""
    user, item, price, hour, label, odds = clicks(rows, seed=seed)
    odds = odds + shift[item]
    if shift.any():
        user = user + 100  # Half of the users are new.
    label = (np.random.default_rng(seed).random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))


SHIFT = np.random.default_rng(5).normal(0, 2, 40)
NONE = np.zeros(40)
write("day1.csv", HEADER, day(11, 4000, NONE))
write("valid1.csv", HEADER, day(12, 1000, NONE))
write("test1.csv", HEADER, day(13, 2000, NONE))
write("day2.csv", HEADER, day(21, 4000, SHIFT))
write("test2.csv", HEADER, day(22, 2000, SHIFT))

with open("clicks.yaml", "w") as file:
    file.write(cluster_yaml() + """
data:
  train: [day1.csv]
  validation: [valid1.csv]
  test: [test1.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense, transform: log1p}
    - {name: label, kind: label}
tables: [{names: [user, item], dim: 8, optimizer: {learning_rate: 0.05}}]
model: deepfm
training:
  {mode: sync, epochs: 30, batch_size: 64, evaluate_every_epochs: 1, early_stopping: {patience: 3}}
checkpoint: {directory: model}
""")


def auc(model, rows):
    done = simurgh("predict", "--model", model, "--input", rows, "--evaluate")
    return done.value("test_auc")


def newest(model):
    step = int(pathlib.Path(model, "latest").read_text().split("-")[1])
    return step, json.loads(pathlib.Path(model, f"step-{step}", "manifest.json").read_text())


def wait(holds, what):
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            expect(False, what)
            return


# After early stopping: the best checkpoint is not the newest one.
first = simurgh("train", "clicks.yaml")
best = int(first.value("best_step"))
expect(newest("model")[0] > best, "early stopping ends after the best checkpoint")
shutil.copytree("model", "other")
old1, old2, seen = auc("model", "test1.csv"), auc("model", "test2.csv"), auc("model", "day2.csv")
for gone in "day1.csv", "valid1.csv":
    os.rename(gone, f"{gone}.gone")  # The update does not need them.
os.rename("clicks.yaml", "gone.yaml")
updated = simurgh("update", "model", "--data", "day2.csv")
expect(abs(updated.value("before_auc") - seen) < 1e-9,
       f"the old model is tested on the new rows: {updated.out}, expected {seen}")
expect(" new_rows=4000 " in updated.out and updated.value("trained_steps") == 63,
       f"all 4000 rows are trained once, in 63 batches of 64: {updated.out}")
expect(newest("model")[0] == best + 63, "the update continues the best checkpoint")
new1, new2 = auc("model", "test1.csv"), auc("model", "test2.csv")
print(f"day 1: {old1} -> {new1}, day 2: {old2} -> {new2}")
expect(new2 > old2 + 0.05, f"predictions of the second day get better: {old2}, then {new2}")
expect(new1 > 0.6, f"the first day is not forgotten, though items are liked otherwise: {new1}")
expect(not os.path.exists("model/best"), "predictions use the updated model")

# With older rows in half of the steps, the first day stays better.
shutil.copytree("other", "replayed")
replayed = simurgh("update", "replayed", "--data", "day2.csv", "--replay", "day1.csv.gone",
                   "--replay-share", "0.5")
expect(replayed.value("trained_steps") == 63 + 62, f"each second batch is old: {replayed.out}")
kept1, kept2 = auc("replayed", "test1.csv"), auc("replayed", "test2.csv")
print(f"with older rows: day 1: {kept1}, day 2: {kept2}")
expect(kept1 > new1 + 0.03 and kept2 > old2 + 0.05, f"both days: {kept1}, {kept2}")

# The training stays ended, and the updated model is not replaced by an older one.
for back in "day1.csv", "valid1.csv":
    os.rename(f"{back}.gone", back)
os.rename("gone.yaml", "clicks.yaml")
again = simurgh("train", "clicks.yaml")
expect("training.early_stopping has ended this training" in again.out, "train says why it ends")
expect("simurgh update" in again.out, "and how to go on")
expect(not os.path.exists("model/best") and auc("model", "test2.csv") == new2,
       "the updated model stays")
twice = simurgh("update", "model", "--data", "day2.csv", "--json")
expect("day2.csv: the model has been trained on it" in twice.err, "a second time is noted")
expect(json.loads(twice.out)["trained_steps"] == 63, "and trains again")

# Errors: place and remedy; the model stays.
before = newest("other")
write("columns.csv", ["user", "thing", "price", "label"], [["u1", "i1", 1, 0]])
write("empty.csv", HEADER, [])
write("bad.csv", HEADER, [["u1", "i1", "cheap", 2]] * 3)
for words, texts in {
    ("other", "--data", "columns.csv"): ["columns.csv", "item"],
    ("other", "--data", "empty.csv"): ["empty.csv: no rows"],
    ("other", "--data", "bad.csv"): ["bad.csv"],
    ("other", "--data", "bad.csv", "--set", "data.on_bad_row=skip"): ["all 3 rows are bad"],
    ("other", "--data", "none.csv"): ["none.csv: no such file"],
    ("clicks.yaml", "--data", "day2.csv"): ["name the folder of the model"],
    ("nothing", "--data", "day2.csv"): ["nothing: no such folder"],
    ("other",): ["--data FILES is missing"],
}.items():
    done = simurgh("update", *words, code=2)
    expect(all(text in done.err for text in texts), f"{words}: {done.err}")
expect(newest("other") == before, "a refused update changes nothing")

# A kill in the middle: the next command continues from the last checkpoint of the update, and ends
# with the model of an update without a kill, to the bit.
for folder in "whole", "killed":
    shutil.copytree("other", folder)
saves = ["--epochs", "6", "--set", "checkpoint.every_steps=20"]
steps = 6 * 63
simurgh("update", "whole", "--data", "day2.csv", *saves)
command = [str(BIN / "simurgh"), "update", "killed", "--data", "day2.csv", *saves]
process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
latest = pathlib.Path("killed/latest").read_text()
wait(lambda: pathlib.Path("killed/latest").read_text() != latest, "the update saves")
process.kill()
process.wait()
step, manifest = newest("killed")
expect(best < step < best + steps and manifest["extra"]["update.done"] == "0",
       f"it was killed within the update: step {step}")
continued = simurgh("update", "killed", "--data", "day2.csv", *saves)
expect(f"continuing the update that was interrupted at step {step}" in continued.err,
       f"it continues: {continued.err[:300]}")
expect(continued.value("trained_steps") == best + steps - step, f"no row twice: {continued.out}")
expect(abs(continued.value("before_auc") - seen) < 1e-9, "the test is that of the first start")
for name in "whole", "killed":
    simurgh("predict", "--model", name, "--input", "test2.csv", "--output", f"{name}.csv")
expect(open("whole.csv").read() == open("killed.csv").read(), "the model is the same to the bit")

# After --refit, with a server that follows; files of a folder, once each.
refit = ["clicks.yaml", "--refit", "--set", "checkpoint.directory=refit"]
simurgh("train", *refit)
address = f"127.0.0.1:{free_port()}"
server = subprocess.Popen([str(BIN / "simurgh"), "serve", "--model", "refit", "--listen", address,
                           "--set", "serving.poll=100ms"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
server.stdout.readline()  # It listens.


def served():
    """The probability of a row; None until a model is loaded."""
    body = json.dumps({"instances": [{"user": "u50", "item": "i3", "price": 7.5}]}).encode()
    url = f"http://{address}/v1/models/refit:predict"
    try:
        return json.load(urllib.request.urlopen(url, body, 60))["predictions"][0]
    except urllib.error.HTTPError:
        return None


wait(lambda: served() is not None, "the server loads the model")
probability = served()
os.mkdir("days")
rows = day(21, 4000, SHIFT)
write("days/1.csv", HEADER, rows[:1000])
write("days/2.csv", HEADER, rows[1000:2000])
days = ["update", "refit", "--data", "days/*.csv"]
expect(simurgh(*days).value("new_rows") == 2000, "both files are trained")
wait(lambda: served() != probability, "the server follows the update")
server.send_signal(signal.SIGTERM)
expect(server.wait() == 0, "the server ends")
server.stdout.close()
expect("nothing was trained: all 2 files" in simurgh(*days).err, "each file is trained once")
os.remove("days/1.csv")
write("days/3.csv", HEADER, rows[2000:3000])
write("days/4.csv.tmp", HEADER, rows[3000:])
expect(simurgh("update", "refit", "--data", "days").value("new_rows") == 1000,
       "a new file is trained, though another one is gone")
expect("nothing was trained" in simurgh("train", *refit).out, "the training stays ended")

# --follow waits for files.
command = [str(BIN / "simurgh"), *days, "--follow"]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
expect("waiting for files" in process.stderr.readline(), "it waits")
other = subprocess.run([str(BIN / "simurgh"), "update", "refit", "--data", "day2.csv"],
                       stderr=subprocess.PIPE, text=True)
expect(other.returncode == 2 and "another simurgh train or update uses it" in other.stderr,
       f"two updates of one model exclude each other: {other.stderr}")
os.utime("days/4.csv.tmp", (time.time() - 60, time.time() - 60))
os.rename("days/4.csv.tmp", "days/4.csv")
expect(" new_rows=1000 " in " " + process.stdout.readline(), "a file that appears is trained")
process.send_signal(signal.SIGTERM)
process.communicate()
expect(process.returncode == 0, "a signal ends it")
print(f"day 2 after the days: {auc('refit', 'test2.csv')}")
