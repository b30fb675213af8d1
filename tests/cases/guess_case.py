"""`simurgh init` chooses kinds by what columns tell of the label, and never guesses a label."""

import re
import shlex

import numpy as np

from case import clicks, expect, simurgh, write

user, item, price, hour, label, odds = clicks(8000, users=300, items=300)


def auc(scores, labels):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positives = labels.sum()
    return (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (
        positives * (len(labels) - positives))


def kinds(out):
    """The kinds of columns by name, as `init` prints them."""
    lines = [line.split() for line in out.splitlines() if line.startswith("  ")]
    return {words[0]: words[1] for words in lines
            if len(words) > 1 and words[1] in ("id", "dense", "label", "skip", "weight")}


# Integers are ids by any name, and numbers stay numbers.
ID_NAMES = ("user item movie site ad adid userid uid category cate store brand campaign C14 "
            "a b user:token").split()
for one, two in zip(ID_NAMES, ID_NAMES[1:]):
    write("names.csv", [one, two, "price", "hour", "age", "visits", "clk"],
          zip(user, item, price, hour, 18 + user % 70, price.astype(int), label))
    found = kinds(simurgh("init", "names.csv", "--force").out)
    expect(found == {one.split(":")[0]: "id", two.split(":")[0]: "id", "price": "dense",
                     "hour": "dense", "age": "dense", "visits": "dense", "clk": "label"},
           f"{one}, {two}: {found}")

# The model of integers is as good as that of letters. Labels are random with known odds.
user, item, price, hour, label, odds = clicks(8000, users=300, items=60)
best = auc(odds, label)
files = {}
for name, u, i, w in (("integers", "", "", ""), ("letters", "u", "i", "w")):
    write(f"{name}.csv", ["user", "item", "weather", "price", "liked"],
          zip([f"{u}{x}" for x in user], [f"{i}{x}" for x in item],
              [f"{w}{x % 7}" for x in hour], price, label))
    simurgh("init", f"{name}.csv")
    text = re.sub(r" *#.*|, integers: true|127.0.0.1:\d+", "",
                  open(f"{name}.yaml").read())
    files[name] = text.replace(name, "FILE").split()
    reached = simurgh("train", f"{name}.yaml", "--refit").value("test_auc")
    expect(reached > best - 0.03, f"{name}: AUC {reached}, of the odds {best}")
expect(files["integers"] == files["letters"], "integers have the configuration of letters")

# Files of RecBole have types in their header.
write("r.inter", ["user_id:token", "item_id:token", "timestamp:float", "rating:float"],
      zip(user, item, 881250949 + hour * 3600, 1 + (user + item) % 5), separator="\t")
done = simurgh("init", "r.inter")
expect(kinds(done.out) == {"user_id": "id", "item_id": "id", "timestamp": "dense",
                           "rating": "label"}, f"RecBole: {done.out}")
expect("a regression" in done.out, "the ratings are numbers")

# Several candidates for the label: the commands choose one.
write("my data.csv", ["user", "first", "is it?", "gender"],
      zip(user, label, 1 - label, np.where(user % 2 == 0, "m", "f")))
done = simurgh("init", "my data.csv", code=2)
commands = [line for line in done.err.splitlines() if "simurgh init " in line]
expect(len(commands) == 3, f"a command for each candidate: {done.err}")
words = shlex.split(commands[1], comments=True)
expect(words[1:] == ["init", "my data.csv", "--label", "is it?"], f"quoted words: {words}")
simurgh(*words[1:])

# Further labels, and what tells the label, are no features.
write("leak.csv", ["user", "click", "conversion", "seconds", "item"],
      zip([f"u{x}" for x in user], label, label * (user % 3 == 0),
          np.where(label == 1, 5 + price, 0).round(2), item))
done = simurgh("init", "leak.csv")
expect(kinds(done.out) == {"user": "id", "click": "label", "conversion": "skip", "seconds": "skip",
                           "item": "id"}, f"leaks are left out: {done.out}")
expect("looks like a second label; as a feature: --id conversion" in done.out, "a further label")
expect("predicts the label nearly alone" in done.line("seconds"), "a leak")
found = kinds(simurgh("init", "leak.csv", "--force", "--dense", "seconds", "--skip", "item").out)
expect(found["seconds"] == "dense" and found["item"] == "skip", f"options: {found}")
done = simurgh("init", "leak.csv", "--force", "--id", "usr", code=2)
expect("--id usr: the header has no such column; use one of user, click, conversion" in done.err,
       f"a wrong name: {done.err}")

# The newest rows test.
day = np.random.default_rng(3).permutation(8000)
write("time.csv", ["user", "day", "weight", "click"],
      zip([f"u{x}" for x in user],
          np.datetime64("2024-01-01T00:00:00") + day.astype("timedelta64[m]"), 1 + user % 3, label))
simurgh("init", "time.csv", "--time", "day", "--weight", "weight", "--group", "user")
days = {part: [line.split(",")[1] for line in open(f"time.{part}.csv").read().split()[1:]]
        for part in ("train", "valid", "test")}
expect(max(days["train"]) < min(days["valid"]) and max(days["valid"]) < min(days["test"]),
       "validation is newer than training, and the test newer than both")
expect(sum(len(part) for part in days.values()) == 8000, "each row is in one part")
found = simurgh("init", "time.csv", "--force", "--time", "day", "--rows", "1000").out
expect(found.startswith("columns of the first 1000 rows"), "--rows is --sample")
simurgh("init", "time.csv", "--force", "--time", "day", "--weight", "weight", "--group", "user")
done = simurgh("train", "time.yaml")
expect("group_auc=" in done.all, f"an AUC within users: {done.out}")

# Numbers only train, also without a feature in a file of one's own.
random = np.random.default_rng(5)
numbers = random.normal(size=(4000, 3)).round(4)
odds = 2 * numbers[:, 0] * numbers[:, 1] + numbers[:, 2]
label = (random.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
write("numbers.csv", ["a", "b", "c", "label"], [(*row, one) for row, one in zip(numbers, label)])
simurgh("init", "numbers.csv")
columns = ", ".join(f"{{name: {name}, kind: dense}}" for name in "abc")
with open("own.yaml", "w") as file:
    file.write(f"data:\n  train: [numbers.train.csv]\n  test: [numbers.test.csv]\n"
               f"  columns: [{columns}, {{name: label, kind: label}}]\nmodel: wide_deep\n")
best = auc(odds, label)
for config, margin in (("numbers.yaml", 0.04), ("own.yaml", 0.15)):
    reached = simurgh("train", config).value("test_auc")
    expect(reached > best - margin, f"{config}: AUC {reached}, of the odds {best}")
