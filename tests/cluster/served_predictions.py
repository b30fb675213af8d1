#!/usr/bin/env python3
"""Compares what `simurgh serve` answers with what `simurgh predict` has written.

usage: served_predictions.py ADDRESS MODEL PREDICTIONS.csv [COLUMN=SEPARATOR...]

PREDICTIONS.csv has the columns that the model reads, then `p`, or `p_LABEL` for each label. Asks by
v1, v2 JSON and v2 binary, with 1, 7, 64 and 4,096 rows, several requests at once. COLUMN has lists:
v1 sends arrays. Prints the number of requests and the largest difference.
"""

import concurrent.futures
import csv
import http.client
import json
import re
import struct
import sys

REQUESTS = {4096: 2, 64: 6, 7: 10, 1: 20}  # Rows of a request, and how many of them.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")  # Of JSON, without an exponent.
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def post(address, path, body, headers):
    connection = http.client.HTTPConnection(address, timeout=100)
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, (path, response.status, answer[:1000])
    json_bytes = response.headers.get("Inference-Header-Content-Length")
    connection.close()
    return answer, json_bytes


def check_version(found, versions):
    assert found in versions, (found, versions)


class Client:
    def __init__(self, address, model, separators):
        self.address = address
        self.model = model
        self.separators = separators
        connection = http.client.HTTPConnection(address, timeout=100)
        connection.request("GET", f"/v2/models/{model}")
        self.metadata = json.load(connection.getresponse())
        connection.close()
        self.labels = [output["name"] for output in self.metadata["outputs"]]

    def v1_value(self, name, text, row):
        """JSON of a cell: missing values, numbers and lists in their spellings."""
        if text == "":
            return ["null", '""'][row % 2]
        if name in self.separators:
            return json.dumps(text.split(self.separators[name]))
        return text if row % 2 and NUMBER.fullmatch(text) else json.dumps(text)

    def v1(self, rows):
        names = [one["name"] for one in self.metadata["inputs"]]
        instances = []
        for i, row in enumerate(rows):
            sent = [name for name in names if row[name] != "" or i % 3]
            pairs = [f"{json.dumps(name)}: {self.v1_value(name, row[name], i)}" for name in sent]
            instances.append("{" + ", ".join(pairs) + "}")
        body = f'{{"instances": [{", ".join(instances)}]}}'.encode()
        answer, _ = post(self.address, f"/v1/models/{self.model}:predict", body, {})
        answer = json.loads(answer)
        check_version(answer["model_version"], self.metadata["versions"])
        return [one if isinstance(one, list) else [one] for one in answer["predictions"]]

    def tensor(self, one, rows, binary):
        """The JSON of a tensor, and its bytes if it is binary."""
        texts = [row[one["name"]] for row in rows]
        shape = [[len(texts)], [len(texts), 1]][len(one["name"]) % 2]
        datatype = one["datatype"]
        if datatype == "FP64" and binary and "" in texts:
            datatype = "BYTES"
        elif datatype == "BYTES" and all(INTEGER.fullmatch(text) for text in texts):
            datatype = "INT64"
        tensor = {"name": one["name"], "shape": shape, "datatype": datatype}
        if datatype == "BYTES":
            data = [text if text or binary else None for text in texts]
            raw = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
        else:
            parse, code = (float, "d") if datatype == "FP64" else (int, "q")
            data = [parse(text) if text else None for text in texts]
            raw = b"" if None in data else struct.pack(f"<{len(data)}{code}", *data)
        if binary:
            tensor["parameters"] = {"binary_data_size": len(raw)}
        else:
            tensor["data"] = data
        return tensor, raw

    def v2(self, rows, binary):
        tensors = [self.tensor(one, rows, binary) for one in self.metadata["inputs"]]
        body = json.dumps({
            "id": "a",
            "inputs": [tensor for tensor, _ in tensors],
            "parameters": {"binary_data_output": binary},
        }).encode()
        headers = {}
        if binary:
            headers["Inference-Header-Content-Length"] = str(len(body))
            body += b"".join(raw for _, raw in tensors)
        answer, json_bytes = post(self.address, f"/v2/models/{self.model}/infer", body, headers)
        raw = b""
        if json_bytes is not None:
            answer, raw = answer[:int(json_bytes)], answer[int(json_bytes):]
        answer = json.loads(answer)
        check_version(answer["model_version"], self.metadata["versions"])
        assert answer["id"] == "a", answer
        assert [one["name"] for one in answer["outputs"]] == self.labels, answer["outputs"]
        columns = []
        for output in answer["outputs"]:
            assert output["datatype"] == "FP32" and output["shape"] == [len(rows), 1], output
            if binary:
                columns.append(struct.unpack_from(f"<{len(rows)}f", raw))
                raw = raw[4 * len(rows):]
            else:
                columns.append(output["data"])
        assert raw == b"", len(raw)
        return list(zip(*columns))


def main():
    address, model, path = sys.argv[1:4]
    client = Client(address, model, dict(one.split("=", 1) for one in sys.argv[4:]))
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ["p"] if len(client.labels) == 1 else ["p_" + label for label in client.labels]
    wanted = [[float(row[name]) for name in names] for row in rows]
    asks = [client.v1, lambda some: client.v2(some, False), lambda some: client.v2(some, True)]
    work = []
    first = 0
    for size, count in REQUESTS.items():
        for _ in range(count):
            for ask in asks:
                work.append((ask, [i % len(rows) for i in range(first, first + size)]))
            first += size

    def difference(ask, indices):
        found = ask([rows[i] for i in indices])
        assert len(found) == len(indices), (len(found), len(indices))
        pairs = [pair for row, i in zip(found, indices) for pair in zip(row, wanted[i], strict=True)]
        return max(abs(a - b) for a, b in pairs)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        worst = max(threads.map(lambda one: difference(*one), work))
    print(len(work), f"{worst:.3g}")


if __name__ == "__main__":
    sys.exit(main())
