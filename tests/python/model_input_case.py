"""Bad and unusual input of simurgh.Model: each has an answer or a clear error, and the model works afterwards."""

import datetime
import decimal
import pathlib
import shutil
import threading

from package import raises, simurgh
from case import expect, program, skip

import numpy as np

try:
    import polars
except ImportError:
    skip("polars is missing")

InvalidError = simurgh.InvalidError
LARGE = 2**63 + 5

random = np.random.default_rng(1)
COUNT = 2000
user = random.integers(0, 50, COUNT)
price = random.normal(3, 1, COUNT).round(2)
train = polars.DataFrame({
    "clicked": (random.random(COUNT) < 0.2 + 0.6 * (user % 2)).astype(int),
    "user": (np.uint64(2**63) + user.astype(np.uint64)),
    "code": 2**60 + user % 7,
    "price": price,
    "day": [f"2026-03-{1 + number % 28:02d}" for number in user],
    "tags": [";".join(f"t{tag}" for tag in range(number % 4)) for number in user],
})
train.write_csv("clicks.csv")
pathlib.Path("clicks.yaml").write_text("""\
data:
  train: [clicks.csv]
  columns:
    - {name: clicked, kind: label}
    - {name: user, kind: id}
    - {name: code, kind: dense, fit: true}
    - {name: price, kind: dense, fit: true}
    - {name: day, kind: dense, date: true, fit: true}
    - {name: tags, kind: id, separator: ";"}
tables:
  - {names: [user, code_id, tags], dim: 4}
features: [{name: user}, {name: code_id, column: code}, {name: tags}]
model: dlrm
training: {batch_size: 50, epochs: 2}
checkpoint: {directory: model}
""")
program("nn-worker", "--config", "clicks.yaml", "--standalone", "--log-level", "warn")
model = simurgh.Model("model", log_level="off")
rows = train.head(20).drop("clicked")
usual = model.predict(rows)
expect(np.isfinite(usual).all() and usual.std() > 0.01, f"usual predictions: {usual}")


def same(table, what):
    found = model.predict(table)
    expect((found == usual).all(), f"{what}: {found - usual}")


def with_column(name, values, **options):
    return rows.with_columns(polars.Series(name, values, **options))


# --- Columns: any order, more of them, other types of the same cells.
same(rows.select(rows.columns[::-1]), "another order")
same(train.head(20), "with labels")
same(rows.with_columns(other=polars.lit("x"), clicked=polars.lit("no label")), "other columns, and labels that are none")
raises(InvalidError, lambda: model.predict(rows.rename({"user": "USER"})), "user", "USER")
same(rows.with_columns(polars.col("user").cast(polars.String)), "ids above 2^63 as texts")
same(rows.with_columns(polars.col("user").cast(polars.String).cast(polars.Categorical)), "categories")
same(rows.with_columns(polars.col("code").cast(polars.String)), "numbers as texts, whose ids are beyond 2^53")
same(rows.with_columns(polars.col("code").cast(polars.UInt64)), "unsigned numbers beyond 2^53")
same(rows.with_columns(polars.col("price").cast(polars.String)), "numbers as texts")
same(with_column("price", [decimal.Decimal(str(one)) for one in price[:20]]), "decimals")
same(with_column("day", [datetime.date(2026, 3, int(text[-2:])) for text in rows["day"]]), "dates")
same(with_column("day", [datetime.datetime(2026, 3, int(text[-2:])) for text in rows["day"]]), "times")
same(with_column("tags", [text.split(";") if text else [] for text in rows["tags"]]), "lists")
same({name: rows[name].to_list() for name in rows.columns}, "a dict of lists")
same({name: tuple(rows[name]) for name in rows.columns}, "a dict of tuples")
same({name: rows[name] for name in rows.columns}, "a dict of columns of a frame")
lists = [text.split(";") if text else [] for text in rows["tags"]]
same({**rows.to_dict(as_series=False), "tags": lists}, "a dict with lists of ids, which are not one text")
same({**rows.to_dict(as_series=False), "tags": [np.array(one, object) for one in lists]}, "a dict with arrays of ids")
same({**rows.to_dict(as_series=False), "tags": [one or None for one in lists]}, "a dict with lists, of which some are missing")
raises(TypeError, lambda: model.predict({**rows.to_dict(as_series=False), "tags": ["t0", *lists[1:]]}), "list")
same({name: rows[name].to_numpy() for name in rows.columns}, "a dict of arrays")
for name in rows.columns:
    raises(InvalidError, lambda: model.predict(rows.drop(name)), name)
    raises(InvalidError, lambda: model.features(rows.drop(name)), name)
