"""`simurgh init` reads JSON lines, libsvm, libffm and Criteo's rows as it reads CSV."""

import json
import os
import re

import numpy as np
from case import clicks, expect, simurgh, write

user, item, price, hour, label, odds = clicks(4000)
count = len(label)


def lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{row}\n" for row in rows))


def auc(name, data, *options):
    """The AUC of the model that `init` and `train` make."""
    made = simurgh("init", data, *options)
    result = simurgh("train", f"{name}.yaml")
    expect(made.code == 0, f"{data}: {made.err}")
    return result.value("test_auc"), made.out


write("csv.csv", ["user", "item", "price", "tags", "label"],
      [[f"ü{user[k]}", f"i{item[k]}", price[k], f"t{user[k] % 5}|t{5 + item[k] % 7}"
        if k % 3 else f"t{user[k] % 5}", label[k]] for k in range(count)])
of_csv, text = auc("csv", "csv.csv")
expect(of_csv > 0.775, f"CSV: AUC {of_csv}")

rows = []
for k in range(count):
    tags = [f"t{user[k] % 5}"] + ([f"t{5 + item[k] % 7}"] if k % 3 else [])
    rows.append(json.dumps({"user": f"ü{user[k]}", "item": f"i{item[k]}", "price": price[k],
                            "tags": tags, "where": {"page": k}, "label": bool(label[k])},
                           ensure_ascii=k % 2 == 0))
lines("rows.jsonl", rows)
of_json, text = auc("rows", "rows.jsonl")
expect(abs(of_json - of_csv) < 0.004, f"JSON lines: AUC {of_json}, CSV {of_csv}")
expect("format: json" in text and "lists of up to 2 of about 12" in text, text)
expect("where  skip " in text, f"an object is no column: {text}")
expect("format: json" in open("rows.yaml", encoding="utf-8").read(), "the format is written")
copied = [open(f"rows.{part}.jsonl", encoding="utf-8").read().splitlines()
          for part in ("train", "valid", "test")]
expect(sorted(sum(copied, [])) == sorted(rows), "each row is copied once, with its bytes")
simurgh("predict", "--model", "rows-model", "--input", "rows.test.jsonl", "--output", "p.csv",
        "--columns", "user")
first = open("p.csv", encoding="utf-8").read().splitlines()[1]
expect(first.startswith(json.loads(copied[2][0])["user"] + ","), f"a text is as it was: {first}")

# A sample of records of Kafka: nothing is copied, and statistics are those of the sample.
lines("records.jsonl", rows)
made = simurgh("init", "records.jsonl", "--kafka", "a:9092,b:9092/clicks")
text = open("records.yaml", encoding="utf-8").read()
expect('kafka: {brokers: ["a:9092", "b:9092"], topics: ["clicks"]}' in text, text)
expect("epochs: 0" in text and "train:" not in text, text)
mean, deviation = map(float, re.search(r"price, kind: dense, mean: (\S+), stddev: (\S+),",
                                       text).groups())
logs = np.log1p(price)
expect(abs(mean - logs.mean()) < 1e-6 and abs(deviation - logs.std()) < 1e-6,
       f"mean {mean} of {logs.mean()}, deviation {deviation} of {logs.std()}")
ranges = list(map(float, re.search(r"boundaries: \[(.*?)\]", text).group(1).split(", ")))
share = [np.mean(price < bound) for bound in ranges]
expect(np.allclose(share, np.arange(1, len(share) + 1) / (len(share) + 1), atol=0.01),
       f"ranges have equally many rows: {share}")
made = simurgh("init", "csv.csv", "--kafka", "a:9092/clicks", "--force", code=2)
expect("JSON lines" in made.err, made.err)

sign = [1 if one else -1 for one in label]
lines("pairs.svm", (f"{sign[k]:+d} {user[k] + 1}:1 {item[k] + 1001}:1 # {k}" for k in range(count)))
of_svm, text = auc("pairs", "pairs.svm")
# Without the price.
expect(of_svm > 0.74, f"libsvm: AUC {of_svm}")
expect("-1 is 0" in text, text)
expect("format: libsvm" in open("pairs.yaml").read(), "the format is written")
expect(os.path.exists("pairs.test.svm"), "the parts have the ending of the file")

lines("fields.ffm", (f"{label[k]} 0:{user[k]}:1 1:{1000 + item[k]}:1 2:{2000 + k % 7}:1"
                   + (" 3:3000:0.5" if k == count - 1 else "") for k in range(count)))
of_ffm, text = auc("fields", "fields.ffm", "--sample", "1000")
expect(of_ffm > 0.74, f"libffm: AUC {of_ffm}")
expect("libffm: {fields: 4}" in open("fields.yaml").read(), "fields are those of all rows")

lines("criteo.tsv", ("\t".join([str(label[k]), str(int(price[k] * 10))] + [""] * 12 +
                               [f"{user[k]:08x}", f"{item[k]:08x}"] + [""] * 24)
                     for k in range(count)))
of_criteo, text = auc("criteo", "criteo.tsv")
expect(of_criteo > 0.775, f"Criteo: AUC {of_criteo}")
expect("format: criteo" in open("criteo.yaml").read(), "the format is written")

lines("twos.svm", (f"{1 + label[k]} {user[k] + 1}:1 {item[k] + 1001}:1" for k in range(count)))
made = simurgh("init", "twos.svm", code=2)
expect("""awk '{$1 = $1 == "2"} 1' in > out""" in made.err, f"labels 1 and 2: {made.err}")
lines("values.svm", (f"{odds[k]:.4f} {user[k] + 1}:1 {item[k] + 1001}:1" for k in range(count)))
made = simurgh("init", "values.svm")
expect("a regression" in made.out, f"a label of numbers: {made.out}")
