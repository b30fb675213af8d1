#!/usr/bin/env python3
"""A job of bench_job with LightGBM: reads the files, grows trees with default settings, saves the model and tests it."""

import argparse
import pickle

import lightgbm
import numpy as np

import job_data


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--save", required=True)
    own = parser.parse_args()
    known = {}
    labels, numbers, ids = job_data.arrays(job_data.read(own.train), known)
    features = np.concatenate([numbers, ids.astype(np.float32)], axis=1)
    places = list(range(numbers.shape[1], features.shape[1]))
    model = lightgbm.LGBMClassifier(verbosity=-1)
    model.fit(features, labels, categorical_feature=places)
    with open(own.save, "wb") as file:
        pickle.dump((model, known), file)
    labels, numbers, ids = job_data.arrays(job_data.read(own.test), known)
    found = model.predict_proba(np.concatenate([numbers, ids.astype(np.float32)], axis=1))[:, 1]
    job_data.finish(labels, found, f"LightGBM {lightgbm.__version__}")


if __name__ == "__main__":
    main()
