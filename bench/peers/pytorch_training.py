#!/usr/bin/env python3
"""Runs the training of bench/e2e with PyTorch on the CPU.

Reads the same files in the Criteo layout and trains the same model: one sum-pooled embedding per
feature and the dense columns, linear layers with ReLU, mean binary cross entropy, Adagrad for rows
and Adam for the network. The measurement favours PyTorch: before the clock starts, it reads the
files, numbers the ids without gaps, allocates the rows and, with --compile, compiles the network.
All features share one EmbeddingBag with sparse gradients, so a batch needs one lookup. With
--embeddings torchrec, rows are TorchRec tables, one per feature, in FBGEMM's fused kernels, which
apply Adagrad in the backward pass.

Prints one JSON object with samples_per_s, auc (of the test files), train_seconds and peak_rss_mb,
the maximum resident memory since the clock started, including samples and rows.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import time

import numpy as np
import torch

from auc import exact_auc

DENSE = 13
FEATURES = 26


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="file in the Criteo layout, not compressed")
    parser.add_argument("--test", required=True, help="the same")
    parser.add_argument("--hidden", default="256,128,64", help="outputs of the linear layers before the last")
    parser.add_argument("--embeddings", choices=("torch", "torchrec"), default="torch")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="bf16: autocast")
    parser.add_argument("--row-learning-rate", type=float, default=0.01)
    parser.add_argument("--row-accumulator", type=float, default=0.01)
    parser.add_argument("--dense-learning-rate", type=float, default=0.001)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile of the dense network")
    return parser.parse_args()


def samples_of(path):
    """Returns labels (N), dense columns (N, 13) and ids (N, 26) of a file; caches them in its folder."""
    status = os.stat(path)
    name = hashlib.sha256(f"{os.path.abspath(path)}:{status.st_size}:{status.st_mtime_ns}".encode()).hexdigest()
    cache = os.path.join(os.path.dirname(os.path.abspath(path)), f"{name[:16]}.npz")
    if not os.path.exists(cache):  # In another process, to keep its lists out of this heap.
        parser = multiprocessing.get_context("spawn").Process(target=parse, args=(path, cache))
        parser.start()
        parser.join()
        if parser.exitcode != 0:
            raise SystemExit(f"{path} cannot be parsed")
    with np.load(cache) as kept:
        return kept["labels"], kept["dense"], kept["ids"]


def parse(path, cache):
    """Writes the samples of a file to the cache."""
    labels, dense, ids = [], [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")
            labels.append(float(cells[0]))
            dense.append([float(cell or 0) for cell in cells[1 : 1 + DENSE]])
            # A missing id gets a row, unlike in Simurgh, which saves 3 % of the work.
            ids.append([int(cell or "0", 16) for cell in cells[1 + DENSE :]])
    dense = np.array(dense, dtype=np.float32)
    np.savez(
        cache,
        labels=np.array(labels, dtype=np.float32),
        dense=np.sign(dense) * np.log1p(np.abs(dense)),
        ids=np.array(ids, dtype=np.uint64),
    )


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak_bytes():
    """Peak resident memory since the last forget_peak (VmHWM)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024


def number_rows(train_ids, test_ids):
    """Numbers each feature's ids without gaps. Returns the numbers and the features' row counts."""
    rows = []
    train, test = np.empty(train_ids.shape, np.int64), np.empty(test_ids.shape, np.int64)
    for feature in range(FEATURES):
        both = np.concatenate([train_ids[:, feature], test_ids[:, feature]])
        unique, inverse = np.unique(both, return_inverse=True)
        train[:, feature] = inverse[: len(train_ids)]
        test[:, feature] = inverse[len(train_ids) :]
        rows.append(len(unique))
    return train, test, rows


