#!/usr/bin/env python3
"""The model of bench_serving in Triton: a Python model, and the program that makes its repository.

The model's inputs are processed: `rows` [N, features], the numbers of rows in one array of all
tables, and `dense` [N, columns], scaled. It joins the requests of a dynamic batch, takes their rows
with numpy and runs the exported dense network in onnxruntime on one thread.

As a program it needs exports of one model by `simurgh export`: `onnx`, `embeddings` to
{table}.npz in one folder, and `features` of the samples to request, where each feature has the name
of its table and at most one id a sample. It writes the repository and a request file for
perf_analyzer, with a sample for each request row.
"""

import json
import pathlib
import sys

import numpy as np

MAX_BATCH = 1024
CONFIG = """name: "{name}"
backend: "python"
max_batch_size: {max_batch}
input [ {{ name: "rows" data_type: TYPE_INT64 dims: [ {features} ] }},
        {{ name: "dense" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
output [ {{ name: "p" data_type: TYPE_FP32 dims: [ 1 ] }} ]
dynamic_batching {{ }}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""


class TritonPythonModel:
    def initialize(self, arguments):
        import onnxruntime
        import triton_python_backend_utils

        self.utils = triton_python_backend_utils
        folder = pathlib.Path(arguments["model_repository"]) / arguments["model_version"]
        self.weights = np.load(folder / "weights.npy")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.network = onnxruntime.InferenceSession(folder / "dense.onnx", options, ["CPUExecutionProvider"])

    def execute(self, requests):
        def joined(name):
            tensors = [self.utils.get_input_tensor_by_name(request, name).as_numpy() for request in requests]
            return tensors[0] if len(tensors) == 1 else np.concatenate(tensors)

        rows, dense = joined("rows"), joined("dense")
        embeddings = np.take(self.weights, rows, axis=0, mode="clip").reshape(len(rows), -1)
        probabilities = self.network.run(None, {"dense": dense, "embeddings": embeddings})[0].reshape(-1, 1)
        responses, first = [], 0
        for request in requests:
            last = first + self.utils.get_input_tensor_by_name(request, "dense").shape()[0]
            tensor = self.utils.Tensor("p", probabilities[first:last])
            responses.append(self.utils.InferenceResponse([tensor]))
            first = last
        return responses


def numbered(features, tables):
    """The rows of each sample's features, counted over all tables. An id without a row has the last one, of zeros."""
    first, columns, weights = 0, [], []
    last = sum(len(table["id"]) for table in tables.values())
    for name, table in tables.items():
        ids, offsets = features[f"{name}.ids"], features[f"{name}.offsets"]
        counts = np.diff(offsets)
        assert counts.max() <= 1, f"{name} has several ids in a sample"
        wanted = np.zeros(len(counts), ids.dtype)
        wanted[counts == 1] = ids
        order = np.argsort(table["id"])
        place = np.minimum(np.searchsorted(table["id"], wanted, sorter=order), len(order) - 1)
        found = (counts == 1) & (table["id"][order[place]] == wanted)
        columns.append(np.where(found, first + order[place], last))
        weights.append(table["weights"])
        first += len(table["id"])
    weights.append(np.zeros((1, weights[0].shape[1]), np.float32))
    return np.stack(columns, axis=1).astype(np.int64), np.concatenate(weights)


def main():
    if len(sys.argv) != 6:
        sys.exit("Usage: triton_model.py ONNX FOLDER_OF_TABLES FEATURES.npz REPOSITORY/NAME REQUESTS.json")
    onnx, tables, features, model, requests = map(pathlib.Path, sys.argv[1:])
    features = np.load(features)
    names = [key.removesuffix(".ids") for key in features if key.endswith(".ids")]
    rows, weights = numbered(features, {name: np.load(tables / f"{name}.npz") for name in names})
    dense = features["dense"].astype(np.float32)
    version = model / "1"
    version.mkdir(parents=True, exist_ok=True)
    np.save(version / "weights.npy", weights)
    (version / "dense.onnx").write_bytes(onnx.read_bytes())
    (version / "model.py").write_bytes(pathlib.Path(__file__).read_bytes())
    (model / "config.pbtxt").write_text(
        CONFIG.format(name=model.name, max_batch=MAX_BATCH, features=rows.shape[1], columns=dense.shape[1])
    )
    samples = [{"rows": one.tolist(), "dense": two.tolist()} for one, two in zip(rows, dense)]
    requests.write_text(json.dumps({"data": samples}))


if __name__ == "__main__":
    main()
