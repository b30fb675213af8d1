"""The features of a configuration that `simurgh init` wrote, for peers: ids by number, scaled numbers."""

import bisect
import math
from dataclasses import dataclass, field

import numpy as np
import yaml


@dataclass
class Features:
    """Of one set of rows. Ids that the training rows lack are left out, as they have no weight."""

    labels: np.ndarray = None  # [rows], 0 or 1
    numbers: np.ndarray = None  # [rows, dense columns], mean 0, deviation 1 over the training rows
    ids: list = field(default_factory=list)  # per feature: a list of lists of numbers from 1


def read(config_file, train, others):
    """Features of the data frame `train` and of each of `others`. All cells are texts.

    Returns them and the number of distinct ids per feature."""
    with open(config_file, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    missing = set(config["data"]["missing_values"])
    columns = {c["name"]: c for c in config["data"]["columns"]}
    frames = [train, *others]
    parts = [Features() for _ in frames]

    label = next(c for c in columns.values() if c["kind"] == "label")
    for part, frame in zip(parts, frames):
        cells = frame[label.get("header_name", label["name"])]
        positive = label.get("positive")
        part.labels = (
            cells.isin(positive) if positive else cells.astype(float) > 0
        ).to_numpy(dtype=np.float32)

    dense = [c for c in columns.values() if c["kind"] == "dense"]
    for part, frame in zip(parts, frames):
        part.numbers = np.array(
            [[_number(x, c, missing) for x in frame[c.get("header_name", c["name"])]] for c in dense],
            dtype=np.float32,
        ).reshape(len(dense), len(frame)).T
    mean, deviation = parts[0].numbers.mean(axis=0), parts[0].numbers.std(axis=0) + 1e-9
    for part in parts:
        part.numbers = (part.numbers - mean) / deviation

    sizes = []
    for feature in config.get("features") or _own_features(columns):
        column = columns[feature.get("column", feature["name"])]
        name = column.get("header_name", column["name"])
        bounds = _bounds(train[name], feature.get("quantiles", 0), missing)
        known = {}
        for cell in train[name]:
            for value in _values(cell, column, bounds, missing):
                known.setdefault(value, len(known) + 1)
        for part, frame in zip(parts, frames):
            part.ids.append(
                [
                    [known[v] for v in _values(cell, column, bounds, missing) if v in known]
                    for cell in frame[name]
                ]
            )
        sizes.append(len(known))
    return parts[0], parts[1:], sizes


def _own_features(columns):
    return [{"name": c["name"]} for c in columns.values() if c["kind"] == "id"]


def _number(cell, column, missing):
    value = float(cell) if cell not in missing else column.get("missing", 0.0)
    if column.get("transform") == "log1p":
        value = math.copysign(math.log1p(abs(value)), value)
    return value


def _bounds(cells, quantiles, missing):
    if not quantiles:
        return None
    numbers = np.array([float(c) for c in cells if c not in missing])
    return sorted(set(np.quantile(numbers, np.arange(1, quantiles) / quantiles)))


def _values(cell, column, bounds, missing):
    if cell in missing:
        return []
    if bounds is not None:
        return [bisect.bisect_right(bounds, float(cell))]
    if "separator" in column:
        return [v for v in (x.strip() for x in cell.split(column["separator"])) if v not in missing]
    return [cell]
