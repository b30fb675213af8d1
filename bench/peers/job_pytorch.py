#!/usr/bin/env python3
"""A job of bench_job in PyTorch on the CPU: reads the files, trains one epoch, saves the model and tests it.

All features share one EmbeddingBag with sparse gradients, so that a batch needs one lookup. With `--embeddings torchrec`,
rows are TorchRec tables in FBGEMM's fused kernels, which apply Adagrad in the backward pass."""

import argparse

import numpy as np
import torch

import job_data

DIM = 16
ROW_RATE = ROW_ACCUMULATOR = 0.01  # Of Adagrad, as in the file of ours.


class TorchRows(torch.nn.Module):
    """A vector of `dim` for each id."""

    def __init__(self, counts, dim, batch):
        super().__init__()
        bound = 0.01 if dim > 1 else 0  # Weights of the first order begin with zeros.
        self.first = torch.tensor(np.cumsum([0, *counts[:-1]]))
        self.offsets = torch.arange(batch * len(counts))
        self.rows = torch.nn.EmbeddingBag(sum(counts), dim, mode="sum", sparse=True)
        torch.nn.init.uniform_(self.rows.weight, -bound, bound)
        self.optimizer = torch.optim.Adagrad(self.parameters(), ROW_RATE, initial_accumulator_value=ROW_ACCUMULATOR)

    def forward(self, ids):
        flat = (ids + self.first).view(-1)
        return self.rows(flat, self.offsets[: len(flat)]).view(len(ids), -1)


class TorchRecRows(torch.nn.Module):
    """The same by FBGEMM."""

    def __init__(self, counts, dim, batch):
        super().__init__()
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
        from torchrec import EmbeddingBagConfig, KeyedJaggedTensor
        from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection

        self.jagged, self.dim = KeyedJaggedTensor, dim
        self.lengths = torch.ones(batch * len(counts), dtype=torch.int64)
        bound = 0.01 if dim > 1 else 0
        width = max(dim, 4)  # FBGEMM's least.
        tables = [
            EmbeddingBagConfig(
                name=name, embedding_dim=width, num_embeddings=count, feature_names=[name],
                weight_init_min=-bound, weight_init_max=bound,
            )
            for name, count in zip(job_data.IDS, counts)
        ]
        self.bags = FusedEmbeddingBagCollection(
            tables, optimizer_type=torch.optim.Adagrad, optimizer_kwargs={"lr": ROW_RATE},
            device=torch.device("cpu"), location=EmbeddingLocation.HOST,
        )
        for states in self.bags.fused_optimizer().state.values():
            for name, state in states.items():
                if name.endswith("momentum_1"):
                    state.fill_(ROW_ACCUMULATOR)
        self.optimizer = None  # The backward pass applies it.

    def forward(self, ids):
        flat = ids.t().reshape(-1)
        values = self.bags(self.jagged(keys=job_data.IDS, values=flat, lengths=self.lengths[: len(flat)])).values()
        return values if self.dim > 1 else values.view(len(ids), len(job_data.IDS), -1)[:, :, 0]


def layers(width, widths, last=True):
    made = []
    for outputs in widths:
        made += [torch.nn.Linear(width, outputs), torch.nn.ReLU()]
        width = outputs
    return torch.nn.Sequential(*made, *([torch.nn.Linear(width, 1)] if last else []))


class Network(torch.nn.Module):
    """The network over vectors (B, 26, dim), weights (B, 26) of the first order and numbers (B, 13); gives logits (B)."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        vectors, numbers = len(job_data.IDS), len(job_data.NUMBERS)
        if kind == "dlrm":
            self.bottom = layers(numbers, [64, DIM], last=False)
            self.pairs = torch.triu_indices(vectors + 1, vectors + 1, 1)
            self.top = layers(DIM + self.pairs.shape[1], [256, 128, 64])
        else:
            self.top = layers(numbers + vectors * DIM, [256, 128, 64])
            self.first = torch.nn.Linear(numbers, 1)

    def forward(self, vectors, weights, numbers):
        if self.kind == "dlrm":
            bottom = self.bottom(numbers)
            all_of = torch.cat([bottom.unsqueeze(1), vectors.view(len(numbers), -1, DIM)], dim=1)
            dots = torch.bmm(all_of, all_of.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([bottom, dots], dim=1)).squeeze(1)
        logits = self.top(torch.cat([numbers, vectors], dim=1)).squeeze(1)
        if self.kind == "deepfm":
            each = vectors.view(len(numbers), -1, DIM)
            logits = logits + 0.5 * (each.sum(1).square().sum(1) - each.square().sum((1, 2)))
            logits = logits + weights.sum(1) + self.first(numbers).squeeze(1)
        return logits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--model", choices=("light", "deepfm", "dlrm"), default="light")
    parser.add_argument("--embeddings", choices=("torch", "torchrec"), default="torch")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--save", required=True)
    own = parser.parse_args()
    torch.manual_seed(1)
    torch.sparse.check_sparse_tensor_invariants.disable()

    known = {}
    labels, numbers, ids = map(torch.from_numpy, job_data.arrays(job_data.read(own.train), known))
    counts = [len(known[name]) + 1 for name in job_data.IDS]
    make = TorchRows if own.embeddings == "torch" else TorchRecRows
    tables = [make(counts, DIM, own.batch)] + ([make(counts, 1, own.batch)] if own.model == "deepfm" else [])
    network = Network(own.model)
    dense = torch.optim.Adam(network.parameters(), lr=0.001, fused=True)
    optimizers = [dense, *(t.optimizer for t in tables if t.optimizer)]
    compiled = torch.compile(network) if own.compile else network
    loss_of = torch.nn.BCEWithLogitsLoss()

    def logits_of(ids, numbers):
        vectors, *weights = [table(ids) for table in tables]
        return compiled(vectors, weights[0] if weights else None, numbers)

    for first in range(0, len(labels) - own.batch + 1, own.batch):
        batch = slice(first, first + own.batch)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss_of(logits_of(ids[batch], numbers[batch]), labels[batch]).backward()
        for optimizer in optimizers:
            optimizer.step()

    saved = {"network": network.state_dict(), "tables": [t.state_dict() for t in tables]}
    torch.save({**saved, "ids": {name: ids.to_pylist() for name, ids in known.items()}}, own.save)
    labels, numbers, ids = job_data.arrays(job_data.read(own.test), known)
    numbers, ids, found = torch.from_numpy(numbers), torch.from_numpy(ids), []
    with torch.no_grad():
        for first in range(0, len(labels), own.batch):
            batch = slice(first, first + own.batch)
            found.append(torch.sigmoid(logits_of(ids[batch], numbers[batch])).numpy())
    job_data.finish(labels, np.concatenate(found), f"PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