class TorchEmbeddings(torch.nn.Module):
    """All features' rows in one EmbeddingBag; Adagrad of torch.optim on sparse gradients."""

    def __init__(self, rows, flags):
        super().__init__()
        self.first = np.cumsum([0] + rows[:-1])
        self.width = FEATURES * flags.dim
        self.bags = torch.nn.EmbeddingBag(sum(rows), flags.dim, mode="sum", sparse=True)
        torch.nn.init.uniform_(self.bags.weight, -0.01, 0.01)
        self.offsets = torch.arange(flags.batch_size * FEATURES)
        self.optimizer = torch.optim.Adagrad(
            self.parameters(), lr=flags.row_learning_rate, initial_accumulator_value=flags.row_accumulator
        )

    def prepared(self, rows):
        return torch.from_numpy(rows + self.first)

    def forward(self, rows, batch):
        ids = rows[batch]
        return self.bags(ids.view(-1), self.offsets[: ids.numel()]).view(-1, self.width)

    def begin(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.optimizer.step()


class TorchRecEmbeddings(torch.nn.Module):
    """One table per feature. Fused kernels pool all tables and apply the optimizer in backward."""

    def __init__(self, rows, flags):
        super().__init__()
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
        from torchrec import EmbeddingBagConfig, KeyedJaggedTensor
        from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection

        self.jagged = KeyedJaggedTensor
        self.names = [f"C{feature + 1}" for feature in range(FEATURES)]
        self.bags = FusedEmbeddingBagCollection(
            [
                EmbeddingBagConfig(
                    name=name,
                    embedding_dim=flags.dim,
                    num_embeddings=count,
                    feature_names=[name],
                    weight_init_min=-0.01,
                    weight_init_max=0.01,
                )
                for name, count in zip(self.names, rows)
            ],
            optimizer_type=torch.optim.Adagrad,
            optimizer_kwargs={"lr": flags.row_learning_rate},
            device=torch.device("cpu"),
            location=EmbeddingLocation.HOST,
        )
        for states in self.bags.fused_optimizer().state.values():
            for name, state in states.items():
                if name.endswith("momentum_1"):
                    state.fill_(flags.row_accumulator)
        self.lengths = torch.ones(FEATURES * flags.batch_size, dtype=torch.int64)

    def prepared(self, rows):
        return torch.from_numpy(np.ascontiguousarray(rows.T))

    def forward(self, rows, batch):
        ids = rows[:, batch].reshape(-1)
        return self.bags(self.jagged(keys=self.names, values=ids, lengths=self.lengths[: len(ids)])).values()

    def begin(self):
        pass

    def step(self):  # The backward pass has done it.
        pass


def make_network(flags):
    layers, width = [], DENSE + FEATURES * flags.dim
    for outputs in [int(width) for width in flags.hidden.split(",")]:
        layers += [torch.nn.Linear(width, outputs), torch.nn.ReLU()]
        width = outputs
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


def main():
    flags = options()
    torch.sparse.check_sparse_tensor_invariants.disable()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    train_labels, train_dense, train_ids = samples_of(flags.train)
    test_labels, test_dense, test_ids = samples_of(flags.test)
    train_rows, test_rows, rows = number_rows(train_ids, test_ids)
    del train_ids, test_ids

    labels, dense = map(torch.from_numpy, (train_labels, train_dense))
    embeddings = {"torch": TorchEmbeddings, "torchrec": TorchRecEmbeddings}[flags.embeddings](rows, flags)
    ids = embeddings.prepared(train_rows)
    layers = make_network(flags)
    network = torch.compile(layers) if flags.compile else layers
    optimizer = torch.optim.Adam(layers.parameters(), lr=flags.dense_learning_rate, fused=True)
    loss_of = torch.nn.BCEWithLogitsLoss()
    precision = (
        torch.autocast("cpu", dtype=torch.bfloat16) if flags.precision == "bf16" else contextlib.nullcontext()
    )

    def logits_of(dense, ids, batch):
        return network(torch.cat([dense[batch], embeddings(ids, batch)], dim=1)).squeeze(1).float()

    def step(first):
        batch = slice(first, first + flags.batch_size)
        embeddings.begin()
        optimizer.zero_grad(set_to_none=True)
        with precision:
            logits = logits_of(dense, ids, batch)
        loss_of(logits, labels[batch]).backward()
        embeddings.step()
        optimizer.step()

    batches = range(0, len(labels) - flags.batch_size + 1, flags.batch_size)
    if flags.compile:  # Outside the clock.
        for _ in range(3):
            with precision:
                outputs = network(torch.rand(flags.batch_size, layers[0].in_features, requires_grad=True))
            outputs.float().sum().backward()
    forget_peak()
    start = time.perf_counter()
    for first in batches:
        step(first)
    seconds = time.perf_counter() - start

    scores = []
    test_dense, test_ids = torch.from_numpy(test_dense), embeddings.prepared(test_rows)
    with torch.no_grad(), precision:
        for first in range(0, len(test_labels), flags.batch_size):
            scores.append(logits_of(test_dense, test_ids, slice(first, first + flags.batch_size)).numpy())
    print(
        json.dumps(
            {
                "samples_per_s": round(len(batches) * flags.batch_size / seconds, 1),
                "auc": round(float(exact_auc(test_labels, np.concatenate(scores))), 5),
                "train_seconds": round(seconds, 3),
                "peak_rss_mb": round(peak_bytes() / 1e6, 1),
                "version": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
