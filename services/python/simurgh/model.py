"""Trained models: predictions, the inputs of a network, rows by id."""

import ctypes
import dataclasses
import functools
import os
import threading

import numpy as np

from . import _library
from ._library import InvalidError
from .loader import pointer_of
from .result import result_of
from .worker import Memory, array_of, dense_of, inputs_of

_RESULT_BYTES = ctypes.sizeof(_library.Result)


class Features:
    """What a network reads of rows, as arrays that stay valid as long as they exist.

    dense: (rows, dense width); masks: by feature, (rows, rows of the feature); joined: (rows, embedding width), all
    features side by side; embeddings: by feature, (rows, dim), or (rows, rows of the feature, dim) of a raw one. A row
    that cannot be parsed is NaN. step: step of the model's version. bad_rows: number of rows that cannot be parsed.
    """

    def __init__(self, inputs, result):
        memory = Memory(result.memory)
        rows = result.rows
        self.step = result.step
        self.bad_rows = result.bad_rows
        self.dense, self.masks = dense_of(inputs, memory, result.dense, rows)
        self.joined = array_of(memory, result.embeddings, (rows, inputs.embedding_width))
        self._features = inputs.features

    @functools.cached_property
    def embeddings(self):
        rows = len(self.joined)
        return {
            feature.name: self.joined[:, feature.columns].reshape(
                (rows, feature.rows, feature.dim) if feature.rows > 1 else (rows, feature.dim)
            )
            for feature in self._features
        }


@dataclasses.dataclass(frozen=True)
class Version:
    """A checkpoint in a model's folder."""

    step: int
    seconds: int  # Time at which the step ended, in seconds since 1970; 0 if it cannot be read.
    parent: int  # Step of the checkpoint that a delta continues; None of a full one.
    used: bool  # The version in use.
    best: bool  # The training's best checkpoint.
    pinned: bool  # The file `pin` holds followers at it.
    problem: str  # Why it cannot be used, as far as a follower has tried or its manifest shows; else None.


def _ids_of(ids):
    """Returns ids as uint64. Errors: InvalidError for what are no integers from 0 to 2^64 - 1."""
    if not isinstance(ids, np.ndarray) and not hasattr(ids, "__array__"):
        ids = np.array(ids, object)  # An array of numbers would round mixed integers to floats.
    ids = np.asarray(ids)
    are_integers = ids.dtype.kind in "iu" or (ids.dtype.kind == "O" and set(map(type, ids.flat)) <= {int})
    if ids.ndim != 1 or (not are_integers and ids.size > 0):
        raise InvalidError(f"ids: shape {ids.shape} and type {ids.dtype}, expected one dimension of integers")
    if ids.size > 0 and not (0 <= ids.min() and ids.max() < 2**64):
        raise InvalidError(f"ids: from {ids.min()} to {ids.max()}, expected integers from 0 to 2^64 - 1")
    return np.ascontiguousarray(ids, np.uint64)


