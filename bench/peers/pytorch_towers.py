#!/usr/bin/env python3
"""Trains the two towers of bench/e2e/bench_towers with PyTorch on the CPU, and prints one JSON object.

The measurement favours PyTorch: before the clock starts, it reads the file, numbers the ids, counts the items for the
logQ correction, allocates the rows and compiles the towers with their loss. Rows have sparse gradients and SparseAdam,
since Adam on all rows of a table takes a time that grows with the table."""

import argparse
import json
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TEMPERATURE = 0.05  # The default of Simurgh's two_tower.


class Towers(nn.Module):
    """Vectors of users and items from their rows, and the mean loss of a batch."""

    def __init__(self, dim):
        super().__init__()
        self.user = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))
        self.item = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, user_rows, item_rows, items, log_q):
        users = functional.normalize(self.user(user_rows), dim=1)
        vectors = functional.normalize(self.item(item_rows), dim=1)
        logits = users @ vectors.T / TEMPERATURE - log_q
        same = (items[:, None] == items[None]) & ~torch.eye(len(items), dtype=torch.bool)
        return functional.cross_entropy(logits.masked_fill(same, -float("inf")), torch.arange(len(items)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="CSV file with user, item, kind")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    torch.sparse.check_sparse_tensor_invariants.disable()
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(flags.seed)

    cells = np.loadtxt(flags.data, dtype=str, delimiter=",", skiprows=1, usecols=(0, 1, 2))
    tables, columns = [], []
    for column in cells.T:
        values, ids = np.unique(column, return_inverse=True)
        tables.append(nn.Embedding(len(values), flags.dim, sparse=True))
        nn.init.normal_(tables[-1].weight, std=0.1)
        columns.append(torch.from_numpy(ids))
    users, items, kinds = columns
    counts = torch.bincount(items).float()
    log_q = torch.log(counts / counts.sum())

    towers = Towers(flags.dim)
    compiled = torch.compile(towers)
    of_rows = torch.optim.SparseAdam([table.weight for table in tables], lr=0.005)
    of_towers = torch.optim.Adam(towers.parameters(), lr=0.002, fused=True)

    def loss_of(batch):
        rows = torch.cat([tables[1](items[batch]), tables[2](kinds[batch])], dim=1)
        return compiled(tables[0](users[batch]), rows, items[batch], log_q[items[batch]])

    batches = [slice(first, first + flags.batch_size) for first in range(0, len(users) - flags.batch_size + 1, flags.batch_size)]
    for batch in batches[:3]:  # Compiles, outside the clock.
        loss_of(batch).backward()
    losses = []
    start = time.perf_counter()
    for batch in batches:
        of_rows.zero_grad(set_to_none=True)
        of_towers.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        loss.backward()
        of_rows.step()
        of_towers.step()
        losses.append(loss.detach())
    seconds = time.perf_counter() - start
    print(json.dumps({
        "samples_per_s": round(len(batches) * flags.batch_size / seconds),
        "last_loss": round(float(torch.stack(losses[-max(1, len(losses) // 10):]).mean()), 4),
        "version": torch.__version__}))


if __name__ == "__main__":
    main()
