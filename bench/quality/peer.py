#!/usr/bin/env python3
"""Trains one peer on the rows of a folder and prints its quality as JSON. Settings are chosen by
the AUC on the validation rows; the test rows are read once, at the end."""

import argparse
import json
import os
import resource
import time
from functools import partial

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

import features


def logistic_regression(train, valid, test, layout, seed):
    """scikit-learn, L2 of six strengths."""
    from sklearn.linear_model import LogisticRegression

    rows = [_one_hot(part, layout.sizes) for part in (train, valid, test)]

    def fit(strength):
        model = LogisticRegression(C=strength, max_iter=300)
        model.fit(rows[0], train.labels)
        return [model.predict_proba(r)[:, 1] for r in rows[1:]]

    return _best([lambda c=c: fit(c) for c in (0.03, 0.1, 0.3, 1, 3, 10)], valid)


def lightgbm(train, valid, test, layout, seed):
    """Early stopping; ids as categories or as numbers, 31 or 127 leaves."""
    import lightgbm as lgb

    rows, categories = zip(*[_columns(part, layout.sizes) for part in (train, valid, test)])

    def fit(leaves, as_categories):
        settings = {
            "objective": "binary", "metric": "auc", "learning_rate": 0.05, "num_leaves": leaves,
            "verbosity": -1, "seed": seed, "num_threads": THREADS, "max_bin": 255,
        }
        data = lgb.Dataset(
            rows[0], train.labels, categorical_feature=categories[0] if as_categories else []
        )
        model = lgb.train(
            settings, data, 1000, [lgb.Dataset(rows[1], valid.labels, reference=data)],
            callbacks=[lgb.early_stopping(30, verbose=False)],
        )
        return [model.predict(r) for r in rows[1:]]

    grid = [(leaves, kind) for leaves in (31, 127) for kind in (True, False)]
    return _best([lambda g=g: fit(*g) for g in grid], valid)


def factorization_machine(train, valid, test, layout, seed):
    """PyTorch, Adam, 16 factors; early stopping, L2 of three strengths over all weights per step."""
    import torch

    torch.set_num_threads(THREADS)
    parts = [[torch.from_numpy(x) for x in _padded(part, layout.sizes)] for part in (train, valid, test)]
    count = sum(layout.sizes) + train.numbers.shape[1] + 1
    labels = torch.from_numpy(train.labels)

    def fit(strength, rate=0.005, factors=16, batch=1024, patience=2, max_epochs=30):
        torch.manual_seed(seed)
        weight = torch.nn.Embedding(count, 1, padding_idx=0)
        vectors = torch.nn.Embedding(count, factors, padding_idx=0)
        bias = torch.nn.Parameter(torch.zeros(1))
        torch.nn.init.zeros_(weight.weight)
        torch.nn.init.normal_(vectors.weight, std=0.02)
        parameters = [weight.weight, vectors.weight]

        def logits(ids, values):
            x = vectors(ids) * values[..., None]
            pairs = (x.sum(1).square() - x.square().sum(1)).sum(1) / 2
            return bias + (weight(ids)[..., 0] * values).sum(1) + pairs

        def predict(part):
            with torch.no_grad():
                pieces = zip(part[0].split(8192), part[1].split(8192))
                return torch.cat([logits(*p) for p in pieces]).sigmoid().numpy()

        optimizer = torch.optim.Adam(
            [{"params": parameters, "weight_decay": strength}, {"params": [bias]}], lr=rate
        )
        loss = torch.nn.BCEWithLogitsLoss()
        best, left = (-1, None), patience
        for _ in range(max_epochs):
            for rows in torch.randperm(len(labels)).split(batch):
                optimizer.zero_grad()
                loss(logits(parts[0][0][rows], parts[0][1][rows]), labels[rows]).backward()
                optimizer.step()
            auc = roc_auc_score(valid.labels, predict(parts[1]))
            if auc > best[0]:
                best, left = (auc, [predict(p) for p in parts[1:]]), patience
            else:
                left -= 1
                if left == 0:
                    break
        return best[1]

    return _best([lambda s=s: fit(s) for s in (1e-6, 1e-5, 1e-4)], valid)


