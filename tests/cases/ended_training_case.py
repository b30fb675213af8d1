"""A training that has ended says so, with what trains the model further, and repeats its result."""

import json

from case import clicks, cluster_yaml, expect, simurgh, write

user, item, price, hour, label, odds = clicks(4000)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
write("train.csv", ["user", "item", "price", "label"], rows[:3000])
write("valid.csv", ["user", "item", "price", "label"], rows[3000:])


def train(name, *more):
    return simurgh("train", "clicks.yaml", "--set", f"checkpoint.directory={name}", *more)


with open("clicks.yaml", "w") as file:
    file.write(cluster_yaml() + """
data:
  train: [train.csv]
  validation: [valid.csv]
  test: [valid.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense}
    - {name: label, kind: label}
model: deepfm
training: {epochs: 2}
""")

first = train("epochs")
expect("nothing was trained" not in first.all, "the first training trains")
again = train("epochs")
line = again.line("^warning: nothing was trained")
expect("To train anew with other settings, remove epochs" in line, f"it names the folder: {line}")
expect("training.epochs: 2 are trained" in line and "simurgh update epochs --data" in line, f"the second one says that its epochs are trained: {again.out}")
expect(" trained_steps=0 samples_per_sec=0" in again.out, f"its result has no steps: {again.out}")
expect(first.value("test_auc") == again.value("test_auc"), "its test is that of the model")
expect("nothing was trained" in json.loads(train("epochs", "--json").out)["warnings"][0],
       "the object has the warning")
more = train("epochs", "--set", "training.epochs=3")
expect("nothing was trained" not in more.all and more.value("samples_per_sec") > 0,
       "more epochs train")

steps = ["--set", "training.max_steps=5"]
train("steps", *steps)
expect("training.max_steps: 5 is reached" in train("steps", *steps).out, "it names max_steps")

early = ["--set", "training.epochs=50", "--set", "training.evaluate_every_epochs=1",
         "--set", "training.early_stopping.patience=1"]
train("early", *early)
ended = train("early", *early)
expect("training.early_stopping has ended this training" in ended.line("^warning: "),
       f"it names early stopping: {ended.out}")
