"""Reports of odd models and inputs: each has a page, or an error that says what to do."""

import html.parser
import json
import os
import shutil

from case import clicks, cluster_yaml, expect, simurgh, write


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order, and that there is no script."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.is_good = [], "", True
        self.feed(text)
        self.close()
        self.is_good = self.is_good and not self.open

    def handle_starttag(self, tag, _attributes):
        self.open.append(tag)
        self.is_good = self.is_good and tag not in ("script", "img", "link", "iframe")

    def handle_startendtag(self, tag, _attributes):
        pass

    def handle_endtag(self, tag):
        self.is_good = self.is_good and bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def report(model, *words, rows=200):
    """Returns the JSON and the text of the page."""
    done = simurgh("report", model, "--output", "page.html", "--json", "numbers.json",
                   *(["--importance-rows", rows] if rows is not None else []), *words)
    with open("page.html", encoding="utf-8") as file:
        page = Page(file.read())
    expect(page.is_good, f"the page of {model} {words} is well formed, without scripts")
    with open("numbers.json", encoding="utf-8") as file:
        return json.load(file), page.text, done


def train(name, data, more=""):
    with open(f"{name}.yaml", "w", encoding="utf-8") as file:
        file.write(cluster_yaml() + f"data:\n{data}\n{more or 'model: deepfm'}\ncheckpoint: {{directory: {name}}}\n")
    return simurgh("train", f"{name}.yaml", "--standalone")


def refused(*words, says, code=2):
    done = simurgh("report", *words, "--output", "none.html", code=code)
    expect(says in done.err, f"report {' '.join(map(str, words))}: expected {says!r} in {done.err}")
    expect(not os.path.exists("none.html"), "no page is left after an error")


user, item, price, hour, label, _ = clicks(2500)
rows = [(f"u{u}", f"i{i}", p, h, y) for u, i, p, h, y in zip(user, item, price, hour, label)]
HEAD = ["user", "item", "price", "hour", "label"]
write("train.csv", HEAD, rows[:2000])
write("test.csv", HEAD, rows[2000:])
COLUMNS = """  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense, transform: log1p}
    - {name: hour, kind: id}
    - {name: label, kind: label}"""
done = train("m", "  train: [train.csv]\n  test: [test.csv]\n  validation: [test.csv]\n" + COLUMNS)
expect("report m" in done.err or "/m" in done.line("page about the model"), f"train says how to make a page: {done.err[-300:]}")


# The test files of the configuration, the history and all parts.
numbers, text, done = report("m")
expect(numbers["input"]["rows"] == 500 and numbers["labels"][0]["label"] == "label", "the configuration's test files")
test = simurgh("predict", "--model", "m", "--input", "test.csv", "--evaluate")
expect(abs(numbers["labels"][0]["metrics"]["auc"] - test.value("test_auc")) < 1e-4, "the AUC is that of predict")
expect("AUC" in done.err and "page.html" in done.err, f"the command says what it has found: {done.err}")
for part in ("Training", "What the model uses", "Calibration", "Tables and columns", "What to do next"):
    expect(part in text, f"the page has {part}")
expect(numbers["tables"][0]["rows"] > 0 and numbers["tables"][0]["mean_norm"] > 0, "rows and norms of tables")
expect({one["column"] for one in numbers["segments"]} <= {"user", "item", "price", "hour"}, "segments by themselves")
expect(len(numbers["history"]["evaluations"]) > 0, "the history of the training")


# Rows: by other columns, compressed, from stdin, with bad rows.
write("more.csv", ["region", *HEAD], [("<b>north</b>" if k % 3 else "süd", *row) for k, row in enumerate(rows[2000:])])
numbers, text, _ = report("m", "--input", "more.csv", "--by", "region,hour")
names = {one["name"]: one["rows"] for one in numbers["segments"][0]["segments"]}
expect(names == {"<b>north</b>": 333, "süd": 167}, f"a column that the training did not have: {names}")
expect("<b>north</b>" in text, "markup of the data is text")
with open("test.csv", encoding="utf-8") as file:
    lines = file.read()
simurgh("report", "m", "--input", "/dev/stdin", "--output", "page.html", "--importance-rows", 50, stdin=None, input=lines)
with open("bad.csv", "w", encoding="utf-8") as file:
    file.write(lines + "u1,i1,many,3,1\n")
numbers, text, _ = report("m", "--input", "bad.csv")
expect(numbers["input"]["bad_rows"] == 1 and "could not be parsed" in text, "a bad row is counted")
refused("m", "--input", "test.csv", "--by", "regin", says="no column 'regin'")


with open("rows.jsonl", "w", encoding="utf-8") as file:
    for row in rows[2000:]:
        file.write(json.dumps({name: cell if isinstance(cell, str) else float(cell) if name == "price" else int(cell)
                               for name, cell in zip(HEAD, row)}) + "\n")
measured = [simurgh("predict", "--model", "m", "--input", path, "--importance", "--repeats", 2).out
            for path in ("test.csv", "rows.jsonl")]
expect(measured[0] == measured[1] and "user" in measured[0], f"rows of JSON: {measured}")


