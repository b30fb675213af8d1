#!/usr/bin/env python3
"""Compares exported samples with rows of Criteo's layout.

Usage: features_reference.py ROWS.tsv FEATURES.safetensors FEATURES.npz FEATURE...
Columns of ids are not hashed. Prints the number of samples.
"""
import sys
import numpy
from safetensors.numpy import load_file

tensors, arrays = load_file(sys.argv[2]), numpy.load(sys.argv[3])
features = sys.argv[4:]
assert sorted(arrays.files) == sorted([one + part for one in features for part in (".ids", ".offsets")] + ["dense", "labels"])
for name in arrays.files:
    assert numpy.array_equal(tensors[name], arrays[name]) and tensors[name].dtype == arrays[name].dtype, name
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="ascii")]
assert tensors["labels"].tolist() == [[float(cells[0])] for cells in rows]
numbers = numpy.array([[float(cell or "0") for cell in cells[1:14]] for cells in rows])
wanted = numpy.sign(numbers) * numpy.log1p(numpy.abs(numbers))
assert tensors["dense"].shape == wanted.shape and abs(tensors["dense"] - wanted).max() < 1e-6
missing = 0
for feature in features:
    cells = [row[13 + int(feature[1:])] for row in rows]
    ids, offsets = tensors[feature + ".ids"], tensors[feature + ".offsets"]
    assert len(offsets) == len(rows) + 1 and offsets[0] == 0 and offsets[-1] == len(ids)
    for i, cell in enumerate(cells):
        assert ids[offsets[i]:offsets[i + 1]].tolist() == ([int(cell, 16)] if cell else []), (feature, i)
    missing += sum(not cell for cell in cells)
assert missing > 0
print(len(rows))
