#!/usr/bin/env python3
"""Estimates frequencies of items by the streaming algorithm, in f64 and with a place for each item.

Usage: item_frequency_reference.py FOLDER ITEMS BATCH
FOLDER has stream, u64: a batch of item numbers after the other, below ITEMS. Writes f64 to FOLDER/found: the estimated
number of occurrences of each item in a batch.
"""
import sys
import numpy

folder, items, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stream = numpy.fromfile(folder + "/stream", "<u8").reshape(-1, batch)
gap, last, count = numpy.zeros(items), numpy.zeros(items), numpy.zeros(items)
for step, batch_items in enumerate(stream, 1):
    for item in batch_items:
        count[item] += 1
        rate = max(0.01, 1 / count[item])
        gap[item] = (1 - rate) * gap[item] + rate * (step - last[item])
        last[item] = step
with numpy.errstate(divide="ignore"):
    numpy.where(count > 0, 1 / gap, 0).astype("<f8").tofile(folder + "/found")
