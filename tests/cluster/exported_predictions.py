#!/usr/bin/env python3
"""Predicts exported samples with PyTorch and with onnxruntime.

Usage: exported_predictions.py MODEL FEATURES.safetensors DENSE.onnx
Embeddings come from the model's rows. Prints a line per sample: PyTorch's probability of each label, then
onnxruntime's.
"""
import sys
import onnxruntime
import torch
from safetensors.numpy import load_file

sys.path.insert(0, "scripts")
import simurgh_model

model = simurgh_model.load(sys.argv[1], tables=True)
samples = load_file(sys.argv[2])
with torch.no_grad():
    dense = torch.from_numpy(samples["dense"]) if "dense" in samples else None
    embeddings = model.embed(samples)
    found = model(dense, embeddings).numpy()
session = onnxruntime.InferenceSession(sys.argv[3], providers=["CPUExecutionProvider"])
inputs = {"dense": samples.get("dense"), "embeddings": embeddings.numpy()}
others = session.run(None, {one.name: inputs[one.name] for one in session.get_inputs()})
for row, *other in zip(found.tolist(), *(one.tolist() for one in others)):
    print(*map(repr, row + other), sep=",")
