"""simurgh update counts each row once: named files, overlaps, renamed files, kills, typing errors."""

import json
import os
import pathlib
import shutil
import subprocess
import time

from case import BIN, clicks, cluster_yaml, expect, simurgh, write

HEADER = ["user", "item", "price", "label"]
ROWS = 640  # Of a day: 10 batches.


def day(seed, rows=ROWS):
    user, item, price, _, label, _ = clicks(rows, seed=seed)
    return list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))


def newest(model):
    step = int(pathlib.Path(model, "latest").read_text().split("-")[1])
    return json.loads(pathlib.Path(model, f"step-{step}", "manifest.json").read_text())


def updates(done):
    """The values of each result line."""
    return [dict(word.split("=", 1) for word in line.split())
            for line in done.out.splitlines() if "before_auc=" in line]


os.mkdir("days")
write("days/0.csv", HEADER, day(1))
with open("clicks.yaml", "w") as file:
    file.write(cluster_yaml() + """
data:
  train: [days/0.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense, transform: log1p}
    - {name: label, kind: label}
model: wide_deep
tables: [{names: [user, item], dim: 4}]
training: {mode: sync, batch_size: 64}
checkpoint: {directory: model}
""")
simurgh("train", "clicks.yaml")
for seed in 1, 2, 3:
    write(f"days/{seed}.csv", HEADER, day(seed + 1))

# A file, by whatever path it is named, counts once in a command.
shutil.copytree("model", "once")
done = simurgh("update", "once", "--data", "days/1.csv", "./days/1.csv", "days/1*.csv", "days")
expect([run["new_rows"] for run in updates(done)] == [str(3 * ROWS)],
       f"three files, each once: {done.out}")
expect(updates(done)[0]["files"] == "1.csv,2.csv,3.csv", f"the result names them: {done.out}")

# A file that was renamed, or copied with its time, counts as trained on.
os.rename("days/3.csv", "days/moved.csv")
shutil.copy2("days/1.csv", "days/copy.csv")
write("days/4.csv", HEADER, day(5))
done = simurgh("update", "once", "--data", "days", "--json")
result = json.loads(done.out)
expect(result["new_rows"] == ROWS and result["files"] == ["4.csv"], f"one new file: {done.out}")
expect('"new_rows":640,' in done.out, f"counts are integers: {done.out}")
for text in "left out 2 of --data", "copy.csv is 1.csv", "moved.csv is 3.csv":
    expect(text in done.err, f"it says what it leaves out: {text}: {done.err}")

# Nothing to do is no error, a folder that does not exist is one.
done = simurgh("update", "once", "--data", "days/*.csv", "--json")
expect(json.loads(done.out) == {"new_rows": 0, "trained_steps": 0, "files": []}, done.out)
expect("nothing was trained" in done.err, done.err)
done = simurgh("update", "once", "--data", "nope/*.csv", code=2)
expect("nope/*.csv: no such folder" in done.err, f"it names the folder: {done.err}")

# --follow has something to wait for. A file that is named itself counts once, then it waits.
before = newest("once")
done = simurgh("update", "once", "--data", "days/1.csv", "--follow", code=2)
expect("--follow needs a folder or a pattern" in done.err, done.err)
expect(newest("once") == before, "and trains nothing")
os.mkdir("later")
command = [str(BIN / "simurgh"), "update", "once", "--data", "days/1.csv", "later", "--follow"]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
expect("files=1.csv" in process.stdout.readline(), "the named file is trained again")
write("later/5.tmp", HEADER, day(6))
os.utime("later/5.tmp", (time.time() - 60, time.time() - 60))
os.rename("later/5.tmp", "later/5.csv")
expect("files=5.csv" in process.stdout.readline(), "then only what appears")
process.terminate()
process.communicate()
expect(newest("once")["samples"] == before["samples"] + 2 * ROWS, "each of both once")


def kill_in_the_middle(model, words):
    """Kills an update after its first checkpoint. Returns the manifest of the last one."""
    first = newest(model)["step"]
    command = [str(BIN / "simurgh"), "update", model, *words, "--set", "checkpoint.every_steps=10"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while newest(model)["step"] == first and time.monotonic() < deadline:
        pass
    process.kill()
    process.wait()
    manifest = newest(model)
    expect(manifest["extra"]["update.done"] == "0", "the kill interrupts the update")
    return manifest


# A kill, then a new file: the interrupted update ends first, then the new file is another one.
os.mkdir("big")
write("big/1.csv", HEADER, day(11, 12_000))
write("big/2.csv", HEADER, day(12, 12_000))
shutil.copytree("model", "killed")
shutil.copytree("big", "gone")
samples = newest("killed")["samples"]
kill_in_the_middle("killed", ["--data", "big"])
shutil.copytree("killed", "lost")
write("big/0.csv", HEADER, day(13))
done = simurgh("update", "killed", "--data", "big/*.csv")
expect("continuing the update that was interrupted at step" in done.err, done.err)
expect([run["new_rows"] for run in updates(done)] == ["24000", str(ROWS)],
       f"the interrupted update, then the new file: {done.out}")
expect([run["files"] for run in updates(done)] == ["1.csv,2.csv", "0.csv"], done.out)
expect(newest("killed")["samples"] == samples + 24_000 + ROWS, "no row counts twice")
expect("nothing was trained" in simurgh("update", "killed", "--data", "big").err, "all are done")

# Files of the interrupted update that are gone: what it has begun to read does not count twice.
first = newest("lost")
expect(first["samples"] < samples + 12_000, "it was killed in the first file")
os.remove("big/2.csv")
done = simurgh("update", "lost", "--data", "big")
expect("2.csv is gone or has changed" in done.err, f"it says what is gone: {done.err}")
expect([run["files"] for run in updates(done)] == ["0.csv"], f"it goes on: {done.out}")
expect(newest("lost")["samples"] == first["samples"] + ROWS, "only the new rows are trained")
