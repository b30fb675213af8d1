"""What the peers of bench_job share: files in the Criteo layout, read by pyarrow, and the result."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from auc import exact_auc

NUMBERS = [f"I{i}" for i in range(1, 14)]
IDS = [f"C{i}" for i in range(1, 27)]


def read(path):
    """The columns of a file, ids as a dictionary and the number of each row's id in it. pyarrow uses all cores."""
    if path.endswith(".parquet"):
        return pyarrow.parquet.read_table(path, read_dictionary=IDS)
    types = dict.fromkeys(["label", *NUMBERS], pa.float32()) | dict.fromkeys(IDS, pa.dictionary(pa.int32(), pa.string()))
    return pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(column_names=["label", *NUMBERS, *IDS]),
        pyarrow.csv.ParseOptions(delimiter="\t"),
        pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True),
    )


def arrays(table, known):
    """Labels (N), numbers (N, 13) as sign(x) log(1 + |x|), and the rows of the ids (N, 26).

    `known` has the ids of each feature, in the order of their rows from 1 on. It is filled if it is empty. Row 0 is of
    missing ids and of those that are not known."""
    labels = table["label"].to_numpy().astype(np.float32)
    numbers = np.stack([table[name].fill_null(0).to_numpy() for name in NUMBERS], axis=1).astype(np.float32)
    numbers = np.sign(numbers) * np.log1p(np.abs(numbers))
    rows = np.empty((len(labels), len(IDS)), np.int64)
    for place, name in enumerate(IDS):
        column = table[name].unify_dictionaries().combine_chunks()
        if name not in known:
            known[name] = column.dictionary
        row_of = pa.compute.index_in(column.dictionary, known[name]).fill_null(-1).to_numpy() + 1
        numbered = column.indices.fill_null(-1).to_numpy()
        rows[:, place] = np.append(row_of, 0)[numbered]
    return labels, numbers, rows


def finish(labels, probabilities, version):
    """Prints the result, as the last line."""
    p = np.clip(probabilities.astype(np.float64), 1e-7, 1 - 1e-7)
    loss = -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    result = {"auc": round(float(exact_auc(labels, p)), 5), "log_loss": round(float(loss), 5), "version": version}
    print(json.dumps(result))
