"""Predictions of a trained model, from files and over HTTP: what is sent as people send it."""

import csv
import gzip
import json
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
