"""Numbers are numbers as people write them, with words for missing ones, in init and after it."""

import json
import re

from case import BIN, clicks, expect, np, simurgh, write

user, item, price, hour, label, odds = clicks(3000)
users = [f"u{x}" for x in user]
items = [f"i{x}" for x in item]
random = np.random.default_rng(1)
missing = random.random(3000) < .1

HEADER = ["user", "item", "price", "label"]


def init(name, cells, separator=","):
    """Writes a file with these prices; returns init's line of the price, and the configuration."""
    write(f"{name}.csv", HEADER, zip(users, items, cells, label), separator)
    line = simurgh("init", f"{name}.csv").line(r"\bprice\b")
    with open(f"{name}.yaml") as file:
        return line, file.read()


# Words for a missing number. The last one is of no list, but the only text among many numbers.
for name, word in {"na": "NA", "pandas": "<NA>", "nat": "NaT", "inf": "inf", "null": "(null)",
                   "dash": "—", "hyphen": "-", "own": "keine Angabe"}.items():
    line, text = init(name, [word if m else p for m, p in zip(missing, price)])
    expect("numbers" in line and "texts" not in line, f"prices with {word} are numbers: {line}")
    values = re.search(r"missing_values: (\[.*\])", text)
    expect(values and word in json.loads(values[1]), f"{word} is a missing value: {values}")


def european(number):
    return f"{number:,.2f}".replace(",", "X").replace(".", ",").replace("X", ".")


# name: (cells, keys of the column, separator)
formats = {
    "decimal_comma": ([f"{p:.1f}".replace(".", ",") for p in price], 'decimal: comma', ";"),
    "european": ([european(p * 100) for p in price], 'decimal: comma, thousands: point', ";"),
    "thousands": ([f"{p * 1000:,.0f}" for p in price], 'thousands: comma', ","),
    "blanks": ([f"{p * 1000:,.0f}".replace(",", " ") for p in price], "thousands: blank", ","),
    "currency": ([f"${p:.2f}" for p in price], "", ","),
    "euro": ([f"{p:.2f} €" for p in price], "", ","),
    "percent": ([f"{p:.1f}%" for p in price], "", ","),
    "plus": ([f"+{p}" for p in price], "", ","),
    "plain": (price, "", ","),
}
for name, (cells, keys, separator) in formats.items():
    line, text = init(name, cells, separator)
    expect("numbers" in line and "texts" not in line, f"prices of {name} are numbers: {line}")
    column = re.search(r"- \{name: price,.*kind.*", text)[0]
    expect(keys in column and ("decimal" in column) == ("decimal" in keys)
           and ("thousands" in column) == ("thousands" in keys), f"{name}: keys of {column}")

# Texts that only look like them.
for name, cells in {"versions": [f"1.{x}.{x % 3}" for x in item],
                    "sites": [f"{x}.com" for x in item],
                    "ranges": [f"{x}-{x + 10}" for x in item]}.items():
    line, text = init(name, cells)
    expect("texts" in line, f"{name} are texts: {line}")

# Training, prediction and the server read the same numbers.
scores = {}
for name in ["plain", "european"]:
    done = simurgh("train", f"{name}.yaml")
    scores[name] = done.value("test_auc")
    simurgh("predict", "--model", f"{name}-model", "--input", f"{name}.csv", "--output",
            f"{name}.scores")
expect(abs(scores["plain"] - scores["european"]) < .01, f"the same AUC in both formats: {scores}")

# An id column of 18 digits, of which a spreadsheet has mangled some.
write("mangled.csv", ["uid", "item", "label"],
      [("1.35217E+17" if k % 50 == 0 else 135217135789158401 + int(u), i, y)
       for k, (u, i, y) in enumerate(zip(user, items, label))])
done = simurgh("init", "mangled.csv")
line = done.line(r"\buid\b")
expect(" id" in line and "60 like 1.35217E+17" in line, f"mangled ids are named: {line}")
with open("mangled.yaml") as file:
    expect("name: uid, kind: id, integers: true" in file.read(), "the ids are integers")
