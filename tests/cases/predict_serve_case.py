"""Predictions of a trained model, from files and over HTTP: what is sent as people send it."""

import csv
import gzip
import json
import os
import socket
import subprocess
import urllib.error
import urllib.request

from case import BIN, clicks, cluster_yaml, expect, free_port, simurgh, write

NOTES = ["plain", " lead", "trail ", "\ttab", "a,b", "two\nlines", 'a "quoted" one', ' "x"', ""]
user, item, price, hour, label, odds = clicks(900)
rows = [(f"u{u}", f"i{i}", p, NOTES[k % len(NOTES)], y)
        for k, (u, i, p, y) in enumerate(zip(user, item, price, label))]
write("d.csv", ["user", "item", "price", "note", "label"], rows)
with open("c.yaml", "w", encoding="utf-8") as file:
    file.write(cluster_yaml() + """data:
  train: [d.csv]
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense, transform: log1p}
    - {name: note, kind: skip}
    - {name: label, kind: label}
model: deepfm
checkpoint: {directory: m}
""")
simurgh("train", "c.yaml")
simurgh("predict", "--model", "m", "--input", "d.csv", "--output", "s.csv")
with open("s.csv", newline="", encoding="utf-8") as file:
    scores = [float(row["p"]) for row in csv.DictReader(file)]
expect(len(scores) == len(rows), "a line for each row")


# Cells of the output are those of the input.

simurgh("predict", "--model", "m", "--input", "d.csv", "--output", "n.csv", "--columns", "note,user")
with open("n.csv", newline="", encoding="utf-8") as file:
    copied = [(row["note"], row["user"]) for row in csv.DictReader(file)]
expect(copied == [(row[3], row[0]) for row in rows], "cells are copied as they are")


# Headers, formats and folders: the same rows have the same predictions.

def predicted(path, **options):
    done = simurgh("predict", "--model", "m", "--input", path, "--output", "o.csv", **options)
    if done.code != 0:
        return done
    with open("o.csv", newline="", encoding="utf-8") as file:
        return [float(row["p"]) for row in csv.DictReader(file)]


def shuffled(names, order, path):
    write(path, names, [[row[i] for i in order] for row in rows])
    return path


expect(predicted(shuffled(["PRICE", "Item ", "USER", "extra"], [2, 1, 0, 3], "h.csv")) == scores,
       "names in another case and order are found")
expect(predicted(shuffled([], range(5), "r.csv")) == scores, "without a header no row is lost")
expect(predicted(shuffled([], range(4), "r.csv")) == scores, "nor without labels")
wrong = predicted(shuffled(["user", "itm", "price"], [0, 1, 2], "w.csv"), code=2)
expect("'item'" in wrong.err and "'itm'" in wrong.err, f"the nearest name is named: {wrong.err}")
write("more.csv", ["row_id", "user", "item", "price"],
      [(f" r{k}", *row[:3]) for k, row in enumerate(rows)])
simurgh("predict", "--model", "m", "--input", "more.csv", "--output", "o.csv", "--columns",
        "row_id,user")
with open("o.csv", newline="", encoding="utf-8") as file:
    copied = [(row["row_id"], row["user"], float(row["p"])) for row in csv.DictReader(file)]
expect(copied == [(f" r{k}", row[0], p) for k, (row, p) in enumerate(zip(rows, scores))],
       "a column that the training did not have is copied")
unnamed = simurgh("predict", "--model", "m", "--input", "r.csv", "--output", "o.csv", "--columns",
                  "row_id", code=2)
expect("no column is named 'row_id'" in unnamed.err, f"without names it is an error: {unnamed.err}")
lacking = simurgh("predict", "--model", "m", "--input", "h.csv", "--output", "o.csv", "--columns",
                  "note", code=2)
expect("no column 'note'" in lacking.err, f"a column that is not there: {lacking.err}")
simurgh("predict", "--model", "m", "--input", "h.csv", "--output", "o.csv", "--columns", "USER,item")
with open("o.csv", newline="", encoding="utf-8") as file:
    copied = [(row["USER"], row["item"], float(row["p"])) for row in csv.DictReader(file)]
expect(copied == [(row[0], row[1], p) for row, p in zip(rows, scores)],
       "the case of a column's name does not matter")
twice = simurgh("predict", "--model", "m", "--input", "h.csv", "--output", "o.csv", "--columns", "p",
                code=2)
expect("would be there twice" in twice.err, f"a column is not named like the prediction: {twice.err}")
before = open("h.csv").read()
same = simurgh("predict", "--model", "m", "--input", "h.csv", "--output", "./h.csv", code=2)
expect("is the input" in same.err and open("h.csv").read() == before,
       f"the predictions do not replace the rows: {same.err}")
os.mkdir("days")
half = len(rows) // 2
write("days/1.csv", ["user", "item", "price"], [row[:3] for row in rows[:half]])
write("days/2.csv", ["price", "user", "item"], [(row[2], row[0], row[1]) for row in rows[half:]])
expect(predicted("days") == scores, "a folder has the rows of its files in the order of names")
expect(predicted("days/*.csv") == scores, "and so has a pattern")
for source in ("days", "days/*.csv"):
    same = simurgh("predict", "--model", "m", "--input", source, "--output", "days/1.csv", code=2)
    expect("is the input" in same.err, f"the predictions replace no file of {source}: {same.err}")
