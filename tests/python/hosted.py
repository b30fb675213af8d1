"""What the tests of the Python package share: the package, configurations, logs and saved models.

A test is a program, NAME_case.py, with the expectations of tests/cases/case.py. It ends with 77, which CTest reports
as skipped, without numpy or PyTorch.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

from package import LIBRARY, ROOT, raises, simurgh  # noqa: F401
from case import BIN, clicks, expect, free_port, program, skip, until, write  # noqa: F401

import numpy as np

try:
    import torch
except ImportError:
    skip("torch is missing")

import simurgh.torch  # noqa: E402

# Sums in PyTorch then have one order.
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def example(name, model):
    """Writes config/NAME.yaml as NAME-model.yaml or NAME-hosted.yaml, with or without its network."""
    text = (ROOT / f"config/{name}.yaml").read_text().replace("data/adult/", f"{ROOT}/config/data/adult/")
    text = re.sub(r"metrics: \"127.0.0.1:\d+\"", "metrics: \"127.0.0.1:0\"", text)
    if not model:
        text = re.sub(r"(?m)^model:\n(?: .*\n)*", "", text)
    path = pathlib.Path(f"{name}-{'model' if model else 'hosted'}.yaml")
    path.write_text(text)
    return str(path)


def click_files():
    """Writes clicks.csv and later.csv, and clicks.yaml, which trains on them without a network. Returns its path."""
    for name, seed, rows in (("clicks.csv", 7, 4000), ("later.csv", 8, 1000)):
        user, item, price, hour, label, _ = clicks(rows, seed)
        write(name, ["user", "item", "price", "hour", "label"], zip(user, item, price, hour, label))
    pathlib.Path("clicks.yaml").write_text(textwrap.dedent("""\
        cluster: {name: clicks, seed: 3}
        embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
        embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
        tables:
          - {name: user, dim: 8, optimizer: {kind: adagrad, learning_rate: 0.05}}
          - {name: item, dim: 8, optimizer: {kind: adagrad, learning_rate: 0.05}}
        features: [{name: user}, {name: item}]
        data:
          train: [clicks.csv]
          test: [later.csv]
          columns:
            - {name: user, kind: id}
            - {name: item, kind: id}
            - {name: price, kind: dense, transform: log1p}
            - {name: hour, kind: dense}
            - {name: label, kind: label}
        training: {mode: sync, batch_size: 100}
        """))
    return "clicks.yaml"


class Net(torch.nn.Module):
    """A small network of dense columns and all embeddings, with dropout and batch norm."""

    def __init__(self, inputs, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        width = inputs.dense_width + inputs.embedding_width
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(width, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.1),
            torch.nn.Linear(16, 1))

    def forward(self, dense, embeddings):
        return self.layers(torch.cat([dense, *embeddings.values()], 1))[:, 0]


def loss_of(logits, batch):
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)


@contextlib.contextmanager
def log(path="log.txt"):
    """Writes the descriptor of stderr to a file meanwhile. Yields the file's path."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(path, "w") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield pathlib.Path(path)
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def run(text, *words, code=0, bare=False):
    """Runs a Python program, in which `hosted` is imported unless it is bare. Expects the exit code.

    Returns (exit code, stdout, stderr).
    """
    head = f"import os, sys\nsys.path[:0] = {[str(ROOT / 'tests/python'), str(ROOT / 'services/python')]!r}\n" \
           f"_folder = os.getcwd()\n"
    if not bare:
        head += "from hosted import *\nos.chdir(_folder)\n"
    done = subprocess.run([sys.executable, "-B", "-c", head + textwrap.dedent(text), *words], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    ended = done.returncode
    expect(ended == code, f"exit code {ended}, expected {code}, of:\n{text}\nIt printed:\n{done.stdout}{done.stderr[-3000:]}")
    return ended, done.stdout, done.stderr


def tensors_of(path):
    """The tensors of a safetensors file as numpy arrays."""
    types = {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
    data = pathlib.Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, types[one["dtype"]], int(np.prod(one["shape"], dtype=np.int64)),
                                start + one["data_offsets"][0]).reshape(one["shape"])
            for name, one in header.items() if name != "sums"}


def write_tensors(path, tensors):
    """Writes arrays of float32 and uint64 as a safetensors file."""
    header, data = {}, b""
    for name, array in tensors.items():
        kind, dtype = ("U64", "<u8") if array.dtype == np.uint64 else ("F32", "<f4")
        raw = np.ascontiguousarray(array, dtype).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(len(head).to_bytes(8, "little") + head + data)


def checkpoint(model):
    """The folder of the newest checkpoint of a model."""
    return max(pathlib.Path(model).glob("step-*"), key=lambda path: int(path.name[5:]))


def rows_of(folder):
    """The rows of a checkpoint by table: arrays by name, sorted by id."""
    tables = {}
    for table in sorted(pathlib.Path(folder, "rows").iterdir()):
        parts = [tensors_of(path) for path in sorted(table.glob("*.safetensors"))]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(joined["id"])
        tables[table.name] = {name: array[order] for name, array in joined.items()}
    return tables


def digest(tables):
    """A text that is equal if all arrays of all tables are equal, byte by byte."""
    found = hashlib.sha256()
    for table, arrays in sorted(tables.items()):
        for name, array in sorted(arrays.items()):
            found.update(f"{table}.{name} {array.dtype} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def model_digest(model, ignored=()):
    """A text that is equal if two models have the same newest step, rows and state of the program.

    ignored: arrays of rows that may differ.
    """
    folder = checkpoint(model)
    rows = {table: {name: array for name, array in arrays.items() if name not in ignored}
            for table, arrays in rows_of(folder).items()}
    return f"{folder.name} {digest(rows)} {digest({'program': tensors_of(folder / 'program.safetensors')})}"
