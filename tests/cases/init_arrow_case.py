"""`simurgh init` reads Parquet and Arrow files by the module as it reads CSV."""

import os
import subprocess

from case import BIN, ROOT, clicks, expect, simurgh, skip, write

PYTHON = ROOT / "build/arrow/bin/python"
WRITE = """
import csv, pyarrow as pa, pyarrow.feather as feather, pyarrow.parquet as parquet
with open("rows.csv", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
column = lambda name, kind: [kind(row[name]) for row in rows]
table = pa.table({
    "user": pa.array(column("user", str)).dictionary_encode(),
    "item": column("item", int),
    "price": column("price", float),
    "tags": column("tags", lambda text: text.split("|")),
    "place": [{"x": 1}] * len(rows),
    "weights": pa.array([[("a", 0.5)]] * len(rows), pa.map_(pa.string(), pa.float64())),
    "label": column("label", lambda text: text == "1")})
parquet.write_table(table.slice(0, 2000), "days/1.parquet")
parquet.write_table(table.slice(2000), "days/2.parquet")
parquet.write_table(table, "one.parquet")
feather.write_feather(table, "two.feather", compression="uncompressed")
"""

if not PYTHON.exists() or not (BIN / "libsimurgh_arrow.so").exists():
    skip("scripts/bootstrap.sh --arrow is needed")
user, item, price, hour, label, odds = clicks(4000)
write("rows.csv", ["user", "item", "price", "tags", "label"],
      [[f"ü{user[k]}", item[k], price[k], f"t {user[k] % 5}|t{5 + item[k] % 7}"
        if k % 3 else f"t {user[k] % 5}", label[k]] for k in range(len(label))])
os.mkdir("days")
subprocess.run([str(PYTHON), "-c", WRITE], check=True)

simurgh("init", "rows.csv")
of_csv = simurgh("train", "rows.yaml").value("test_auc")
made = simurgh("init", "one.parquet")
for line in ("which are copied as CSV", "user     id     200 texts", "lists of up to 2 of about 12",
             "place    skip   no text, number or list", "weights  skip ", "one.test.csv.zst"):
    expect(line in made.out, f"{line!r} is in:\n{made.out}")
of_parquet = simurgh("train", "one.yaml").value("test_auc")
expect(abs(of_parquet - of_csv) < 0.002, f"AUC {of_parquet}, of the same rows as CSV {of_csv}")
simurgh("predict", "--model", "one-model", "--input", "one.parquet", "--output", "of_parquet.csv")
scores = [float(line) for line in open("of_parquet.csv").read().splitlines()[1:]]
share = sum(label) / len(label)
expect(len(scores) == 4000 and abs(sum(scores) / 4000 - share) < 0.03,
       f"{len(scores)} rows of Parquet are predicted, mean {sum(scores) / 4000:.3f}, of {share:.3f}")

# A folder is a table, and another file can be the test.
made = simurgh("init", "days", "--test", "one.parquet")
expect("days: 4000 rows" in made.out and "one.parquet: 4000 rows" in made.out, made.out)
expect("copied to days.test.csv.zst" in made.out, made.out)
made = simurgh("init", "two.feather")
expect("two.feather: 4000 rows" in made.out, made.out)

without = {**os.environ, "SIMURGH_ARROW_MODULE": "/nonexistent.so"}
made = simurgh("init", "one.parquet", "--force", code=None, env=without)
expect(made.code != 0 and "scripts/bootstrap.sh --arrow" in made.err, f"without the module: {made.err}")
