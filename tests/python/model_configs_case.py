"""simurgh.Model equals `simurgh predict`, `export features` and `export embeddings` for each configuration in config/."""

import re
import sys

from package import ROOT, simurgh
from case import BIN, expect, program, skip

import numpy as np

from simurgh.result import result_of

try:
    import polars
    import yaml
except ImportError as error:
    skip(f"{error.name} is missing")

ADULT = ("age workclass fnlwgt education education_num marital_status occupation relationship race gender capital_gain "
         "capital_loss hours_per_week native_country income").split()
CRITEO = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
# Of examples that have not the teacher's name.
TEACHERS = {"din": "sequence", "bst": "sequence", "mmoe": "experts", "ple": "experts", "esmm": "purchases",
            "two-tower": "purchases"}
PLUGIN = BIN.parent / "plugins/soft_bins.so"
ROWS = 1000


def rows_for(name):
    """Returns (file of rows to train on, file of rows to predict, the latter as a frame)."""
    if name.startswith("adult"):
        rows = polars.read_csv(ROOT / "config/data/adult/adult.test.csv.zst", has_header=False, new_columns=ADULT)
        rows = rows.head(ROWS)
        rows.write_csv("adult.csv", include_header=False)
        return ROOT / "config/data/adult/adult.train.csv.zst", "adult.csv", rows
    if name == "criteo-synthetic":
        for path, first, count in (("train.tsv", 0, 6000), ("test.tsv", 6000, ROWS)):
            program("datagen", "--output", path, "--samples", count, "--first", first, "--distinct-ids", 2000)
        rows = polars.read_csv("test.tsv", has_header=False, new_columns=CRITEO, separator="\t")
        return "train.tsv", "test.tsv", rows
    if name == "kafka":
        random = np.random.default_rng(1)
        rows = polars.DataFrame({name: random.integers(0, most, ROWS) for name, most in
                                 (("clicked", 2), ("user", 100), ("item", 50))})
        rows.write_ndjson("clicks.jsonl")
        return "clicks.jsonl", "clicks.jsonl", rows
    for path, first in ((f"{name}.train.csv", 0), (f"{name}.csv", 6000)):
        program("datagen", "--teacher", TEACHERS.get(name, name), "--output", path, "--samples", 6000 if first == 0 else ROWS, "--first", first)
    return f"{name}.train.csv", f"{name}.csv", polars.read_csv(f"{name}.csv")


def pooled(kind, width, rows, weights):
    """What a network reads of one sample, in float64: rows (ids, dim) and weights (ids) of a feature."""
    if kind == "raw":
        values = np.zeros(width)
        values[: rows.size] = rows.ravel()
        return values
    if len(rows) == 0:
        return np.zeros(width)
    if kind == "weighted_sum":
        return (rows * weights[:, None]).sum(0)
    return {"sum": rows.sum(0), "mean": rows.mean(0), "sqrt_n": rows.sum(0) / np.sqrt(len(rows)), "max": rows.max(0)}[kind]


def check(path):
    name = path.stem
    train, test, rows = rows_for(name)
    text = path.read_text().replace("../build/release/plugins/soft_bins.so", str(PLUGIN))
    text = re.sub(r"metrics: \"127.0.0.1:\d+\"", "metrics: \"127.0.0.1:0\"", text)
    folder = f"{name}-model"
    settings = [f"data.train=[{train}]", "data.test=[]", f"checkpoint.directory={folder}", "training.max_steps=40",
                "training.batch_size=64", "data.validation=[]"]
    if name == "kafka":  # Its rows are those of a file here.
        text = re.sub(r"kafka: \{.*\}", "train: [clicks.jsonl]", text)
        settings.append("training.epochs=2")
    if name == "two-tower":
        polars.concat([polars.read_csv(train), rows]).select("item").unique().sort("item").write_csv("items.csv")
        settings.append("data.items=items.csv")
    config = yaml.safe_load(text)
    with open(f"{name}.yaml", "w") as file:
        file.write(text)
    words = [word for one in settings for word in ("--set", one)]
    program("nn-worker", "--config", f"{name}.yaml", "--standalone", "--log-level", "warn", *words)
    plugins = ["--allow-plugins"] if name == "adult-plugin" else []
    model = simurgh.Model(folder, allow_plugins=bool(plugins))

    program("simurgh", "predict", "--model", folder, "--input", test, "--output", "scores.csv", *plugins)
    wanted = polars.read_csv("scores.csv").to_numpy()
    found = model.predict(rows).reshape(wanted.shape)
    far = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    expect(far.max() < 1e-6, f"{name}: predictions differ by {far.max()}")

    words = ["--model", folder, "--input", test, "--evaluate", *plugins]
    printed = result_of(program("simurgh", "predict", *words).out)
    found = model.evaluate(rows)
    expect(found == printed and len(found) >= 2, f"{name}: evaluate gives {found}, the program {printed}")

    program("simurgh", "export", "features", "--model", folder, "--input", test, "--output", "features.npz", *plugins)
    program("simurgh", "export", "embeddings", "--model", folder, "--output", "{table}.npz")
    exported = np.load("features.npz")
    features = model.features(rows)
    dense = np.concatenate([features.dense, *features.masks.values()], 1)
    wanted = exported["dense"] if "dense" in exported else np.zeros((ROWS, 0))
    expect(dense.shape == wanted.shape, f"{name}: dense values have the shape {dense.shape}, expected {wanted.shape}")
    far = np.abs(dense - wanted).max(initial=0)
    expect(far < 1e-6, f"{name}: dense values differ by {far}")
    known = {one["name"]: one for one in config.get("features", [])}
    for feature in model.inputs.features:
        about = known.get(feature.name, {})
        table = np.load(f"{about.get('table', feature.name)}.npz")
        weights, is_there = model.rows(feature.name, table["id"])
        expect(is_there.all() and (weights == table["weights"]).all(), f"{name}: rows of {feature.name}")
        ids, offsets = exported[f"{feature.name}.ids"], exported[f"{feature.name}.offsets"]
        of_ids = exported[f"{feature.name}.weights"] if f"{feature.name}.weights" in exported else np.ones(len(ids))
        places = {number: place for place, number in enumerate(table["id"].tolist())}
        got = features.embeddings[feature.name].reshape(ROWS, -1)
        far = 0
        for row in range(ROWS):
            span = slice(offsets[row], offsets[row + 1])
            place = [places.get(number, -1) for number in ids[span].tolist()]
            values = np.where(np.array(place, int)[:, None] >= 0, table["weights"][place], 0).astype(np.float64)
            one = pooled(about.get("pooling", "sum"), got.shape[1], values, of_ids[span].astype(np.float64))
            far = max(far, np.abs(got[row] - one).max())
        expect(far < 1e-6, f"{name}: embeddings of {feature.name} differ by {far}")
    print(f"{name}: {len(model.inputs.features)} features", flush=True)


chosen = sys.argv[1:] or sorted(path.stem for path in (ROOT / "config").glob("*.yaml"))
expect(len(chosen) > 10 or sys.argv[1:], f"configurations: {chosen}")
for name in chosen:
    if name == "adult-plugin" and not PLUGIN.exists():
        print(f"{PLUGIN} is missing")
        continue
    check(ROOT / f"config/{name}.yaml")
