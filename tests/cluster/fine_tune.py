#!/usr/bin/env python3
"""Trains the dense network of a model for one step, and predicts with the result.

Usage: fine_tune.py MODEL FEATURES.safetensors WEIGHTS.safetensors
Writes the new weights, and prints a probability per sample.
"""
import sys
import torch
from safetensors.numpy import load_file

sys.path.insert(0, "scripts")
import simurgh_model

model, samples = simurgh_model.load(sys.argv[1], tables=True), load_file(sys.argv[2])
dense, labels = torch.from_numpy(samples["dense"]), torch.from_numpy(samples["labels"])
embeddings = model.embed(samples).detach()
optimizer = torch.optim.SGD(model.layers.parameters(), lr=0.5)
torch.nn.functional.binary_cross_entropy_with_logits(model.logits(dense, embeddings), labels).backward()
optimizer.step()
simurgh_model.save_dense(model, sys.argv[3])
with torch.no_grad():
    print(*(repr(one) for one in model(dense, embeddings)[:, 0].tolist()), sep="\n")