with open("rows.jsonl", "w", encoding="utf-8") as file:
    for row in rows:
        file.write(json.dumps({"user": row[0], "item": row[1], "price": row[2]}) + "\n")
expect(predicted("rows.jsonl") == scores, "rows of JSON have the same predictions")
with open("notes.jsonl", "w", encoding="utf-8") as file:
    for row in rows:
        file.write(json.dumps({"user": row[0], "item": row[1], "price": row[2], "note": row[3]}) + "\n")
simurgh("predict", "--model", "m", "--input", "notes.jsonl", "--output", "n.csv", "--columns", "note")
with open("n.csv", newline="", encoding="utf-8") as file:
    copied = [row["note"] for row in csv.DictReader(file)]
expect(copied == [row[3] for row in rows], "texts of JSON are copied as they are")


# What is wrong is not silent.

write("bad.csv", ["user", "item", "price"], [("u1", "i1", "cheap")] * 30)
bad = predicted("bad.csv", code=2)
expect("all 30 rows are bad" in bad.err and "'cheap'" in bad.err, f"all rows are bad: {bad.err}")
write("new.csv", ["user", "item", "price"], [("U" + row[0], row[1], row[2]) for row in rows])
new = simurgh("predict", "--model", "m", "--input", "new.csv", "--output", "o.csv")
expect("column 'user': the training saw no row with 100 % of the ids" in new.err and
       "feature 'item'" not in new.err, f"ids that are new have a warning: {new.err}")
write("far.csv", ["user", "item", "price"], [(row[0], row[1], 1e30) for row in rows[:3]])
far = simurgh("predict", "--model", "m", "--input", "far.csv", "--output", "o.csv")
expect("column 'price': 3 numbers are more than 50 standard deviations" in far.err,
       f"numbers far from those of the training have a warning: {far.err}")
old = simurgh("predict", "--model", "m", "--input", "d.csv", "--output", "o.csv")
expect("unseen_ids=0.0%" in old.err and "warning" not in old.err, f"known ids have none: {old.err}")


# HTTP.

port = free_port()
URL = f"http://127.0.0.1:{port}"
server = subprocess.Popen([str(BIN / "simurgh"), "serve", "--model", "m", "--listen",
                           f"127.0.0.1:{port}", "--set", "serving.queue_timeout=30s"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
server.stdout.readline()  # It serves from then on; the model may still be loaded.
while urllib.request.urlopen(f"{URL}/v2/health/live").status != 200:
    pass


def post(path, body, **headers):
    """The status code and the parsed answer."""
    request = urllib.request.Request(URL + path, data=body.encode() if isinstance(body, str) else body,
                                     headers={k.replace("_", "-"): v for k, v in headers.items()})
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                return error.code, json.load(error)


row = {"user": f"u{user[0]}", "item": f"i{item[0]}", "price": float(price[0])}
body = json.dumps({"instances": [row]})
code, answer = post("/v1/models/m:predict", body)
expect(code == 200 and abs(answer["predictions"][0] - scores[0]) < 1e-6,
       f"{answer} is {scores[0]}, as in the file")
for what, path, sent, headers in [
        ("an escaped colon", "/v1/models/m%3Apredict", body, {}),
        ("a byte order mark", "/v1/models/m:predict", "\ufeff" + body, {}),
        ("a body in gzip", "/v1/models/m:predict", gzip.compress(body.encode()),
         {"Content_Encoding": "gzip"})]:
    expect(post(path, sent, **headers) == (code, answer), f"{what} changes nothing")
columns = {"user": [f"u{u}" for u in user[:3]], "item": [f"i{i}" for i in item[:3]],
           "price": [[float(p)] for p in price[:3]]}
code, answer = post("/v1/models/m:predict", json.dumps({"inputs": columns}))
expect(code == 200 and all(abs(a - b) < 1e-6 for a, b in zip(answer["outputs"], scores)),
       f"columns are answered with columns: {answer} is {scores[:3]}")
code, answer = post("/v1/models/m:predict", json.dumps({"instances": [row, {"price": float("nan")}]}))
expect(code == 400 and all(word in answer["error"] for word in ("'price'", "row 1", "use null")),
       f"NaN is named with its place and remedy: {answer}")
code, answer = post("/v1/models/m:classify", body)
expect(code == 404 and "':classify'" in answer["error"] and "GET" not in answer["error"],
       f"an unknown verb is named: {answer}")
code, answer = post("/v1/models/m:predict", json.dumps({"instances": [{**row, "label": 1}]}))
expect(code == 400 and "'label'" in answer["error"] and "unknown_columns" in answer["error"],
       f"a label is named, with the key that ignores it: {answer}")
with socket.create_connection(("127.0.0.1", port)) as connection:
    connection.sendall(b"GET http://some.host/v2/health/live HTTP/1.1\r\nHost: some.host\r\n"
                       b"Connection: close\r\n\r\n")
    first = connection.makefile("rb").readline()
expect(b" 200 " in first, f"a whole URI is a path: {first}")
server.terminate()
expect(server.wait() == 0, "the server ends with 0")
