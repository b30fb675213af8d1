#!/usr/bin/env python3
"""The training of bench/e2e with PyTorch on the CPU, as the peer of our own.

Reads the same files in the Criteo layout and trains the same model: one sum-pooled embedding a feature beside the dense
columns, linear layers with ReLU, mean binary cross entropy, Adagrad for rows and Adam for the network. It is measured as
generously as it can be: files are read, ids numbered without gaps and rows allocated before the clock starts; all features share one
EmbeddingBag with sparse gradients, so that a batch costs one lookup; Python runs once a batch.

Prints one JSON object with samples_per_s, auc (of the test files), train_seconds and peak_rss_mb.
"""

import argparse
import contextlib
import hashlib
import json
import os
import resource
import time

import numpy as np
import torch

DENSE = 13
FEATURES = 26


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="file in the Criteo layout, not compressed")
    parser.add_argument("--test", required=True, help="the same")
    parser.add_argument("--hidden", default="256,128,64", help="outputs of the linear layers before the last")
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


def parse(path):
    """Labels (N), dense columns (N, 13) and ids (N, 26) of a file; kept beside the cache folder of the system."""
    status = os.stat(path)
    name = hashlib.sha256(f"{os.path.abspath(path)}:{status.st_size}:{status.st_mtime_ns}".encode()).hexdigest()
    cache = os.path.join(os.path.dirname(os.path.abspath(path)), f"{name[:16]}.npz")
    if os.path.exists(cache):
        with np.load(cache) as kept:
            return kept["labels"], kept["dense"], kept["ids"]
    labels, dense, ids = [], [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")
            labels.append(float(cells[0]))
            dense.append([float(cell or 0) for cell in cells[1 : 1 + DENSE]])
            # A missing id is an id of its own here; ours has no row for it, which is less work by 3 %.
            ids.append([int(cell or "0", 16) for cell in cells[1 + DENSE :]])
    dense = np.array(dense, dtype=np.float32)
    parsed = (
        np.array(labels, dtype=np.float32),
        np.sign(dense) * np.log1p(np.abs(dense)),
        np.array(ids, dtype=np.uint64),
    )
    np.savez(cache, labels=parsed[0], dense=parsed[1], ids=parsed[2])
    return parsed


def number_rows(train_ids, test_ids):
    """Row numbers without gaps over all features, and how many rows there are."""
    rows = 0
    train, test = np.empty(train_ids.shape, np.int64), np.empty(test_ids.shape, np.int64)
    for feature in range(FEATURES):
        both = np.concatenate([train_ids[:, feature], test_ids[:, feature]])
        unique, inverse = np.unique(both, return_inverse=True)
        train[:, feature] = inverse[: len(train_ids)] + rows
        test[:, feature] = inverse[len(train_ids) :] + rows
        rows += len(unique)
    return train, test, rows


class Model(torch.nn.Module):
    def __init__(self, rows, dim, hidden):
        super().__init__()
        self.dim = dim
        self.embeddings = torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True)
        torch.nn.init.uniform_(self.embeddings.weight, -0.01, 0.01)
        layers, width = [], DENSE + FEATURES * dim
        for outputs in hidden:
            layers += [torch.nn.Linear(width, outputs), torch.nn.ReLU()]
            width = outputs
        self.dense = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
        self.network = self.dense

    def forward(self, dense, ids, offsets):
        pooled = self.embeddings(ids.view(-1), offsets[: ids.numel()]).view(-1, FEATURES * self.dim)
        return self.network(torch.cat([dense, pooled], dim=1)).squeeze(1)


def exact_auc(labels, scores):
    """The area under the ROC curve with ties counting half (mid-ranks)."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[inverse]
    positives = labels.sum()
    negatives = len(labels) - positives
    return (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives)


def main():
    flags = options()
    torch.sparse.check_sparse_tensor_invariants.disable()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    train_labels, train_dense, train_ids = parse(flags.train)
    test_labels, test_dense, test_ids = parse(flags.test)
    train_rows, test_rows, rows = number_rows(train_ids, test_ids)
    del train_ids, test_ids

    labels, dense, ids = map(torch.from_numpy, (train_labels, train_dense, train_rows))
    model = Model(rows, flags.dim, [int(width) for width in flags.hidden.split(",")])
    if flags.compile:
        model.network = torch.compile(model.dense)
    row_optimizer = torch.optim.Adagrad(
        model.embeddings.parameters(), lr=flags.row_learning_rate, initial_accumulator_value=flags.row_accumulator
    )
    dense_optimizer = torch.optim.Adam(model.dense.parameters(), lr=flags.dense_learning_rate, fused=True)
    loss_of = torch.nn.BCEWithLogitsLoss()
    offsets = torch.arange(flags.batch_size * FEATURES)
    precision = (
        torch.autocast("cpu", dtype=torch.bfloat16) if flags.precision == "bf16" else contextlib.nullcontext()
    )

    def step(first):
        batch = slice(first, first + flags.batch_size)
        row_optimizer.zero_grad(set_to_none=True)
        dense_optimizer.zero_grad(set_to_none=True)
        with precision:
            logits = model(dense[batch], ids[batch], offsets)
        loss_of(logits.float(), labels[batch]).backward()
        row_optimizer.step()
        dense_optimizer.step()

    batches = range(0, len(labels) - flags.batch_size + 1, flags.batch_size)
    if flags.compile:  # Outside the clock; the first batches are then trained on twice.
        for first in batches[:3]:
            step(first)
    start = time.perf_counter()
    for first in batches:
        step(first)
    seconds = time.perf_counter() - start

    scores = []
    with torch.no_grad(), precision:
        for first in range(0, len(test_labels), flags.batch_size):
            batch = slice(first, first + flags.batch_size)
            logits = model(torch.from_numpy(test_dense[batch]), torch.from_numpy(test_rows[batch]), offsets)
            scores.append(logits.float().numpy())
    print(
        json.dumps(
            {
                "samples_per_s": round(len(batches) * flags.batch_size / seconds, 1),
                "auc": round(float(exact_auc(test_labels, np.concatenate(scores))), 5),
                "train_seconds": round(seconds, 3),
                "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
                "version": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
