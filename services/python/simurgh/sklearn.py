"""Estimators of scikit-learn: see "scikit-learn" in the README of this package's folder."""

import contextlib
import io
import itertools
import json
import os
import pathlib
import re
import shlex
import tarfile
import tempfile
import threading
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_array, check_random_state
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from ._columns import Columns, column_of, columns_of, write_csv
from ._library import Error, InvalidError
from .model import Model
from .programs import history, run
from .result import result_of

__all__ = ["EXPECTED_FAILED_CHECKS", "SimurghClassifier", "SimurghRegressor"]

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": "batches are random, so that a weight of 2 is not a repeated row",
    "check_methods_subset_invariance": "numbers are float32, and their sums depend on the rows that are predicted together",
    "check_sample_weights_invariance": "batches are random, so that a weight of 0 is not a row left out",
}
"""scikit-learn's checks that the estimators do not pass, with the reasons."""


class _Folder:
    """The bytes of a trained model's folder, and the model that they were opened as. Pickles have the bytes."""

    def __init__(self, path):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(path, arcname=".")
        self._bytes = packed.getvalue()
        self._forget()

    def _forget(self):
        self._lock = threading.Lock()
        self._process = None  # The one that has opened `_model`.
        self._model = None

    def __getstate__(self):
        return {"bytes": self._bytes}

    def __setstate__(self, state):
        self._bytes = state["bytes"]
        self._forget()

    def write(self, path):
        """Writes the folder. Its parent must exist."""
        with tarfile.open(fileobj=io.BytesIO(self._bytes)) as archive:
            archive.extractall(path)

    def open(self):
        """Returns the Model."""
        with self._lock:
            if self._process != os.getpid():  # The library does not serve a process that has been forked.
                with tempfile.TemporaryDirectory(prefix="simurgh-") as folder:
                    self.write(folder)
                    self._model = Model(folder, log_level="error")
                self._process = os.getpid()
            return self._model


def _is_frame(rows):
    return hasattr(rows, "columns") and (hasattr(rows, "iloc") or hasattr(rows, "get_column"))


def _names_of(names):
    """Returns names of columns for files: the given ones if they are texts that CSV and configurations can have."""
    are_plain = all(isinstance(name, str) and name.strip() and not re.search(r"[,;|:\t\r\n\"\0]", name) for name in names)
    if are_plain and len({name.casefold().strip() for name in names}) == len(names):
        return list(names)
    return [f"x{place}" for place in range(len(names))]


def _free(name, taken):
    taken = {one.casefold().strip() for one in taken}
    while name.casefold() in taken:
        name += "_"
    return name


@contextlib.contextmanager
def _as_value_errors():
    """Passes InvalidError on as ValueError, as scikit-learn's estimators do."""
    try:
        yield
    except InvalidError as error:
        raise ValueError(str(error)) from error


def _checked_array(rows):
    words = {"dtype": None, "ensure_all_finite": False}
    try:
        return check_array(rows, **words)
    except TypeError as error:
        if "ensure_all_finite" not in str(error):
            raise
    return check_array(rows, dtype=None, force_all_finite=False)  # Before 1.6.


def _checked_weights(weights, count):
    weights = np.asarray(column_or_1d(np.asarray(weights), warn=False), np.float64)
    if len(weights) != count:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(count,)}!")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight has negative weights, or some that are not finite; use numbers of at least 0")
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for all rows; give some rows a greater one")
    return weights


