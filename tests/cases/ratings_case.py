"""Ratings: copies of rows do not flatter the test, and the result has what a constant reaches."""

import csv

import numpy as np

from case import cluster_yaml, expect, program, simurgh, write

NOISE = 0.8
random = np.random.default_rng(8)
rows = 6000
user, item = random.integers(0, 100, rows), random.integers(0, 80, rows)
time = random.integers(1_400_000_000, 1_500_000_000, rows)
of_user, of_item = random.normal(0, 0.5, 100), random.normal(0, 0.5, 80)
rating = (3.5 + of_user[user] + of_item[item] + random.normal(0, NOISE, rows)).round(3)
header = ["userId", "movieId", "timestamp", "rating"]
cells = list(zip(user, item, time, rating))


def labels(path):
    with open(path, newline="") as file:
        return np.array([float(row["rating"]) for row in csv.DictReader(file)])


twice = random.permutation(rows * 2) % rows
write("twice.csv", header, [cells[i] for i in twice])
done = simurgh("init", "twice.csv")
expect("50 % of the rows repeat another one" in done.out, f"the share of copies: {done.out}")
parts = {part: set(open(f"twice.{part}.csv").read().split()[1:])
         for part in ("train", "valid", "test")}
expect(not parts["test"] & parts["train"] and not parts["valid"] & parts["train"],
       "no row of the test is one of training")
done = simurgh("train", "twice.yaml", "--refit")
rmse, constant = done.value("test_rmse"), done.value("test_constant_rmse")
expect(0.95 * NOISE < rmse < constant, f"the test error is above the noise: {done.out}")
expect(abs(constant - labels("twice.test.csv").std()) < 1e-4, f"the constant's: {done.out}")
expect("warning:" not in done.out, f"nothing is wrong: {done.out}")

# A row for each genre of a movie.
genres = [[f"g{(one * 7 + k) % 18}" for k in range(1 + one % 4)] for one in range(80)]
write("spread.csv", ["userId", "movieId", "timestamp", "genre", "rating"],
      [(u, i, t, genre, r) for u, i, t, r in cells for genre in genres[i]])
done = simurgh("init", "spread.csv")
expect("warning: rows repeat but for column genre." in done.out, f"a list as rows: {done.out}")

# A column that has the label.
write("leak.csv", header + ["points"], [(*row, row[-1] * 2 + 3) for row in cells])
simurgh("init", "leak.csv", "--dense", "points")
done = simurgh("train", "leak.yaml", "--refit", "--set", "training.epochs=20")
expect("RMSE of 'rating' is" in done.line("^warning:") and "such as 'points'" in done.out,
       f"a leak: {done.out}")

# Nothing to learn from: the model is worse than the mean label, and says so.
write("noise.csv", header, zip(user, item, time, random.permutation(rating)))
simurgh("init", "noise.csv")
done = simurgh("train", "noise.yaml")
is_worse = done.value("test_rmse") > done.value("test_constant_rmse")
expect(is_worse == ("The mean label for every row gives" in done.out), f"a constant: {done.out}")

# Texts of labels are numbers, and those that no row has are named.
half = np.clip((2 * rating).round() / 2, 0.5, 5)
write("half.csv", header, [(u, i, t, r) for u, i, t, r in zip(user, item, time, half)])
write("new.csv", header, [(u, i, t, r) for u, i, t, r in zip(user, item, time, half)][:500])
result = {}
for name, texts in (("numbers", "[4, 4.5, 5, 6]"), ("texts", "['4.0', '4.5', '5.0']")):
    with open(f"{name}.yaml", "w") as file:
        file.write(cluster_yaml() + f"""
data:
  train: [half.csv]
  test: [new.csv]
  columns:
    - {{name: rating, kind: label, positive: {texts}}}
    - {{name: userId, kind: id}}
    - {{name: movieId, kind: id}}
model: deepfm
checkpoint: {{directory: {name}-model}}
training: {{mode: sync}}
""")
    done = program("nn-worker", "--standalone", "--config", f"{name}.yaml")
    result[name] = done.value("test_auc")
    unused = [line for line in done.out.splitlines() if "is in none of the" in line]
    expect(len(unused) == (name == "numbers") and all("'6' of `positive`" in x for x in unused),
           f"{name}: texts that no row has: {done.out}")
expect(result["numbers"] == result["texts"], f"4 is 4.0: {result}")
done = simurgh("predict", "--model", "numbers-model", "--input", "new.csv", "--evaluate")
expect(done.value("test_auc") == result["texts"], f"predict compares numbers, too: {done.out}")
