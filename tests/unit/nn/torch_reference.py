#!/usr/bin/env python3
"""Computes loss, probabilities and gradients of a model with PyTorch, in f64.

Usage: torch_reference.py FOLDER
FOLDER has model.json: `network` (see scripts/simurgh_model.py), `weights` (factors of the tasks' losses), `temperature`
and `log_q` (of the loss in_batch_softmax; else absent), `tensors` (names and shapes of the parameters) and `statistics`
(those of the running ones); and parameters, dense, embeddings, labels and, with dropout, masks, f32 without a header;
and items, the keys of items, u64. Writes f64 to FOLDER/found: the loss, the predictions, the gradients of the
parameters and those of the embeddings.
"""
import itertools
import json
import os
import sys
import numpy
import torch

sys.path.insert(0, "scripts")
import simurgh_model

torch.set_num_threads(1)  # More would wait for each other longer than they compute.

folder = sys.argv[1]
with open(folder + "/model.json", encoding="utf-8") as file:
    description = json.load(file)


def read(name, columns=None):
    values = numpy.fromfile(f"{folder}/{name}", "<f4").astype("f8")
    return torch.from_numpy(values if columns is None else values.reshape(-1, columns))


parameters, values, first = read("parameters"), {}, 0
for name, shape in description["tensors"]:
    values[name] = parameters[first:first + numpy.prod(shape)].reshape(shape)
    first += numpy.prod(shape)
for name, shape in description.get("statistics", []):
    values[name] = torch.zeros(shape, dtype=torch.float64)
network = description["network"]
model = simurgh_model.Model(network, values).train()
dense = read("dense", len(network["dense"]))
embeddings = read("embeddings", sum(feature["width"] for feature in network["embeddings"])).requires_grad_()
weights = torch.tensor(description["weights"], dtype=torch.float64)
labels = read("labels", len(weights))
smoothing = torch.tensor(description.get("label_smoothing", [0.0]), dtype=torch.float64)
labels = labels * (1 - smoothing) + smoothing / 2
if os.path.exists(folder + "/masks"):
    # The factors of each dropout layer, in their order.
    masks = iter(read("masks"))
    torch.nn.functional.dropout = lambda x, rate, training: x * torch.stack(
        list(itertools.islice(masks, x.numel()))).reshape(x.shape)
temperature = description.get("temperature")
if temperature is None:
    logits = model.logits(dense, embeddings)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    predictions = torch.sigmoid(logits)
else:
    # The loss in_batch_softmax of the vectors that the last layer reads. In the first step the frequency of an item is
    # its number of occurrences.
    vectors = []
    *_, top = model.layers.values()
    top.register_forward_pre_hook(lambda module, inputs: vectors.append(inputs[0]))
    predictions = model.logits(dense, embeddings) / temperature
    users, items = vectors[0].chunk(2, 1)
    keys = torch.from_numpy(numpy.fromfile(folder + "/items", "<i8"))
    same = keys[:, None] == keys[None]
    others = same & ~torch.eye(len(items), dtype=torch.bool)
    scores = (users @ items.T / temperature).masked_fill(others, -torch.inf)
    if description["log_q"]:
        scores = scores - same.sum(0).log()
    own = torch.nn.functional.cross_entropy(scores, torch.arange(len(items)), reduction="none")
    losses = own[:, None] * labels
loss = (losses * weights).sum() / len(labels)
loss.backward()
found = {name.removeprefix("layers.").replace(" ", ".").replace(":", "."): one.grad
         for name, one in model.named_parameters()}
parts = [loss, predictions, *(found[name] for name, _ in description["tensors"]), embeddings.grad]
numpy.concatenate([part.detach().numpy().ravel() for part in parts]).astype("<f8").tofile(folder + "/found")