def _pair_of(eval_set):
    """Returns the (X, y) of an eval_set: a pair, or a list of one."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
        raise ValueError("eval_set is no (X, y), and no list of one; give one pair")
    check_consistent_length(*eval_set)
    return eval_set


def _checked_labels(y):
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    return column_or_1d(y, warn=True)


def _checked_numbers(y):
    numbers = np.asarray(_checked_labels(y))
    if numbers.dtype.kind not in "biuf":
        numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("Input y contains NaN or infinity; leave these rows out")
    return numbers.astype(np.float64)


def _left_out(text):
    """Returns options that make features of columns that `simurgh init` took for other labels. text: the configuration.

    In X, unlike in a file, no column is a label or known only after it.
    """
    found = re.findall(r"(?m)^ *# (?:looks like a second label|predicts the label nearly alone).*; as a feature: (--\w+ .*)$", text)
    return [word for one in found for word in shlex.split(one.partition("; as a task: ")[0])]


def _kinds_of(columns):
    """Returns options of `simurgh init` that use all columns."""
    words = []
    for name, column in columns.items():
        is_dense = not isinstance(column, list) and column.dtype.kind == "f" and (column % 1 != 0).any()
        words += ["--dense" if is_dense else "--id", name]
    return words


class _Estimator(BaseEstimator):
    def __init__(
        self,
        *,
        epochs=None,
        batch_size=None,
        dim=None,
        learning_rate=None,
        embedding_learning_rate=None,
        patience=None,
        refit=True,
        random_state=None,
        init=None,
        settings=None,
        verbose=False,
    ):
        self.epochs = epochs
        self.batch_size = batch_size
        self.dim = dim
        self.learning_rate = learning_rate
        self.embedding_learning_rate = embedding_learning_rate
        self.patience = patience
        self.refit = refit
        self.random_state = random_state
        self.init = init
        self.settings = settings
        self.verbose = verbose

    # --- What the estimators are for scikit-learn.

    def __sklearn_tags__(self):  # From 1.6 on.
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _more_tags(self):  # Until 1.5.
        return {
            "allow_nan": True,
            "binary_only": is_classifier(self),
            "X_types": ["2darray", "string"],
            "_xfail_checks": EXPECTED_FAILED_CHECKS,
        }

    def _columns(self, rows, reset):
        """Checks rows. Returns their columns by the names that the model has."""
        if not _is_frame(rows):
            rows = _checked_array(rows)
        if hasattr(validation, "_check_feature_names"):
            validation._check_feature_names(self, rows, reset=reset)
            validation._check_n_features(self, rows, reset=reset)
        else:
            self._check_feature_names(rows, reset=reset)
            self._check_n_features(rows, reset=reset)
        if _is_frame(rows):
            if len(rows) == 0:
                raise ValueError(f"Found array with 0 sample(s) (shape={rows.shape}) while a minimum of 1 is required.")
            if rows.shape[1] == 0:
                raise ValueError(f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
            given = list(columns_of(rows).values()) if len(set(rows.columns)) == rows.shape[1] else None
            if given is None:
                raise ValueError("two columns of X have the same name; rename one of them")
            names = _names_of(list(rows.columns))
        else:
            given = [column_of(rows[:, place]) for place in range(rows.shape[1])]
            names = _names_of(range(rows.shape[1]))
        for column in given:
            if not isinstance(column, list) and column.dtype.kind == "f" and np.isinf(column).any():
                raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
        if reset:
            self._names = names
        return dict(zip(self._names, given))  # Names that differ have been an error, or a warning for an array.

    # --- Training

    def _train(self, rows, labels, sample_weight, eval_set, eval_labels, label):
        columns = self._columns(rows, reset=True)
        count = len(labels)
        check_consistent_length(next(iter(columns.values())), labels)
        if count < 2:
            raise ValueError(f"n_samples={count}: at least 2 rows are needed to train")
        weights = None
        if sample_weight is not None:
            weights = _checked_weights(sample_weight, count)
            kept = weights > 0
            weights, labels = weights[kept], labels[kept]
            columns = {
                name: type(column)(itertools.compress(column, kept)) if isinstance(column, list) else column[kept]
                for name, column in columns.items()
            }
        if len(np.unique(labels)) < 2:
            what = "class" if is_classifier(self) else "value"
            raise ValueError(f"y has one {what} in the rows that have a weight above zero; at least two are needed")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        label = _free(label or "label", columns)
        weight = _free("weight", [*columns, label])
        with tempfile.TemporaryDirectory(prefix="simurgh-") as name, _as_value_errors():
            folder = pathlib.Path(name)

            def write(path, columns, labels, weights):
                table = {label: labels, **({} if weights is None else {weight: weights}), **columns}
                write_csv(folder / path, table)

            write("rows.csv", columns, labels, weights)
            words = ["--label", label, *([] if weights is None else ["--weight", weight])]
            for option, value in (self.init or {}).items():
                words += [f"--{option}", ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
            # With a file for tests, no row of training is left out for them.
            config = folder / "model.yaml"
            words = ["init", folder / "rows.csv", "--test", folder / "rows.csv", "--output", config, *words]
            try:
                run(*words)
            except InvalidError as error:
                if "no column to learn from" not in str(error):
                    raise
                run(*words, "--force", *_kinds_of(columns))
            text = config.read_text(encoding="utf-8")
            if left := _left_out(text):
                run(*words, "--force", *left)
                text = config.read_text(encoding="utf-8")
            settings = {
                "cluster.seed": seed,
                "data.test": [],
                "nn_worker.instances": [{}],
                "checkpoint.directory": str(folder / "model"),
                "checkpoint.keep": 1,
                **self._settings(text),
            }
            if not is_classifier(self) and len(np.unique(labels)) == 2:  # `init` takes them for classes.
                settings.update({"data.columns.0": {"name": label, "kind": "label"}, "model.loss.kind": "squared_error"})
            has_validation = "\n  validation: [" in text
            both = [str(path) for path in (folder / "model.train.csv", folder / "model.valid.csv") if path.exists()]
            stops = self.patience != 0 and (eval_set is not None or has_validation)
            if eval_set is not None:
                of_eval = self._columns(eval_set[0], reset=False)
                write("eval.csv", of_eval, eval_labels, None if weights is None else np.ones(len(eval_labels)))
                settings.update({"data.train": both, "data.validation": [str(folder / "eval.csv")]})
            elif not stops:
                settings.update({"data.train": both, "data.validation": []})
            if self.patience == 0:
                if self.epochs is None:
                    raise ValueError("patience=0 trains all epochs, but epochs is None; give their number")
                settings["training.early_stopping"] = {"patience": 0}
            elif self.patience is not None and stops:
                settings["training.early_stopping.patience"] = self.patience
            settings["training.evaluate_every_epochs"] = int(stops or eval_set is not None)
            settings.update(self.settings or {})
            words = ["--standalone", *(["--refit"] if self.refit and stops and eval_set is None else [])]
            for key, value in settings.items():
                words += ["--set", f"{key}={json.dumps(value)}"]
            text = run("train", config, *words, quiet=not self.verbose)
            for line in text.splitlines():
                if line.startswith("warning: "):
                    warnings.warn(line[len("warning: ") :], stacklevel=3)
            self.result_ = result_of(text)
            trial = folder / "model-trial"
            self.history_ = history(trial if trial.exists() else folder / "model")
            self._model = _Folder(folder / "model")
        return self

    def _settings(self, text):
        """Returns the keys of the configuration that the parameters set. text: the configuration."""
        settings = {}
        if self.epochs is not None:
            settings["training.epochs"] = self.epochs
        if self.batch_size is not None:
            settings["training.batch_size"] = self.batch_size
        if self.learning_rate is not None:
            settings["training.dense_optimizer.learning_rate"] = self.learning_rate
        # The other tables have the weights of the first order.
        for place, dim in enumerate(re.findall(r"(?m)^    dim: (\d+)$", text)):
            if dim == "1":
                continue
            if self.dim is not None:
                settings[f"tables.{place}.dim"] = self.dim
            if self.embedding_learning_rate is not None:
                settings[f"tables.{place}.optimizer.learning_rate"] = self.embedding_learning_rate
        return settings

    # --- The trained model

    def _predict(self, rows):
        """Returns (rows) float64."""
        check_is_fitted(self, "_model")
        columns = self._columns(rows, reset=False)
        with _as_value_errors():
            found = self._model.open().predict(Columns(columns)).astype(np.float64)
        bad = np.flatnonzero(np.isnan(found))
        if len(bad) > 0:
            raise ValueError(f"row {bad[0]} of X, and {len(bad) - 1} more: a column of numbers has a text; see the log")
        return found

    def model(self):
        """Returns the simurgh.Model: its features, rows and predictions."""
        check_is_fitted(self, "_model")
        return self._model.open()

    def save(self, path):
        """Writes the model's folder for `simurgh serve`, `simurgh predict`, simurgh.Model and others.

        path: a folder that does not exist, or is empty. Its columns have the names of the frame of `fit`, or x0, x1 and so
        on. Errors: InvalidError if the folder has files.
        """
        check_is_fitted(self, "_model")
        if "://" in os.fspath(path):
            raise InvalidError(f"{path}: name a folder; `simurgh model merge FOLDER {path}` copies it into a bucket")
        folder = pathlib.Path(path)
        if folder.exists() and any(folder.iterdir()):
            raise InvalidError(f"{folder}: is there, and has files; remove it, or use another path")
        folder.mkdir(parents=True, exist_ok=True)
        self._model.write(folder)


class SimurghClassifier(ClassifierMixin, _Estimator):
    """A classifier of two classes: embeddings and a deep network, as `simurgh init` configures them for the data.

        classifier = SimurghClassifier(random_state=1).fit(frame, clicked)
        probabilities = classifier.predict_proba(frame)[:, 1]

    X: (rows, columns): a frame of pandas or polars with texts, numbers, dates, lists, categories and missing cells; or an
    array. y: two values; OneVsRestClassifier has more classes. `simurgh init` decides which columns are ids, numbers or
    both. A column without information is not read.

    Training takes 1 of 5 rows to find the number of epochs, and then trains anew with all rows. With an eval_set it trains
    once, without these rows.

    epochs: the most epochs; None: chosen by the number of rows. batch_size: rows of a step. dim: numbers of an embedding.
    learning_rate, embedding_learning_rate: of the network, of the embeddings. patience: epochs without a better result
    that end training; 0: trains all epochs, with all rows. refit: False keeps the model that was trained without the
    validation rows, in half of the time. random_state: equal numbers give equal models. init: options of `simurgh init`,
    such as {"id": ["zip"], "dense": ["age"], "skip": ["note"]}. settings: keys of the configuration, such as
    {"model": "dlrm"}. verbose: True shows the log of the training. None: as `simurgh init` chooses.

    classes_, n_features_in_, feature_names_in_: as of all classifiers. result_: numbers of the training by name.
    history_: its reports, see simurgh.history. EXPECTED_FAILED_CHECKS of this module lists the checks of scikit-learn
    that do not pass.
    Errors: ValueError for bad data or parameters; simurgh.Error otherwise.
    Threads: predictions run at the same time.
    """

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Trains. sample_weight: (rows), at least 0. eval_set: (X, y), rows to stop training by. Returns self."""
        label = getattr(y, "name", None)
        y = _checked_labels(y)
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Unknown label type: {kind}")
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. y has {len(classes)} classes; "
                "sklearn.multiclass.OneVsRestClassifier trains a classifier for each"
            )
        if len(classes) < 2:
            raise ValueError(f"y has {len(classes)} class; at least two are needed")
        eval_labels = None
        if eval_set is not None:
            eval_set = _pair_of(eval_set)
            given = _checked_labels(eval_set[1])
            others = np.setdiff1d(given, classes)
            if len(others) > 0:
                raise ValueError(f"eval_set has the class {others[0]}, which y does not have")
            eval_labels = np.searchsorted(classes, given)
        self.classes_ = classes
        return self._train(X, labels, sample_weight, eval_set, eval_labels, label if isinstance(label, str) else None)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def predict_proba(self, X):
        """Returns (rows, 2) probabilities, in the order of classes_."""
        positive = self._predict(X)
        return np.stack([1 - positive, positive], 1)

    def predict(self, X):
        """Returns (rows) the more probable class of each row."""
        places = (self._predict(X) > 0.5).astype(int)
        return self.classes_[places]

    def decision_function(self, X):
        """Returns (rows) log odds of the second class."""
        positive = np.clip(self._predict(X), 1e-12, 1 - 1e-12)
        return np.log(positive) - np.log1p(-positive)


class SimurghRegressor(RegressorMixin, _Estimator):
    """A regressor of the squared error, which is otherwise as SimurghClassifier:

        prices = SimurghRegressor(random_state=1).fit(frame, price).predict(later)

    y: at least two different numbers. Training scales them, and predictions are in their unit. n_features_in_,
    feature_names_in_, result_, history_, errors and threads: as of SimurghClassifier.
    """

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Trains. sample_weight: (rows), at least 0. eval_set: (X, y), rows to stop training by. Returns self."""
        label = getattr(y, "name", None)
        labels = _checked_numbers(y)
        eval_labels = None
        if eval_set is not None:
            eval_set = _pair_of(eval_set)
            eval_labels = _checked_numbers(eval_set[1])
        return self._train(X, labels, sample_weight, eval_set, eval_labels, label if isinstance(label, str) else None)

    def predict(self, X):
        """Returns (rows) predictions, in the unit of y."""
        return self._predict(X)
