"""Files that are sorted by the label or by users train as well as shuffled ones."""

import json

from case import clicks, expect, simurgh, write

user, item, price, hour, label, odds = clicks(20000)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
orders = {"mixed": rows,
          "by_label": sorted(rows, key=lambda row: row[3]),
          "by_user": sorted(rows, key=lambda row: row[0])}
results = {}
for name, ordered in orders.items():
    write(f"{name}.csv", ["user", "item", "price", "label"], ordered)
    made = simurgh("init", f"{name}.csv")
    expect("rows, shuffled, to" in made.out, f"init says that it shuffles:\n{made.out}")
    simurgh("train", f"{name}.yaml")
    simurgh("predict", "--model", f"{name}-model", "--input", f"{name}.test.csv", "--output", "s.csv")
    test = list(map(lambda line: int(line.rsplit(",", 1)[1]),
                    open(f"{name}.test.csv").read().splitlines()[1:]))
    scores = [float(line) for line in open("s.csv").read().splitlines()[1:]]
    evaluated = json.loads(simurgh("predict", "--model", f"{name}-model", "--input",
                                   f"{name}.test.csv", "--output", "s.csv", "--evaluate",
                                   "--json").out.splitlines()[-1])
    results[name] = evaluated["test_logloss"]
    share = sum(test) / len(test)
    mean = sum(scores) / len(scores)
    expect(abs(mean - share) < 0.02, f"{name}: mean prediction {mean:.3f}, share {share:.3f}")
    expect(evaluated["test_logloss"] < 0.503, f"{name}: {evaluated}")
spread = max(results.values()) - min(results.values())
expect(spread < 0.008, f"the order does not matter: {results}")
