"""Runs `simurgh init`, `train`, `predict` and `model list` for Python."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np

from ._library import Error, InvalidError
from .loader import stream_of
from .result import result_of

_BAD = 2


def program(name="simurgh"):
    """Returns the path of a program: of the wheel, of SIMURGH_BIN_DIR, of a source tree, or found by PATH."""
    package = pathlib.Path(__file__).resolve().parent
    folders = [package / "bin", package.parents[2] / "build" / "release" / "bin"]
    if os.environ.get("SIMURGH_BIN_DIR"):
        folders.insert(0, pathlib.Path(os.environ["SIMURGH_BIN_DIR"]))
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise InvalidError(
            f"the program {name} is neither in {', '.join(map(str, folders))} nor in PATH; install the wheel, or build "
            f"it with scripts/build.sh release {name}"
        )
    return found


def run(*arguments, quiet=True):
    """Runs `simurgh` with these arguments. Returns its stdout.

    quiet: False shows its log on stderr. Errors: InvalidError for bad arguments or data, else Error, with the last lines
    of stderr.
    """
    command = [program(), *map(os.fspath, arguments)]
    lines = collections.deque(maxlen=20)
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as child:
            for line in child.stderr:
                lines.append(line)
                if not quiet:
                    sys.stderr.write(line)
        output.seek(0)
        text = output.read()
    if child.returncode == 0:
        return text
    kind = InvalidError if child.returncode == _BAD else Error
    raise kind("".join(lines).strip() or f"simurgh ended with code {child.returncode}")


def _write(table, folder, name):
    """Writes a table into a file that the programs read. Returns the path."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError as error:
        raise InvalidError("tables need pyarrow (pip install pyarrow); or give the path of a file") from error
    reader = pyarrow.RecordBatchReader._import_from_c_capsule(stream_of(table))
    fields = [
        # Writers of CSV do not know views of texts.
        field.with_type(pyarrow.large_string()) if str(field.type) == "string_view" else field
        for field in reader.schema
    ]
    reader = reader.read_all().cast(pyarrow.schema(fields)).to_reader()
    if (pathlib.Path(program()).parent / "libsimurgh_arrow.so").exists():
        path = pathlib.Path(folder) / f"{name}.arrow"
        with pyarrow.ipc.new_stream(str(path), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    else:
        path = pathlib.Path(folder) / f"{name}.csv"
        with pyarrow.csv.CSVWriter(str(path), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    return path


def train(data, model, *, label=None, refit=False, standalone=False, settings=None, init=None, quiet=True):
    """Trains a model. Returns the result as numbers by name, such as test_auc and test_logloss.

    data: the path of a configuration (.yaml); or rows with a header, as a file (see `simurgh init
    --help`) or a table (pyarrow, polars, pandas, duckdb), for which `simurgh init` writes a configuration. model: the
    model's folder, or s3://BUCKET/PREFIX; an interrupted training of the same rows continues there. label: name of the label's column; None:
    guessed. refit: trains again on the validation rows, too. standalone: trains in one process. settings:
    keys of the configuration to override, such as {"training.epochs": 3}. init: further options of `simurgh init`, such
    as {"id": "shop,city"}. quiet: False shows the log. Warnings of the training become Python's.
    Errors: InvalidError for bad data or configuration, or a model of other rows; Error otherwise.
    """
    near = pathlib.Path(model).absolute()
    if "://" in os.fspath(model):  # The configuration is in the working directory, not next to the model.
        near = pathlib.Path(_uri_name(model)).absolute()
    else:
        model = near
    with tempfile.TemporaryDirectory(prefix="simurgh-") as folder:
        is_path = isinstance(data, (str, os.PathLike))
        if is_path and pathlib.Path(data).suffix in (".yaml", ".yml"):
            config = pathlib.Path(data)
            if label is not None or init:
                raise InvalidError("label and init are for rows; this configuration names its label itself")
        else:
            rows = pathlib.Path(data) if is_path else _write(data, folder, "rows")
            config = near.with_name(near.name + ".yaml")
            options = {**({} if label is None else {"label": label}), **(init or {})}
            words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
            config.parent.mkdir(parents=True, exist_ok=True)
            # A model of other rows is an error of the training, which compares them.
            run("init", rows, "--output", config, "--force", *words, quiet=quiet)
        words = []
        for key, value in {"checkpoint.directory": str(model), **(settings or {})}.items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        words += [f"--{name}" for name, is_on in (("refit", refit), ("standalone", standalone)) if is_on]
        text = run("train", config, *words, quiet=quiet)
    for line in text.splitlines():
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), stacklevel=2)
    return result_of(text)


