"""Trains a logistic regression of its own on a cluster, with numpy only: wheel_program.py CONFIG."""

import sys

import numpy as np
import simurgh

assert "torch" not in sys.modules

with simurgh.Worker(sys.argv[1]) as worker:
    dense, width = worker.inputs.dense_width, worker.inputs.embedding_width
    weights = np.random.default_rng(1).normal(0, 0.5, dense + width).astype(np.float32)
    weights[:dense] = 0

    def inputs(batch):
        return np.concatenate([batch.dense, batch.joined], axis=1)

    worker.track(forward=lambda batch: inputs(batch) @ weights)
    for batch in worker:
        rows = inputs(batch)
        logits = rows @ weights
        slopes = (1 / (1 + np.exp(-logits)) - batch.labels[:, 0]) / batch.rows
        worker.finish(batch, logits, np.outer(slopes, weights[dense:]))
        weights -= 0.1 * rows.T @ slopes
print(f"auc={worker.result['test_auc']}")
assert 0.88 < worker.result["test_auc"] < 0.95
