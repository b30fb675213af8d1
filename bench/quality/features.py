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
    groups: np.ndarray = None  # [rows], texts; None: the AUC within groups is not asked for


@dataclass
class Layout:
    """What the features of all sets of rows have in common."""

    sizes: list  # per feature: distinct ids
    histories: list  # of pairs of features: an item and what its user has seen before


def read(config_file, train, others):
    """Features of the data frame `train` and of each of `others`. All cells are texts.

    Returns them and their layout."""
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

    specs = config.get("features") or _own_features(columns)
    specs = [spec for spec in specs if "columns" not in spec]  # Crosses are a means of ours.
    known = {spec.get("table", spec["name"]): {} for spec in specs}  # Ids per table.
    cells = [[_cells(frame, spec, columns, train, missing) for frame in frames] for spec in specs]
    for spec, (of_train, *_) in zip(specs, cells):
        ids = known[spec.get("table", spec["name"])]
        for values in of_train:
            for value in values:
                ids.setdefault(value, len(ids) + 1)
    for spec, of_frames in zip(specs, cells):
        ids = known[spec.get("table", spec["name"])]
        for part, rows in zip(parts, of_frames):
            part.ids.append([[ids[v] for v in values if v in ids] for values in rows])
            if spec["name"] == config["training"].get("auc_group_feature"):
                part.groups = np.array([values[0] if values else "" for values in rows])
    places = {spec["name"]: i for i, spec in enumerate(specs)}
    histories = [(places[s["table"]], places[s["name"]]) for s in specs if s.get("pooling") == "raw"]
    sizes = [len(known[spec.get("table", spec["name"])]) for spec in specs]
    return parts[0], parts[1:], Layout(sizes, histories)


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


def _cells(frame, spec, columns, train, missing):
    """Per row, the values of a feature."""
    column = columns[spec.get("column", spec["name"])]
    name = column.get("header_name", column["name"])
    bounds = _bounds(train[name], spec.get("quantiles", 0), missing)
    return [_values(cell, column, bounds, missing) for cell in frame[name]]


def _values(cell, column, bounds, missing):
    if cell in missing:
        return []
    if bounds is not None:
        return [bisect.bisect_right(bounds, float(cell))]
    if "separator" in column:
        return [v for v in (x.strip() for x in cell.split(column["separator"])) if v not in missing]
    return [cell]