def fuxictr(train, valid, test, layout, seed, network):
    import fuxictr_models

    return fuxictr_models.fit(network, [train, valid, test], layout, seed, THREADS)


PEERS = {f.__name__: f for f in (logistic_regression, lightgbm, factorization_machine)}
for name in ("deepfm", "dcnv2", "finalmlp", "masknet", "din", "bst"):
    PEERS[f"fuxictr_{name}"] = partial(fuxictr, network=name)
THREADS = len(os.sched_getaffinity(0))


def _best(fits, valid):
    predictions = [fit() for fit in fits]
    return max(predictions, key=lambda p: roc_auc_score(valid.labels, p[0]))


def _group_auc(part, predicted):
    """As ours: the mean AUC within groups of both labels, weighted by their rows."""
    rows = pd.DataFrame({"group": part.groups, "label": part.labels, "predicted": predicted})
    mixed = [g for name, g in rows.groupby("group") if name and g["label"].nunique() == 2]
    return np.average(
        [roc_auc_score(g["label"], g["predicted"]) for g in mixed], weights=[len(g) for g in mixed]
    )


def _one_hot(part, sizes):
    from scipy.sparse import csr_matrix, hstack

    blocks = [csr_matrix(part.numbers)]
    for ids, size in zip(part.ids, sizes):
        starts = np.cumsum([0] + [len(i) for i in ids])
        flat = np.array([i - 1 for row in ids for i in row], dtype=np.int64)
        blocks.append(csr_matrix((np.ones(len(flat), np.float32), flat, starts), (len(ids), size)))
    return hstack(blocks).tocsr()


def _columns(part, sizes):
    """Numbers, ids, and for lists of up to 200 values a column for each. With the ids' positions."""
    blocks, categories = list(part.numbers.T), []
    for ids, size in zip(part.ids, sizes):
        if max(map(len, ids)) > 1 and size <= 200:
            flags = np.zeros((size, len(ids)), np.float32)
            for row, values in enumerate(ids):
                flags[np.array(values, dtype=int) - 1, row] = 1
            blocks += list(flags)
            continue
        categories.append(len(blocks))
        blocks.append(np.array([i[0] if i else np.nan for i in ids], dtype=np.float32))
    return np.array(blocks).T, categories


def _padded(part, sizes):
    """Ids [rows, places] over all features, 0 if there is none, and their values. A feature's values
    add up to 1; numbers have an id each."""
    rows, numbers = part.numbers.shape
    widths = [max(1, max(map(len, ids))) for ids in part.ids]
    ids = np.zeros((rows, sum(widths) + numbers), np.int64)
    values = np.zeros(ids.shape, np.float32)
    first, place = 0, 0
    for feature, size, width in zip(part.ids, sizes, widths):
        for row, found in enumerate(feature):
            ids[row, place : place + len(found)] = np.array(found, dtype=int) + first
            values[row, place : place + len(found)] = 1 / max(1, len(found))
        first, place = first + size, place + width
    ids[:, place:] = np.arange(numbers) + first + 1
    values[:, place:] = part.numbers
    return ids, values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("config", help="what `simurgh init` wrote")
    parser.add_argument("train")
    parser.add_argument("validation")
    parser.add_argument("test")
    parser.add_argument("--seed", type=int, default=1)
    own = parser.parse_args()
    files = [own.train, own.validation, own.test]
    frames = [pd.read_csv(f, dtype=str, keep_default_na=False, sep=None, engine="python") for f in files]
    train, (valid, test), layout = features.read(own.config, frames[0], frames[1:])
    start = time.monotonic()
    validation, predicted = PEERS[own.peer](train, valid, test, layout, own.seed)
    run = {
        "auc": roc_auc_score(test.labels, predicted),
        "validation_auc": roc_auc_score(valid.labels, validation),
        "log_loss": log_loss(test.labels, np.clip(predicted.astype(float), 1e-7, 1 - 1e-7)),
        "seconds": time.monotonic() - start,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }
    if test.groups is not None:
        run["group_auc"] = _group_auc(test, predicted)
    print(json.dumps(run))


if __name__ == "__main__":
    main()
