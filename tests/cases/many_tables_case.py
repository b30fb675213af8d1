"""A checkpoint of 3,000 small tables takes seconds: the disk syncs their files together."""

import numpy as np

from case import expect, program, simurgh, write

random = np.random.default_rng(1)
columns = 3000
values = random.integers(0, 5, (64, columns))
write("tables.csv", ["label"] + [f"c{k}" for k in range(columns)],
      [[k % 2] + [f"v{x}" for x in row] for k, row in enumerate(values)])
with open("tables.yaml", "w", encoding="utf-8") as file:
    file.write("data:\n  train: [tables.csv]\n  columns:\n    - {name: label, kind: label}\n")
    file.writelines(f"    - {{name: c{k}, kind: id}}\n" for k in range(columns))
    file.write("tables: [{names: [" + ", ".join(f"c{k}" for k in range(columns)) + "], dim: 1}]\n")
    file.write("model: {towers: [{name: top, input: [embeddings], layers: [{linear: 1}]}]}\n"
               "training: {batch_size: 32, epochs: 1}\ncheckpoint: {directory: model}\n")
done = program("nn-worker", "--config", "tables.yaml", "--standalone")
saved = done.line("saved the model")
expect(0 < done.value("rows"), f"the model is saved: {done.all[-2000:]}")
seconds = float(saved.rsplit("seconds=", 1)[1]) if "seconds=" in saved else float("nan")
print(f"seconds={seconds}")
# Idle it takes seconds. Other programs may use the disk and processors, too.
expect(seconds < 60, f"a checkpoint of {columns} tables took {seconds} s: {saved}")
expect("sound" in simurgh("model", "verify", "model").out, "the checkpoint is sound")