raises(InvalidError, lambda: model.predict(polars.DataFrame({"x": [1]})), "user")
raises(InvalidError, lambda: model.predict(polars.DataFrame()), "user")
for given in (None, 3, "clicks.csv", [1, 2], rows.to_numpy(), rows["user"], {"user": 3}, {"user": "text"}, {3: [1]}):
    raises(InvalidError, lambda: model.predict(given))
raises(InvalidError, lambda: model.predict({"user": [1, 2], "price": [1.0]}), "price", "1", "2")

# --- Types that no column of the kind has.
raises(InvalidError, lambda: model.predict(with_column("user", [{"a": 1}] * 20)), "user")
raises(InvalidError, lambda: model.predict(with_column("price", [[1.0, 2.0]] * 20)), "price")
raises(InvalidError, lambda: model.predict(with_column("tags", [[["a"]]] * 20)), "tags")
raises(TypeError, lambda: model.predict({**{name: rows[name].to_list() for name in rows.columns}, "user": [{"a": 1}] * 20}))

# --- Cells that are missing, are no numbers, or are too large.
missing = model.predict(with_column("price", [None] * 20, dtype=polars.Float64))
expect(np.isfinite(missing).all(), "missing numbers")
expect((model.predict(with_column("price", [np.nan] * 20)) == missing).all(), "NaN is missing")
expect((model.predict(with_column("price", [None] * 20)) == missing).all(), "a column of nulls")
expect(np.isfinite(model.predict(with_column("user", [None] * 20, dtype=polars.UInt64))).all(), "missing ids")
for values in ([np.inf] * 20, ["x"] * 20, ["1e999"] * 20):
    found = model.features(with_column("price", values))
    expect(np.isnan(model.predict(with_column("price", values))).all(), f"{values[0]} is a bad row")
    expect(found.bad_rows == 20 and np.isnan(found.dense).all() and np.isnan(found.joined).all(), f"features of {values[0]}")
one_bad = with_column("price", [*map(str, price[:7]), "bad", *map(str, price[8:20])])
found = model.predict(one_bad)
expect(np.isnan(found[7]) and (np.delete(found, 7) == np.delete(usual, 7)).all(), f"one bad row: {found}")
expect(np.isfinite(model.predict(with_column("price", [1e38] * 20))).sum() in (0, 20), "large numbers end in no crash")

# --- No rows, many rows, long texts.
expect(model.predict(rows.head(0)).shape == (0,), "no rows")
nothing = model.features(rows.head(0))
expect(nothing.dense.shape == (0, 3) and nothing.joined.shape == (0, 12), "features of no rows")
expect(model.predict({name: np.array([]) for name in rows.columns}).shape == (0,), "a dict of no rows")
many = polars.concat([rows] * 10_000)
found = model.predict(many).reshape(-1, 20)
expect(found.shape == (10_000, 20) and np.allclose(found, usual, atol=1e-6), "200,000 rows")
chunks = polars.concat([rows[:3], rows[3:4], rows[4:]], rechunk=False)
same(chunks, "a table of several chunks")
long = "x" * 50_000_000
found = model.predict(with_column("user", [long] + [str(one) for one in rows["user"][1:]]))
expect((found[1:] == usual[1:]).all() and np.isfinite(found[0]), "a text of 50 MB is an id")
tags = model.predict(with_column("tags", [";".join(map(str, range(1_000_000)))] + rows["tags"].to_list()[1:]))
expect((tags[1:] == usual[1:]).all() and np.isfinite(tags[0]), "a list of a million ids")
odd = with_column("user", ["\0", "\ufffd", "", " ", "🙂", "a\nb", '"', ","] + ["x"] * 12)
expect(np.isfinite(model.predict(odd)).all(), "unusual texts")

# --- A call keeps no memory of its table, and texts of an earlier one count no more.
expect(not simurgh._columns._kept, "tables of dicts are released")
texts = rows["user"].cast(polars.String)
for turn in range(300):
    order = random.permutation(20)
    values = texts.gather(order)
    found = model.predict(rows[order].with_columns(values.cast(polars.Categorical)))
    expect(np.allclose(found, usual[order], atol=1e-6), f"categories, turn {turn}")