class Model:
    """A trained model in memory, with the feature processing of its training:

        model = simurgh.Model("clicks-model")
        probabilities = model.predict(frame)

    path: the model's folder. version: "latest" or a step; None or "best": the best checkpoint, or else the newest.
    follow: changes over to later ones of this kind, as `simurgh serve` does; a call uses one version. Calls are an
    InvalidError while that has other inputs or labels than the first one. overrides: texts "key=value",
    for vocabularies that are elsewhere. allow_plugins: runs the plug-ins, native code, that the model names.
    rows: "memory"; "mapped", for rows that stay in their files; or the addresses of processes row-server, "HOST:PORT,...",
    in the order of their --index. row_precision: "f32", as the model stores them; "bf16" or "int8", in memory or as they
    are sent. Overrides of serving, rpc and cluster.token_file are those of `simurgh serve`.
    Errors: InvalidError without a model, or for one that cannot be used here; Error for a damaged one, or for servers of
    rows that do not answer or lack the version after serving.request_timeout.
    Threads: any. Calls of several threads run at the same time.
    """

    def __init__(self, path, *, version=None, follow=False, overrides=(), allow_plugins=False, log_level=None,
                 rows="memory", row_precision="f32"):
        self._handle = None
        self._lock = threading.Lock()  # Of the handle, and of the number of calls that use it.
        self._calls = 0
        self._unused = threading.Event()  # Set at the end of the last call after the close.
        self.path = os.fspath(path)
        texts = [text.encode() for text in overrides]
        options = _library.ModelOptions(
            size=ctypes.sizeof(_library.ModelOptions),
            path=os.fsencode(path),
            version=None if version is None else str(version).encode(),
            overrides=(ctypes.c_char_p * len(texts))(*texts),
            override_count=len(texts),
            follows=int(follow),
            allows_plugins=int(allow_plugins),
            log_level=None if log_level is None else log_level.encode(),
            rows=rows.encode(),
            row_precision=row_precision.encode(),
        )
        handle = ctypes.c_void_p()
        _library.check(_library.LIBRARY.simurgh_model_open(options, handle))
        self._handle = handle
        self.inputs = inputs_of(_library.LIBRARY.simurgh_model_inputs, handle)

    @property
    def step(self):
        """The step of the version in use."""
        step = ctypes.c_uint64()
        self._call(_library.LIBRARY.simurgh_model_step, step)
        return step.value

    def versions(self):
        """Returns the checkpoints in the model's folder, oldest first: a list of Version.

        The version in use may be missing: training removes old ones, and the model keeps what it has loaded.
        Errors: InvalidError if the folder is gone.
        """
        found = _library.Checkpoints(size=ctypes.sizeof(_library.Checkpoints))
        self._call(_library.LIBRARY.simurgh_model_versions, found)
        memory = Memory(found.memory)
        versions = [
            Version(
                step=one.step,
                seconds=one.seconds,
                parent=one.parent if one.is_delta else None,
                used=one.is_used != 0,
                best=one.is_best != 0,
                pinned=one.is_pinned != 0,
                problem=None if one.problem is None else one.problem.decode("utf-8", "replace"),
            )
            for one in found.checkpoints[: found.count]
        ]
        del memory  # It owns the array until here.
        return versions

    def predict(self, table):
        """Predicts rows. Returns (rows) float32 of one label, (rows, labels) of several; NaN for a bad row.

        table: an object with the Arrow C stream interface (pyarrow, polars, pandas, duckdb), or a dict of arrays or lists,
        with the columns of the training data by name; those of labels may be missing. Probabilities are calibrated as
        `simurgh predict` does.
        Errors: InvalidError for a missing column or another type, or if a program has the network.
        """
        result = self._read(_library.LIBRARY.simurgh_model_predict, table)
        labels = len(self.inputs.labels)
        array = array_of(Memory(result.memory), result.outputs, (result.rows, labels))
        return array[:, 0] if labels == 1 else array

    def evaluate(self, table, outputs=None):
        """Compares predictions of rows with their labels. Returns numbers by name, as `simurgh predict --evaluate` prints
        them, such as test_auc and test_logloss.

        table: see predict; it has the labels. outputs: (rows) or (rows, labels) of a network of one's own for all rows, as
        in training, which are calibrated here; None: the network of the configuration predicts.
        Errors: InvalidError for missing labels, another shape, or a good row whose output is not finite.
        """
        if outputs is not None:
            outputs = np.ascontiguousarray(outputs, np.float32)
        capsule, pointer = pointer_of(table)
        found = _library.Evaluation(size=ctypes.sizeof(_library.Evaluation))
        address, count = (None, 0) if outputs is None else (outputs.ctypes.data, outputs.size)
        self._call(_library.LIBRARY.simurgh_model_evaluate, pointer, address, count, found)
        del capsule  # It owns the stream until here.
        memory = Memory(found.memory)
        numbers = result_of(found.text.decode())
        del memory  # It owns the text until here.
        return numbers

    def vectors(self, table, tower="item"):
        """Returns the vectors of a model of two towers, (rows, width) float32; NaN for a bad row.

        The dot product of a user's and an item's vector is what predict() gives for both. table: see predict; it may
        lack columns that only the other tower reads. tower: "item" or "user".
        Errors: InvalidError for a missing column or another model.
        """
        capsule, pointer = pointer_of(table)
        found = _library.Vectors(size=ctypes.sizeof(_library.Vectors))
        self._call(_library.LIBRARY.simurgh_model_vectors, pointer, tower.encode(), found)
        del capsule  # It owns the stream until here.
        return array_of(Memory(found.memory), found.vectors, (found.rows, found.width))

    def recommend(self, table, k=10, *, exclude=(), filter=None, items=None, item_id=None):
        """Finds the best items for users by a model of two towers, as `simurgh serve` does. Returns (ids, scores).

        ids: (rows, k) texts, the best item first; None where there are fewer, and in a bad row. scores: (rows, k) float32,
        what predict() gives for the user and the item; else NaN. table: the users; see predict. It may lack columns that
        only the item's tower reads. exclude: ids of items that are left out. filter: a value or a list of values by
        column, as the file of items has them; all columns must fit. items: file of items, or a list of files; None: the
        model's data.items. item_id: column that names items; None: that of data.items. The vectors of the items are kept
        until the version or a file changes.
        Errors: InvalidError for a value out of range, an unknown column, another model, or without items.
        """
        files = [] if items is None else [items] if isinstance(items, (str, os.PathLike)) else list(items)
        pairs = [
            (column, value)
            for column, values in (filter or {}).items()
            # A column without values fits no item.
            for value in ([values] if isinstance(values, (str, int, float)) else list(values) or [None])
        ]
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 < k < 2**63:
            raise InvalidError(f"k: {k!r} is out of range; use 1 to 10000")
        texts = [
            [os.fsencode(file) for file in files],
            [str(one).encode() for one in exclude],
            [str(column).encode() for column, _ in pairs],
            [None if value is None else str(value).encode() for _, value in pairs],
        ]
        arrays = [(ctypes.c_char_p * len(one))(*one) for one in texts]
        options = _library.RecommendOptions(
            size=ctypes.sizeof(_library.RecommendOptions), k=int(k), items=arrays[0], item_count=len(texts[0]),
            item_id=None if item_id is None else item_id.encode(), exclude=arrays[1], exclude_count=len(texts[1]),
            filter_columns=arrays[2], filter_values=arrays[3], filter_count=len(texts[2]),
        )
        capsule, pointer = pointer_of(table)
        found = _library.Recommendations(size=ctypes.sizeof(_library.Recommendations))
        self._call(_library.LIBRARY.simurgh_model_recommend, pointer, options, found)
        del capsule  # It owns the stream until here.
        memory = Memory(found.memory)
        ids = np.array([id and id.decode() for id in found.ids[: found.rows * found.k]], object)
        return ids.reshape(found.rows, found.k), array_of(memory, found.scores, (found.rows, found.k))

    def features(self, table):
        """Returns the Features of rows: what a network of one's own predicts with. table: see predict."""
        return Features(self.inputs, self._read(_library.LIBRARY.simurgh_model_features, table))

    def rows(self, feature, ids):
        """Returns (weights, found) of a feature's rows by id: (ids, dim) float32, zeros for an id without a row, and (ids)
        booleans. ids: integers from 0 to 2^64 - 1, as `simurgh export embeddings` has them.
        """
        dim = self.inputs.dims.get(feature)
        if dim is None:
            raise InvalidError(f"feature '{feature}' is not in the model; its features: {', '.join(self.inputs.dims)}")
        ids = _ids_of(ids)
        weights = np.empty((len(ids), dim), np.float32)
        found = np.empty(len(ids), np.uint8)
        name = feature.encode()
        self._call(
            _library.LIBRARY.simurgh_model_rows, name, ids.ctypes.data, len(ids), weights.ctypes.data, found.ctypes.data
        )
        return weights, found.astype(bool)

    def _read(self, function, table):
        capsule, pointer = pointer_of(table)
        result = _library.Result(size=_RESULT_BYTES)
        self._call(function, pointer, result)
        del capsule  # It owns the stream until here.
        return result

    def _call(self, function, *arguments):
        with self._lock:
            handle = self._handle
            if handle is None:
                raise InvalidError("the model is closed; open it again")
            self._calls += 1
        try:
            _library.check(function(handle, *arguments))
        finally:
            with self._lock:
                self._calls -= 1
                if self._calls == 0 and self._handle is None:
                    self._unused.set()

    def close(self):
        """Frees the model, once calls of other threads have ended. Arrays that it has returned stay valid."""
        with self._lock:
            handle, self._handle = self._handle, None
            if self._calls == 0:
                self._unused.set()
        if handle is not None:
            self._unused.wait()
            _library.check(_library.LIBRARY.simurgh_model_close(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            _library.LIBRARY.simurgh_model_close(self._handle)
