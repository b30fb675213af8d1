#!/usr/bin/env python3
"""A job of bench_job with DeepCTR-Torch, as its documentation tells: reads the files, trains one epoch, saves and tests."""

import argparse
import importlib.metadata

import torch
from deepctr_torch.inputs import DenseFeat, SparseFeat, get_feature_names
from deepctr_torch.models import DeepFM

import job_data


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--save", required=True)
    own = parser.parse_args()
    known = {}
    labels, numbers, ids = job_data.arrays(job_data.read(own.train), known)
    columns = [SparseFeat(name, len(known[name]) + 1, embedding_dim=16) for name in job_data.IDS]
    columns += [DenseFeat(name, 1) for name in job_data.NUMBERS]

    def inputs(numbers, ids):
        cells = {name: ids[:, i] for i, name in enumerate(job_data.IDS)}
        cells |= {name: numbers[:, i] for i, name in enumerate(job_data.NUMBERS)}
        return {name: cells[name] for name in get_feature_names(columns)}

    none = {"l2_reg_linear": 0, "l2_reg_embedding": 0}
    model = DeepFM(columns, columns, dnn_hidden_units=(256, 128, 64), task="binary", device="cpu", **none)
    model.compile(torch.optim.Adam(model.parameters(), 0.001), "binary_crossentropy")
    model.fit(inputs(numbers, ids), labels, batch_size=own.batch, epochs=1, verbose=0)
    torch.save({"model": model.state_dict(), "ids": {n: known[n].to_pylist() for n in known}}, own.save)
    labels, numbers, ids = job_data.arrays(job_data.read(own.test), known)
    found = model.predict(inputs(numbers, ids), own.batch)[:, 0]
    job_data.finish(labels, found, f"DeepCTR-Torch {importlib.metadata.version('deepctr-torch')}")


if __name__ == "__main__":
    main()
