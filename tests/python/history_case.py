"""A model's history tells how training went, also after kill -9, and TensorBoard shows the same numbers."""

import json
import math
import pathlib
import signal
import subprocess

from package import simurgh
from case import BIN, clicks, expect, program, skip, until, write

import numpy as np

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    skip(f"{error.name} is missing")

ROWS = 12000
user, item, price, hour, label, odds = clicks(ROWS + 2000)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
names = ["user", "item", "price", "label"]
write("train.csv", names, rows[:ROWS])
write("test.csv", names, rows[ROWS:])
pathlib.Path("run.yaml").write_text("""
data:
  train: [train.csv]
  validation: [test.csv]
  test: [test.csv]
  columns:
    - {name: label, kind: label}
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense}
tables:
  - {names: [user, item], dim: 8, optimizer: {kind: adagrad, learning_rate: 0.05}}
model: deepfm
training:
  epochs: 4
  batch_size: 60
  progress_interval: 10ms
  evaluate_every_epochs: 1
  dense_optimizer: {kind: adam, learning_rate: 0.01, schedule: {kind: linear, decay_steps: 800}}
  early_stopping: {patience: 0}
  tensorboard: events
checkpoint: {directory: model, every_steps: 50, keep: 2, full_every: 3}
""")
STEPS = 4 * ROWS // 60
command = [str(BIN / "nn-worker"), "--config", "run.yaml", "--standalone"]
history = pathlib.Path("model/history.jsonl")


def checkpoints():
    return sum('"checkpoint"' in line for line in history.read_text().splitlines()) if history.exists() else 0


# Two starts are killed; the third one ends.
for least in (3, 8):
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        until(lambda: checkpoints() >= least or child.poll() is not None, f"{least} checkpoints")
        expect(child.poll() is None, "training continues until it is killed")
        child.send_signal(signal.SIGKILL)
program("nn-worker", *command[1:])

events = simurgh.history("model")
printed = simurgh.programs.run("model", "history", "model").splitlines()
expect([json.loads(line) for line in printed] == events, "the command prints the same reports")
of = {kind: [event for event in events if event["event"] == kind]
      for kind in ("start", "progress", "validation", "test", "checkpoint", "end")}
expect(sum(map(len, of.values())) == len(events), "there are no other events")
starts = [event["step"] for event in of["start"]]
expect(len(starts) == 3 and starts[0] == 0 and starts == sorted(starts), f"three starts: {starts}")
expect(all(event["version"] and event["ranks"] == 1 for event in of["start"]), "a start has a version and its ranks")
for kind in ("progress", "validation", "checkpoint"):
    steps = [event["step"] for event in of[kind]]
    expect(all(a < b for a, b in zip(steps, steps[1:])), f"each step of {kind} is there once, in order: {steps}")
expect([event["step"] for event in of["validation"]] == [STEPS * i // 4 for i in range(1, 5)], "an evaluation an epoch")
expect([event["epoch"] for event in of["progress"]] == [math.ceil(event["step"] * 60 / ROWS) for event in of["progress"]],
       f"the epoch of each line: {[(event['step'], event['epoch']) for event in of['progress']]}")
for event in of["progress"]:
    expect(0 <= event["waited"] <= 1 and event["memory_mib"] > 1 and event["loss"] > 0, f"a line is plausible: {event}")
table_rates = [event["table_rates"] for event in of["progress"] if "table_rates" in event]
expect(1 <= len(table_rates) <= 3, f"rates that stay are written once a start: {len(table_rates)}")
expect(all(rates["user"] == rates["item"] == 0.05 for rates in table_rates), f"rates of tables: {table_rates}")
for event in of["progress"]:
    expected = 0.01 * (1 - event["step"] / 800)
    expect(math.isclose(event["rate"], expected, rel_tol=1e-4, abs_tol=1e-9), f"a rate that falls: {event}")
last = of["checkpoint"][-1]
expect(last["step"] == STEPS and last["seconds"] > 0 and last["bytes"] > 1000, f"the last checkpoint: {last}")
users, items = len(set(user[:ROWS])), len(set(item[:ROWS]))
expect(last["rows"] == {"user": users, "user_weight": users, "item": items, "item_weight": items}, f"its rows: {last}")
end = of["end"][0]
expect(len(of["end"]) == 1 and end["step"] == STEPS and end["reason"] == "epochs", f"the end: {end}")
expect(events[-1]["event"] in ("end", "test"), f"the last line: {events[-1]}")

# TensorBoard reads the files of all starts as one run, and hides what a later start has done again.
board = EventAccumulator("events", size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
board.Reload()
for kind in ("progress", "validation", "test", "checkpoint", "end"):
    for key in ("loss", "auc", "logloss", "samples_per_s", "bytes", "seconds"):
        expected = [(event["step"], np.float32(event[key])) for event in of[kind] if key in event]
        if not expected:
            continue
        shown = [(event.step, np.float32(event.value)) for event in board.Scalars(f"{kind}/{key}")]
        expect(shown == expected, f"{kind}/{key}: {shown[:5]} of {len(shown)}, {expected[:5]} of {len(expected)}")
expect([event.value for event in board.Scalars("checkpoint/rows.item")][-1] == last["rows"]["item"], "nested numbers")
for tag, most in (("predictions", 1), ("embedding_norms/user", 100), ("embedding_norms/item", 100)):
    shown = board.Histograms(tag)
    expect(len(shown) > 2, f"{tag} has histograms")
    for event in shown:
        value = event.histogram_value
        expect(value.num == 60 and sum(value.bucket) == 60, f"{tag} counts the samples of a batch: {value}")
        expect(0 <= value.min <= value.max <= most and value.bucket_limit[-1] == value.max, f"{tag}: {value}")
        expect(abs(value.sum / 60 - np.clip(value.sum / 60, value.min, value.max)) < 1e-6, f"{tag} has a mean")
text = board.Tensors("configuration")[-1].tensor_proto.string_val[0].decode()
expect("model: deepfm" in text and text.startswith("```yaml"), f"the configuration: {text}")

# Events alone, without a model's folder.
program("nn-worker", *command[1:], "--set", "checkpoint={}", "--set", "training.tensorboard=alone",
        "--set", "training.max_steps=50")
alone = EventAccumulator("alone")
alone.Reload()
expect(alone.Scalars("end/samples")[0].value == 3000, "events without a model")