def predict(model, data, *, step=None, settings=None):
    """Predicts rows. Returns an array of float64: (rows) of one label, (rows, labels) of several; NaN for a bad row.

    model: a model's folder. data: a file in the format of the training data, or a table with its columns by name. step:
    number of a checkpoint, or "latest"; None: the best one, or else the newest. settings: see `train`.
    Errors: InvalidError for another model or bad rows; Error otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="simurgh-") as folder:
        rows = pathlib.Path(data) if isinstance(data, (str, os.PathLike)) else _write(data, folder, "rows")
        output = pathlib.Path(folder) / "predictions.csv"
        words = [] if step is None else ["--step", str(step)]
        for key, value in (settings or {}).items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        run("predict", "--model", model, "--input", rows, "--output", output, *words)
        with open(output, encoding="utf-8") as lines:
            columns = len(next(lines).split(","))
            values = [[float(cell) if cell else np.nan for cell in line.rstrip("\n").split(",")] for line in lines]
    array = np.array(values, np.float64).reshape(-1, columns)
    return array[:, 0] if columns == 1 else array


def importance(model, data, *, groups=(), rows=None, repeats=5, step=None, settings=None):
    """Returns how much worse a model predicts when the cells of a column are permuted among the rows of data with labels.

    The result is a dict of `simurgh predict --importance --json`: `columns` has a dict for each column that the model
    reads, the most important first, with its `effects` on the labels: `loss_increase` and `auc_decrease`, each with mean,
    standard_error and interval of 95 %. groups: lists of columns that are permuted together. rows: the most rows of the
    uniform sample; None: 1,000 to 50,000, by the number of columns. repeats: permutations of each column. The others: see
    `predict`. Errors: InvalidError for another model, rows without labels or an unknown column; Error otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="simurgh-") as folder:
        path = pathlib.Path(data) if isinstance(data, (str, os.PathLike)) else _write(data, folder, "rows")
        words = ["--repeats", str(repeats)]
        if groups:
            words += ["--groups", ",".join("+".join(group) for group in groups)]
        if rows is not None:
            words += ["--importance-rows", str(rows)]
        if step is not None:
            words += ["--step", str(step)]
        for key, value in (settings or {}).items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        return json.loads(run("predict", "--model", model, "--input", path, "--importance", "--json", *words))


def checkpoints(model):
    """Returns the checkpoints of a model, oldest first: dicts with step, metrics and others, as `simurgh model list`."""
    return json.loads(run("model", "list", model, "--json"))["checkpoints"]


def _uri_name(model):
    """Returns the last part of a URI's path, whose options are behind it or behind the bucket."""
    path, _, options = os.fspath(model).partition("?")
    return (options if "/" in options else path).rstrip("/").rpartition("/")[2]


def history(model):
    """Returns how the training of a model went: dicts with event ("progress", "validation" or "test"), step, time and
    numbers by name, in the order of the steps. See src/model/FORMAT.md. Empty for a model without a history.
    """
    if "://" in os.fspath(model):
        return [json.loads(line) for line in run("model", "history", model).splitlines()]
    path = pathlib.Path(model) / "history.jsonl"
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
