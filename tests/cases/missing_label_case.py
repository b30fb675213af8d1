"""A row whose second label is unknown trains and tests the first task only."""

import csv

from case import clicks, cluster_yaml, expect, np, simurgh, write

ROWS = 6000
user, item, price, hour, label, odds = clicks(ROWS)
random = np.random.default_rng(3)
of_item = np.random.default_rng(4).normal(0.4, 1.5, 40)
bought = (random.random(ROWS) < 1 / (1 + np.exp(-of_item[item]))).astype(int)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], label, bought))
for name, unknown in {"empty": "", "minus": "-1"}.items():
    for part, begin, end in [("train", 0, 5000), ("test", 5000, ROWS)]:
        write(f"{name}.{part}.csv", ["user", "item", "click", "buy"],
              [(u, i, c, b if c else unknown) for u, i, c, b in rows[begin:end]])
    with open(f"{name}.yaml", "w") as file:
        file.write(cluster_yaml() + f"""
data:
  train: [{name}.train.csv]
  test: [{name}.test.csv]
  missing_values: ["", "-1"]
  columns:
    - {{name: user, kind: id}}
    - {{name: item, kind: id}}
    - {{name: click, kind: label}}
    - {{name: buy, kind: label}}
model: dcn_v2
training: {{epochs: 3, batch_size: 128}}
checkpoint: {{directory: {name}-model}}
""")
done = simurgh("train", "empty.yaml")
auc = [float(line.split("auc=")[1].split()[0]) for line in done.all.splitlines()
       if "label=buy" in line and "auc=" in line]
expect(auc and auc[-1] > .7, f"test AUC of buy is {auc}, expected .78")
expect(done.value("test_auc") > .7, f"test_auc of click is {done.value('test_auc')}")

# The second probability is that of the rows with a label, not that of a click and a purchase.
simurgh("predict", "--model", "empty-model", "--input", "empty.test.csv", "--output", "scores.csv")
with open("scores.csv") as file:
    scores = np.array([float(row["p_buy"]) for row in csv.DictReader(file)])
of_clicked = bought[label == 1].mean()
expect(abs(scores.mean() - of_clicked) < .08,
       f"mean of p_buy is {scores.mean():.3f}, the share among clicks {of_clicked:.3f}")

same = simurgh("train", "minus.yaml")
expect(same.value("test_auc") == done.value("test_auc"), "-1 is missing, as it is stated")

# Without any label a row is bad.
with open("empty.train.csv", "a") as file:
    file.write("u1,i1,,\n")
bad = simurgh("train", "empty.yaml", "--set", "checkpoint.directory=other", code=None)
expect(bad.code != 0 and "empty.train.csv:5002: all labels are missing" in bad.all,
       f"the row without labels is bad: {bad.all[-400:]}")
