"""checkpoint.start_from: a new training begins with another model's rows and dense weights."""

import shutil

from case import clicks, cluster_yaml, expect, simurgh, write

HEADER = ["user", "item", "price", "hour", "label"]
user, item, price, hour, label, odds = clicks(9000, seed=3)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, hour, label))
write("many.csv", HEADER, rows[:6000])
write("few.csv", HEADER, rows[6000:6400])
write("test.csv", HEADER, rows[7000:])


def config(name, train, dim):
    with open(name, "w") as file:
        file.write(cluster_yaml() + f"""
data:
  train: [{train}]
  test: [test.csv]
  columns:
    - {{name: user, kind: id}}
    - {{name: item, kind: id}}
    - {{name: price, kind: dense, transform: log1p}}
    - {{name: hour, kind: skip}}
    - {{name: label, kind: label}}
tables:
  - {{name: user, dim: {dim}, optimizer: {{learning_rate: 0.05}}}}
  - {{name: item, dim: {dim}, optimizer: {{learning_rate: 0.05}}}}
model: dlrm
training: {{epochs: 3, batch_size: 64}}
""")


def train(config_name, *words):
    return simurgh("train", config_name, *[x for word in words for x in ("--set", word)])


config("many.yaml", "many.csv", 8)
config("few.yaml", "few.csv", 8)
old = train("many.yaml", "checkpoint.directory=old")
cold = train("few.yaml", "checkpoint.directory=cold")
warm = train("few.yaml", "checkpoint.directory=warm", "checkpoint.start_from=old")
print(f"old {old.value('test_auc')}, cold {cold.value('test_auc')}, warm {warm.value('test_auc')}")
expect(warm.value("test_auc") > cold.value("test_auc") + 0.05, "the start helps")
expect(warm.value("test_auc") > old.value("test_auc") - 0.05, "what the old model knows is there")
line = warm.line("start_from: dense_tensors=")
expect(" new=none " in line, f"all dense tensors are taken: {line}")

# It is read at the begin only.
shutil.move("old", "old.gone")
again = train("few.yaml", "checkpoint.directory=warm", "checkpoint.start_from=old",
              "training.epochs=4")
expect("nothing was trained" not in again.out, "a training that continues needs no start")

# Another dim: the tables begin without rows, and so do the weights that read them.
config("other.yaml", "few.csv", 4)
other = train("other.yaml", "checkpoint.start_from=old.gone")
line = other.line("start_from: dense_tensors=")
expect(line and " new=none " not in line, f"tensors of other shapes are named: {line}")
missing = simurgh("train", "few.yaml", "--set", "checkpoint.start_from=none", code=None)
expect(missing.code in (2, 3) and "none" in missing.err, f"a missing model: {missing.err[-300:]}")
