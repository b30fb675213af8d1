"""Feeds a training with rows that this program makes."""

import concurrent.futures
import ctypes
import os

import numpy as np

from . import _library
from ._columns import Columns, columns_of
from ._library import InvalidError
from .worker import inputs_of

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_WAIT_S = 0.2  # Python handles signals between two waits.


class Loader:
    """A loader of a training, in place of a process simurgh-feed:

        with simurgh.Loader("clicks.yaml", index=0) as loader:
            for table in tables_from_row(loader.rows):
                if not loader.feed(table):
                    break

    The configuration lists it in loaders.instances. Without data.train, `simurgh train` starts no simurgh-feed, and
    programs feed. Below `simurgh train CONFIG -- PROGRAM`, processes that the program starts join its training.

    Training has each row once. Batches are cut from the sequence of rows, whatever the sizes of tables. A training
    that continues from a checkpoint has had the first `rows` rows: make the same rows again, in the same order, from
    there on. At the end of the `with` block the last rows are fed and the share ends; an exception that leaves it makes
    training fail with its text.

    config, overrides, log_level: as of Worker. index: index into loaders.instances.
    Errors: InvalidError for the configuration, or settings that differ from the trainer's; LostError if the trainer
    was lost.
    Threads: one at a time.
    """

    def __init__(self, config=None, index=0, *, overrides=(), log_level=None):
        self._handle = None
        texts = [text.encode() for text in overrides]
        options = _library.LoaderOptions(
            size=ctypes.sizeof(_library.LoaderOptions),
            config_path=None if config is None else os.fsencode(config),
            overrides=(ctypes.c_char_p * len(texts))(*texts),
            override_count=len(texts),
            index=index,
            log_level=None if log_level is None else log_level.encode(),
        )
        handle = ctypes.c_void_p()
        _library.check(_library.LIBRARY.simurgh_loader_open(options, handle))
        self._handle = handle
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self.inputs = inputs_of(_library.LIBRARY.simurgh_loader_inputs, handle)
        rows = ctypes.c_uint64()
        _library.check(_library.LIBRARY.simurgh_loader_rows(handle, rows))
        self._rows = rows.value

    @property
    def rows(self):
        """The number of this loader's first rows that training has had. Feed the rows after them."""
        return self._rows

    def feed(self, table):
        """Feeds the rows of a table of raw columns, which are processed as those of files.

        table: an object with the Arrow C stream interface (pyarrow, polars, pandas from 2.2 on, duckdb), with the columns of
        data.columns by name. Waits while the trainer is busy. Returns False if training needs no more rows.
        """
        _capsule, pointer = pointer_of(table)
        return self._feed(_library.LIBRARY.simurgh_loader_feed_table, pointer)

    def feed_ids(self, features, dense=None, labels=None, weights=None):
        """Feeds samples with ready ids.

        features: by the name of each feature, an array of ids (B), or (offsets, ids) or (offsets, ids, weights):
        offsets (B + 1) ascend from 0, and sample i has ids[offsets[i]:offsets[i + 1]]; a missing feature has no ids.
        ids: integers from 0 to 2^64 - 1. dense: (B, dense width). labels: (B) or (B, labels), NaN where unknown.
        weights: (B) of the samples. Otherwise as `feed`.
        """
        names = [feature.name for feature in self.inputs.features]
        unknown = sorted(set(features) - set(names))
        if unknown:
            raise InvalidError(f"feature '{unknown[0]}' is not in the configuration; its features: {', '.join(names)}")
        if labels is None:
            raise InvalidError("labels are missing; NaN stands for a label that is not known")
        labels = np.ascontiguousarray(labels, np.float32).reshape(-1, len(self.inputs.labels))
        rows = len(labels)
        keep = []  # What the C structs refer to.

        def address(array, dtype, shape, what):
            if array is None:
                return None
            array = np.ascontiguousarray(array)
            kinds, expected = ("iu", "integers") if dtype == np.uint64 else ("fiub", "numbers")
            if array.dtype.kind not in kinds and array.size > 0:
                raise InvalidError(f"{what}: has the type {array.dtype}, expected {expected}")
            if array.shape != shape:
                raise InvalidError(f"{what}: has the shape {array.shape}, expected {shape}")
            if dtype == np.uint64 and array.dtype.kind == "i" and array.size > 0 and array.min() < 0:
                raise InvalidError(f"{what}: has {array.min()}, expected integers from 0 to 2^64 - 1")
            array = array.astype(dtype, copy=False)
            keep.append(array)
            return array.ctypes.data

        ids = (_library.Ids * len(names))()
        for slot, name in zip(ids, names):
            given = features.get(name)
            if given is None:
                given = (np.zeros(rows + 1, np.uint64), np.zeros(0, np.uint64))
            if not isinstance(given, tuple):
                slot.ids = address(given, np.uint64, (rows,), f"feature '{name}'")
                continue
            if len(given) not in (2, 3):
                raise InvalidError(
                    f"feature '{name}': a tuple of {len(given)}, expected (offsets, ids) or (offsets, ids, weights)"
                )
            offsets, values, *of_ids = given
            count = int(offsets[-1]) if len(offsets) > 0 else 0
            slot.offsets = address(offsets, np.uint64, (rows + 1,), f"offsets of feature '{name}'")
            slot.ids = address(values, np.uint64, (count,), f"ids of feature '{name}'")
            if of_ids:
                slot.weights = address(of_ids[0], np.float32, (count,), f"weights of feature '{name}'")
        width = self.inputs.dense_width
        if dense is None and width > 0:
            raise InvalidError(f"dense is missing, expected ({rows}, {width})")
        samples = _library.Samples(
            size=ctypes.sizeof(_library.Samples),
            rows=rows,
            features=ids,
            dense=address(dense, np.float32, (rows, width), "dense") if width > 0 else None,
            labels=address(labels, np.float32, labels.shape, "labels"),
            weights=address(weights, np.float32, (rows,), "weights"),
        )
        return self._feed(_library.LIBRARY.simurgh_loader_feed_samples, samples)

    def _feed(self, function, rows):
        wanted = ctypes.c_int()
        self._call(lambda: function(self._require(), rows, wanted))
        return wanted.value != 0

    def _call(self, function):
        """Calls a function that may wait, in a thread, so that a signal can end the wait."""

        def call():
            code = function()
            _library.check(code)

        done = self._pool.submit(call)
        try:
            while True:
                try:
                    return done.result(_WAIT_S)
                except concurrent.futures.TimeoutError:
                    if done.done():
                        raise
        except KeyboardInterrupt:
            _library.LIBRARY.simurgh_loader_stop(self._handle)
            concurrent.futures.wait([done])
            raise

    def _require(self):
        if self._handle is None:
            raise InvalidError("the loader is closed; open another one to feed again")
        return self._handle

    def end(self):
        """Feeds the last rows and ends the share. The `with` block does it."""
        self._call(lambda: _library.LIBRARY.simurgh_loader_end(self._require()))

    def abandon(self, reason):
        """Makes training fail with a reason: the rest of the rows cannot be fed."""
        self._call(lambda: _library.LIBRARY.simurgh_loader_abandon(self._require(), reason.encode()))

    def close(self):
        """Ends the loader. A share that has not ended can be fed on by a new process within loaders.timeout."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        self._pool.shutdown()
        _library.check(_library.LIBRARY.simurgh_loader_close(handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _traceback):
        try:
            if error is None:
                self.end()
            elif isinstance(error, Exception) and not isinstance(error, _library.LostError):
                try:
                    self.abandon(f"{kind.__name__}: {error}")
                except _library.Error:
                    pass  # The exception has the cause.
        finally:
            self.close()


def _is_pandas(table):
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "iloc")


def stream_of(table):
    """Returns the capsule of a table's Arrow C stream."""
    if not hasattr(table, "__arrow_c_stream__") and _is_pandas(table):
        import pyarrow

        table = pyarrow.Table.from_pandas(table, preserve_index=False)
    if not hasattr(table, "__arrow_c_stream__"):
        raise InvalidError(
            f"{type(table).__name__} has no Arrow stream (__arrow_c_stream__); give a table of pyarrow, polars, pandas or "
            "duckdb"
        )
    return table.__arrow_c_stream__()


def pointer_of(table):
    """Returns (owner, address) of a table's Arrow C stream, which is valid as long as the owner exists."""
    if isinstance(table, dict):
        table = Columns(columns_of(table))
    if isinstance(table, Columns):
        return table.stream()
    try:
        export = getattr(table, "__arrow_c_stream__", None)
        capsule = stream_of(table) if export is None else export()
    except ImportError:  # pandas makes streams by pyarrow.
        if not _is_pandas(table):
            raise
        return Columns(columns_of(table)).stream()
    return capsule, ctypes.c_void_p(_pointer_in(capsule, b"arrow_array_stream"))
