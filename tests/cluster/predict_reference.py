#!/usr/bin/env python3
"""Predicts rows of Criteo's layout from the files of a checkpoint, with numpy only.

Usage: predict_reference.py MODEL/step-N ROWS FEATURE...
The model has one tower `top` over dense values and embeddings: linear, relu, linear. Its features
have one table each. Prints a probability per row.
"""
import glob
import sys
import numpy

source = open("scripts/read_model.py", encoding="utf-8").read()
exec(source[:source.index("\nif len(sys.argv)")])  # The reader without its command line.

checkpoint, features = sys.argv[1], sys.argv[3:]
dense = read_tensors(checkpoint + "/dense.safetensors")[0]
rows = {}
for feature in features:
    for path in glob.glob(f"{checkpoint}/rows/{feature}/*.safetensors"):
        tensors = read_tensors(path)[0]
        for id, weights in zip(tensors["id"], tensors["weights"]):
            rows[feature, int(id)] = weights.astype("f8")
zeros = numpy.zeros(next(iter(rows.values())).shape)
for line in open(sys.argv[2], encoding="ascii"):
    cells = line.rstrip("\n").split("\t")
    numbers = [float(cell) if cell else 0.0 for cell in cells[1:14]]
    parts = [numpy.sign(numbers) * numpy.log1p(numpy.abs(numbers))]
    for feature in features:
        cell = cells[13 + int(feature[1:])]
        parts.append(rows.get((feature, int(cell, 16)), zeros) if cell else zeros)
    hidden = numpy.concatenate(parts) @ dense["top.1.weight"].astype("f8") + dense["top.1.bias"]
    logit = numpy.maximum(hidden, 0) @ dense["top.3.weight"].astype("f8") + dense["top.3.bias"]
    print(repr(float(1 / (1 + numpy.exp(-logit[0])))))
