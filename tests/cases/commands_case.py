"""What the commands print around a training: short logs, and errors that name what is meant."""

import json
import os
import subprocess

from case import BIN, clicks, cluster_yaml, expect, simurgh, write

user, item, price, hour, label, odds = clicks(2000)
write("d.csv", ["user", "item", "label"], zip(user, item, label))
with open("c.yaml", "w", encoding="utf-8") as file:
    file.write(cluster_yaml() + """data:
  train: [d.csv]
  test: [d.csv]
  columns: [{name: user, kind: id}, {name: item, kind: id}, {name: label, kind: label}]
model: deepfm
checkpoint: {directory: models/clicks}
""")

wrong = simurgh("train", "c.yaml", "--set", "embedding_ps.instances.0.address=127.0.0.1:0", code=2)
expect("cannot find any free port" in wrong.err, f"an address that others need has a port: {wrong.err}")

# The log of a training whose output is a file.
done = simurgh("train", "c.yaml", "--set", "training.epochs=3")
lines = done.err.splitlines()
expect(sum(" progress: " in line for line in lines) <= 1, f"few lines of progress: {done.err}")
expect(not any(word in done.err for word in ("CANCELLED", "connected")),
       f"a normal end needs no lines about connections: {done.err}")

# Another training of the file.
os.mkdir("logs")
first = subprocess.Popen([str(BIN / "simurgh"), "train", "c.yaml", "--logs", "logs", "--set",
                          "training.epochs=1000000", "--set", "checkpoint.directory=other"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
for line in first.stderr:
    if "training starts" in line:
        break
second = simurgh("train", "c.yaml", code=2)
expect("another simurgh train runs with the same addresses" in second.err,
       f"a second training says that there is a first: {second.err}")
first.terminate()
first.stderr.read()
first.wait()

# Names of commands and models.
for words in (["trian"], ["trian", "--help"]):
    wrong = simurgh(*words, code=2)
    expect("the nearest command is 'train'" in wrong.err, f"the nearest command: {wrong.err}")
for words in (["predict", "--input", "d.csv", "--output", "o.csv", "--model"],
              ["export", "onnx", "--output", "o.onnx", "--model"], ["model", "info"]):
    wrong = simurgh(*words, "models/click", code=3)
    expect("models/click" in wrong.err and "the nearest model is 'clicks'" in wrong.err,
           f"the nearest model: {wrong.err}")
    above = simurgh(*words, "models", code=3)
    expect("give a model in it: clicks" in above.err, f"the model in the folder: {above.err}")
    step = next(name for name in os.listdir("models/clicks") if name.startswith("step-"))
    below = simurgh(*words, f"models/clicks/{step}", code=3)
    expect("it is one itself; give the model's folder" in below.err,
           f"the folder above: {below.err}")
    other = simurgh(*words, "models/clicks/step-1", code=3)
    expect("the folder above is a model" in other.err, f"the folder above: {other.err}")
    file = simurgh(*words, "c.yaml", code=2)
    expect("c.yaml: is a file; give the model's folder" in file.err, f"no file: {file.err}")
    nowhere = simurgh(*words, "modles/clicks", code=3)
    expect("there is no folder" in nowhere.err and "modles" in nowhere.err,
           f"the folder that is missing: {nowhere.err}")
server = subprocess.Popen([str(BIN / "simurgh"), "serve", "--model", "models/click", "--listen",
                           "127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          encoding="utf-8")
for line in server.stderr:
    if "models/click" in line:
        break
expect("the nearest model is 'clicks'" in line, f"the server names the nearest model: {line}")
server.terminate()
server.stderr.read()
server.wait()

# One line for a checkpoint.
verified = simurgh("model", "verify", "models/clicks")
expect(len(verified.all.splitlines()) == 1 and "are sound" in verified.out,
       f"one line for a checkpoint: {verified.all}")

# Numbers of ids as people write them.
long, short = (json.loads(simurgh("plan", "c.yaml", "--ids", ids, "--json").out)["tables"]
               for ids in ("100000000", "100M"))
expect(short == long, f"100M is 100000000: {short} and {long}")
alone = simurgh("plan", "--ids", "0.1G", "--json")
table = json.loads(alone.out)["tables"][0]
expect(table["ids"] == 100_000_000 and table["bytes_per_server"] > 100_000_000 * 16 * 4,
       f"a plan needs no configuration: {alone.out}")

# Logs of all nn-workers.
simurgh("up", "c.yaml", "--set", "training.epochs=2", "--set", "checkpoint.directory=third",
        "--run", "run")
logs = simurgh("logs", "c.yaml", "nn-worker", "--follow", "--run", "run")
expect("trained:" in logs.out and "listening at" not in logs.out,
       f"the log of the only nn-worker: {logs.all[-2000:]}")
wrong = simurgh("logs", "c.yaml", "nnworker", "--run", "run", code=2)
expect("no such log; the nearest log is 'nn-worker-0'" in wrong.err, f"the nearest log: {wrong.err}")
simurgh("down", "c.yaml", "--run", "run")
