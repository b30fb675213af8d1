"""Lists of ids are found and split, whatever is between them."""

import json

from case import clicks, expect, np, simurgh, write

ROWS = 6000
user, item, price, hour, label, odds = clicks(ROWS)
random = np.random.default_rng(3)
weight = np.random.default_rng(8).normal(0, 1.5, 40)
seen = [[int(x) for x in random.integers(0, 40, random.integers(0, 6))] for _ in range(ROWS)]
label = [int(random.random() < 1 / (1 + np.exp(-sum(weight[q] for q in s)))) for s in seen]

texts = {
    "semicolon": lambda s: ";".join(map(str, s)),
    "python": str,
    "json": lambda s: json.dumps([f"i{x}" for x in s]),
    "numpy": lambda s: "[" + " ".join(map(str, s)) + "]",
    "caret": lambda s: "^".join(map(str, s)),
    "comma": lambda s: ",".join(map(str, s)),
    "ctrl_a": lambda s: "\x01".join(map(str, s)),
    "underline": lambda s: "_".join(map(str, s)),
    "blank": lambda s: " ".join(map(str, s)),
}
trained = ["semicolon", "json", "underline"]
for name, text in texts.items():
    write(f"{name}.csv", ["user_id", "item_id", "hist", "label"],
          zip(user, item, map(text, seen), label))
    line = simurgh("init", f"{name}.csv").line(r"\bhist\b")
    expect("lists of up to 5 of about 40" in line, f"{name} are lists: {line}")
    if name not in trained:
        continue
    auc = simurgh("train", f"{name}.yaml").value("test_auc")
    expect(auc > .855, f"test_auc of {name} is {auc}, expected about .875")

# Texts that are no lists.
cities = ["New York", "New Orleans", "Los Angeles", "San Francisco", "San Diego", "Santa Fe",
          "Salt Lake City", "Berlin", "Rio de Janeiro", "Las Vegas"]
others = {
    "city": [cities[x % 10] for x in item],
    "campaign": [f"us_search_brand_{x}" if x % 2 else f"eu_display_{x}" for x in item],
    "user_key": [f"user_{x}" for x in user],
    "span": [f"{x}-{x + 3}" for x in item],
}
write("texts.csv", [*others, "label"], zip(*others.values(), label))
done = simurgh("init", "texts.csv")
for name in others:
    line = done.line(rf"\b{name}\b")
    expect("texts" in line and "lists" not in line, f"{name} has no lists: {line}")

# Vectors.
points = random.normal(0, 1, (ROWS, 3))
label = (random.random(ROWS) < 1 / (1 + np.exp(-2 * points.sum(1)))).astype(int)
write("vectors.csv", ["user", "bar", "brackets", "label"],
      [(f"u{u}", "|".join(f"{x:.4f}" for x in p), str([round(float(x), 4) for x in p]), y)
       for u, p, y in zip(user, points, label)])
done = simurgh("init", "vectors.csv")
for name in ["bar", "brackets"]:
    line = done.line(rf"\b{name}\b")
    expect("vectors of 3 numbers" in line, f"{name} has vectors: {line}")
auc = simurgh("train", "vectors.yaml").value("test_auc")
expect(auc > .9, f"test_auc of vectors is {auc}, expected .93")