# --- Rows by id.
program("simurgh", "export", "embeddings", "--model", "model", "--table", "user", "--output", "user.npz")
exported = np.load("user.npz")
weights, found = model.rows("user", exported["id"])
expect((exported["id"] > 2**63).any(), "some ids are above 2^63")
expect(found.all() and (weights == exported["weights"]).all(), "rows of ids above 2^63")
weights, found = model.rows("user", [int(one) for one in exported["id"]])
expect(found.all() and (weights == exported["weights"]).all(), "a list of ids above 2^63")
weights, found = model.rows("user", np.array([0, 2**64 - 1], np.uint64))
expect(weights.shape == (2, 4) and not found.any() and not weights.any(), "the least and the greatest id have no row")
weights, found = model.rows("user", exported["id"][::-3])
expect((weights == exported["weights"][::-3]).all(), "an array that is not contiguous")
for none in ([], np.array([], np.uint64)):
    weights, found = model.rows("user", none)
    expect(weights.shape == (0, 4) and found.shape == (0,), "no ids")
weights, found = model.rows("user", np.tile(exported["id"], 20_000))
expect(found.all() and (weights[-1] == exported["weights"][-1]).all(), "a million ids")
raises(InvalidError, lambda: model.rows("user", [-1]), "ids", "-1")
raises(InvalidError, lambda: model.rows("user", np.array([3, -7], np.int8)), "ids", "-7")
for bad in ([1.0], ["1"], [None], [[1]], 3, [2**64], [True], np.array([1 + 1j])):
    raises(InvalidError, lambda: model.rows("user", bad), "ids")
raises(InvalidError, lambda: model.rows("price", [1]), "price", "user, code_id, tags")
raises(InvalidError, lambda: model.rows(None, [1]), "None")

# --- Folders.
raises(InvalidError, lambda: simurgh.Model("."), "there is no checkpoint", "model")
raises(InvalidError, lambda: simurgh.Model("clicks.csv"), "clicks.csv")
raises(InvalidError, lambda: simurgh.Model("model", version=7), "7")
raises(InvalidError, lambda: simurgh.Model("model", version="none"), "none")
raises(InvalidError, lambda: simurgh.Model("model", overrides=["data.nothing=1"]), "data.nothing")
raises(InvalidError, lambda: simurgh.Model("model", log_level="loud"), "loud")
[step] = [path.name for path in pathlib.Path("model").glob("step-*")]
for path in sorted(path for path in pathlib.Path("model", step).rglob("*") if path.is_file()):
    for damage in ("cut", "changed", "gone"):
        shutil.copytree("model", "damaged")
        damaged = pathlib.Path("damaged", path.relative_to("model"))
        data = damaged.read_bytes()
        if damage == "gone":
            damaged.unlink()
        else:
            place = len(data) * 2 // 3
            damaged.write_bytes(data[:place] if damage == "cut" else data[:place] + bytes([data[place] ^ 1]) + data[place + 1:])
        try:
            found = simurgh.Model("damaged", log_level="off").predict(rows)
            # Servers do not read the optimizer's state.
            expect(damage == "changed" and (found == usual).all(), f"{path} is {damage}, but the model is used")
        except simurgh.Error as error:
            expect(damaged.parent.name in str(error) or "damaged" in str(error), f"{path} is {damage}: {error}")
        shutil.rmtree("damaged")

# --- A closed model; arrays outlive it.
kept = model.features(rows)
copy = kept.joined.copy()
model.close()
model.close()
expect((kept.joined == copy).all(), "arrays outlive the model")
for call in (lambda: model.predict(rows), lambda: model.features(rows), lambda: model.rows("user", [1]), lambda: model.step):
    raises(InvalidError, call, "closed")

# A close waits for calls of other threads.
for _ in range(20):
    model = simurgh.Model("model", log_level="off")
    started = threading.Barrier(5)
    errors = []

    def ask():
        started.wait()
        try:
            for _ in range(50):
                model.predict(rows)
        except InvalidError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    model.close()
    for thread in threads:
        thread.join()
    expect(all("closed" in error for error in errors), f"{errors}")