# Inputs that lack something.
write("unlabelled.csv", HEAD[:4], [row[:4] for row in rows[2000:]])
numbers, text, done = report("m", "--input", "unlabelled.csv")
expect(numbers["labels"] == [] and abs(numbers["unlabelled"][0]["mean"] - 0.4) < 0.3, "predictions without labels")
expect("without labels" in done.err and "no labels" in text, "the page says that the rows have no labels")
ones = [row for row in rows[2000:] if row[4] == 1]
write("ones.csv", HEAD, ones)
numbers, text, _ = report("m", "--input", "ones.csv")
expect(numbers["labels"][0]["metrics"]["auc"] is None and "same label" in text, "one class has no AUC")
write("three.csv", HEAD, rows[2000:2003])
numbers, _, _ = report("m", "--input", "three.csv")
expect(numbers["labels"][0]["rows"] == 3, "three rows")
write("one.csv", HEAD, rows[2000:2001])
report("m", "--input", "one.csv")
write("empty.csv", HEAD, [])
refused("m", "--input", "empty.csv", says="no rows")
with open("nothing.csv", "w", encoding="utf-8"):
    pass
refused("m", "--input", "nothing.csv", says="nothing.csv")
write("lacking.csv", ["user", "price", "label"], [(row[0], row[2], row[4]) for row in rows[:50]])
refused("m", "--input", "lacking.csv", says="'item'")
write("texts.csv", HEAD, [(*row[:2], "cheap", *row[3:]) for row in rows[:50]])
refused("m", "--input", "texts.csv", says="all 50 rows are bad")
refused("m", "--input", "no-such-file.csv", says="no-such-file.csv", code=None)
refused("no-such-model", says="no-such-model", code=None)
refused("m", "--repeats", "0", says="--repeats")
done = simurgh("report", "m", "--output", "-", "--json", "-", code=2)
expect("stdout" in done.err, f"two results on stdout: {done.err}")
for words, says in ((("--groups", "usr"), "'usr'"), (("--groups", "user+item,item"), "twice"), (("--repeats", 0), "--repeats"),
                    (("--importance-rows", 10**9), "out of range"), (("--evaluate",), "--evaluate")):
    done = simurgh("predict", "--model", "m", "--input", "test.csv", "--importance", *words, code=2)
    expect(says in done.err, f"--importance {words}: {done.err}")
done = simurgh("predict", "--model", "m", "--input", "unlabelled.csv", "--importance", code=2)
expect("label" in done.err, f"importance needs labels: {done.err}")


# Models without something.
shutil.copytree("m", "plain")
os.remove("plain/history.jsonl")
numbers, text, _ = report("plain", "--input", "test.csv")
expect("no history" in text and numbers["history"]["progress"] == [], "a model without history")
with open("plain/history.jsonl", "w", encoding="utf-8") as file:
    file.write('{"event": "later"}\n[]\n{"event": "progress", "step": 1}\n{"event": "prog')
report("plain", "--input", "test.csv", rows=0)
os.rename("test.csv", "moved.csv")
numbers, text, _ = report("m")
expect("is not there" in text and numbers["labels"] == [], "a page without rows")
refused("m", "--by", "user", says="--by needs rows")
os.rename("moved.csv", "test.csv")
numbers, _, _ = report("m", "--compare", "plain", rows=0)
expect(numbers["compared"]["labels"][0]["differences"]["auc"] == [0, 0], "a copy does not differ")


# Several labels of which some are unknown, weights, groups and a label of numbers; names with markup.
two = [(f"u{u}", f"i{i}", y, "" if k % 7 == 0 else int(p > 8), round(1 + k % 3, 1), f"s{k // 10}")
       for k, (u, i, p, y) in enumerate(zip(user, item, price, label))]
names = ["us<er>", "ïtem & co", "cli'ck", "buy\"\"", "weight", "session"]
write("two.train.csv", names, two[:2000])
write("two.test.csv", names, two[2000:])
train("two", """  train: [two.train.csv]
  test: [two.test.csv]
  columns:
    - {name: user, header_name: "us<er>", kind: id}
    - {name: item, header_name: "ïtem & co", kind: id}
    - {name: click, header_name: "cli'ck", kind: label}
    - {name: buy, header_name: 'buy""', kind: label}
    - {name: weight, kind: weight}
    - {name: session, kind: group}""", "model: {towers: [{name: top, input: embeddings, layers: [{linear: 8}, relu, {linear: 2}]}]}")
numbers, text, _ = report("two", "--by", "US<ER>,ïtem & co")
expect(len(numbers["labels"]) == 2 and numbers["labels"][1]["rows"] < 500, "rows of each label")
expect(numbers["input"]["bootstrap_unit"] == "group" and numbers["input"]["has_weights"], "groups and weights")
expect(len(numbers["importance"]["columns"][0]["effects"]) == 2, "the importance for each label")
expect({one["column"] for one in numbers["segments"]} == {"user", "item"}, "columns by the names in the file")
simurgh("predict", "--model", "two", "--input", "two.test.csv", "--importance", "--importance-rows", 100)
refused("m", "--input", "test.csv", "--compare", "two", says="--compare", code=2)
write("prices.csv", ["user", "item", "price"], [row[:3] for row in rows])
train("prices", """  train: [prices.csv]
  test: [prices.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: label}""", "model: {deepfm: , loss: {kind: squared_error}}")
numbers, text, _ = report("prices")
expect(numbers["labels"][0]["metrics"]["rmse"] > 0 and "Residuals" in text, "a label of numbers")
