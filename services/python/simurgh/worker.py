"""A rank of a training whose dense network is this program's."""

import ctypes
import dataclasses
import functools
import os
import signal
import threading
import traceback
import weakref

import numpy as np

from . import _library, state
from ._library import Error, InvalidError
from .result import result_of

_WAIT_MS = 100  # Python handles signals between two waits.


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature's columns of the embeddings.

    A pooled feature has `width` == `dim` columns. A raw feature has `rows` rows of `dim` columns each.
    """

    name: str
    first_column: int
    width: int
    dim: int
    rows: int
    mask_width: int
    first_mask_column: int

    @property
    def columns(self):
        """The feature's columns as a slice."""
        return slice(self.first_column, self.first_column + self.width)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the network reads and predicts."""

    features: tuple
    embedding_width: int
    dense_columns: tuple  # Names, without those of masks.
    labels: tuple  # Names.
    losses: tuple  # One per label: "bce", "focal", "squared_error" or "poisson".
    batch_size: int  # Most samples of a batch.
    rank: int
    ranks: int
    saves: bool  # The training has a folder for its model.
    predicts: bool  # The training evaluates or saves, so that it asks for predictions.
    weighs: bool  # The samples have weights.

    @property
    def dims(self):
        """The dims of the features, by name."""
        return {feature.name: feature.dim for feature in self.features}

    @functools.cached_property
    def masked(self):
        """The features with a mask."""
        return [feature for feature in self.features if feature.mask_width > 0]

    @property
    def dense_width(self):
        """The number of dense columns, without masks."""
        return len(self.dense_columns)


def inputs_of(function, handle):
    """Returns the inputs that a function of the library describes."""
    raw = _library.Inputs(size=ctypes.sizeof(_library.Inputs))
    _library.check(function(handle, raw))
    features = tuple(
        Feature(
            one.name.decode(),
            one.first_column,
            one.width,
            one.dim,
            one.width // one.dim,
            one.mask_width,
            one.first_mask_column,
        )
        for one in raw.features[: raw.feature_count]
    )
    masks = sum(feature.mask_width for feature in features)
    return Inputs(
        features=features,
        embedding_width=raw.embedding_width,
        dense_columns=tuple(name.decode() for name in raw.dense_columns[: raw.dense_width - masks]),
        labels=tuple(name.decode() for name in raw.labels[: raw.label_count]),
        losses=tuple(name.decode() for name in raw.losses[: raw.label_count]),
        batch_size=raw.batch_size,
        rank=raw.rank,
        ranks=raw.ranks,
        saves=raw.saves != 0,
        predicts=raw.predicts != 0,
        weighs=raw.weighs != 0,
    )


def _floats(values, what):
    """Returns numbers as a float32 array without gaps."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        kind = type(values).__name__ if array.dtype.kind == "O" else array.dtype
        raise InvalidError(f"{what} have the type {kind}, expected floating-point numbers")
    return np.ascontiguousarray(array, np.float32)


def outputs_of(outputs, rows, labels):
    """Returns a network's outputs as a float32 array. Errors: InvalidError for another shape or type."""
    array = _floats(outputs, "outputs")
    if array.shape != (rows, labels) and (array.shape != (rows,) or labels > 1):
        raise InvalidError(
            f"outputs have the shape {array.shape}, expected ({rows}, {labels}): one for each sample and label"
        )
    return array


def arrays_of(saved):
    """Returns the tensors of a simurgh_state as arrays by name."""
    arrays = {}
    for tensor in saved.tensors[: saved.tensor_count]:
        shape = tuple(tensor.shape[: tensor.dimensions])
        dtype = np.dtype(state.dtype_name(tensor.dtype))
        count = int(np.prod(shape, dtype=np.int64))
        raw = ctypes.string_at(tensor.data, count * dtype.itemsize) if count > 0 else b""
        arrays[tensor.name.decode()] = np.frombuffer(bytearray(raw), dtype).reshape(shape)
    return arrays


class Memory:
    """Owns the arrays of a task until the last of them is gone."""

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        _library.LIBRARY.simurgh_memory_release(self._handle)


class _Array:
    def __init__(self, memory, address, shape):
        self.memory = memory
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "data": (address, False), "shape": shape}


def array_of(memory, address, shape):
    if address is None or 0 in shape:
        return np.zeros(shape, np.float32)
    return np.asarray(_Array(memory, address, shape))


def dense_of(inputs, memory, address, rows):
    """Returns (dense, masks): the dense columns of a task or result, and by feature those of its mask."""
    width = inputs.dense_width
    masked = inputs.masked
    if not masked:
        return array_of(memory, address, (rows, width)), {}
    every = array_of(memory, address, (rows, width + sum(feature.mask_width for feature in masked)))
    masks = {
        feature.name: every[:, feature.first_mask_column : feature.first_mask_column + feature.mask_width]
        for feature in masked
    }
    return every[:, :width], masks


class Batch:
    """A batch, with arrays that are views of the library's memory. They stay valid as long as they exist.

    dense: (B, dense width); masks: by feature, (B, rows), 1 where a row has an id; embeddings: (B, embedding
    width); labels: (B, labels), NaN where unknown; weights: (B) or None. The last two are of training only.
    """

    def __init__(self, inputs, task):
        memory = Memory(task.memory)
        self.step = task.step
        self.rows = task.rows
        rows = task.rows
        self.dense, self.masks = dense_of(inputs, memory, task.dense, rows)
        self.joined = array_of(memory, task.embeddings, (rows, inputs.embedding_width))
        is_train = task.kind == _library.TRAIN
        self.labels = array_of(memory, task.labels, (rows, len(inputs.labels))) if is_train else None
        self.weights = array_of(memory, task.weights, (rows,)) if is_train and inputs.weighs else None


def _abandon(handle, process):
    if os.getpid() == process:
        _library.LIBRARY.simurgh_worker_close(handle, b"the worker was not closed")


class Worker:
    """A rank of a training, in place of a process nn-worker. Iterate over it to train:

        with Worker("clicks.yaml") as worker:
            worker.track(...)
            for batch in worker:
                ...
                worker.finish(batch, outputs, gradients)
        print(worker.result)

    Evaluations, checkpoints and the end of the data are handled between two batches: see `track`. The
    configuration has no `model`, or only its `loss` and `tasks`.

    A program that `simurgh train CONFIG -- PROGRAM` has started joins its daemons. Otherwise, with `join`, it
    joins daemons of the configuration that run or will; without, servers and embedding worker are in this
    process.

    SIGINT and SIGTERM end training after the batches that have been read, and save the model if it has a folder; a second
    one raises KeyboardInterrupt. An exception that leaves the `with` block ends training on all ranks. So does a loop
    that ends before training, which is an error.

    config: path of a YAML file; None: that of `simurgh train`. overrides: texts "key=value", as --set. rank: index
    into nn_worker.instances; None: that of torchrun (RANK), or 0. resume, log_level: as --resume and --log-level of
    nn-worker.
    Errors: InvalidError for the configuration, or a second worker in the process.
    Threads: one at a time.
    """

    def __init__(self, config=None, *, overrides=(), rank=None, join=False, resume=None, log_level=None):
        self._handle = None
        self._batch = None  # The batch that has not been finished.
        self._save = None
        self._restore = None
        self._forward = None
        self._interrupted = False
        self._is_training = False
        self._process = os.getpid()
        self._result = ""
        self._old_handlers = {}
        if rank is None:
            rank = int(os.environ.get("RANK", "0"))
        texts = [text.encode() for text in overrides]
        options = _library.WorkerOptions(
            size=ctypes.sizeof(_library.WorkerOptions),
            config_path=None if config is None else os.fsencode(config),
            overrides=(ctypes.c_char_p * len(texts))(*texts),
            override_count=len(texts),
            rank=rank,
            joins=1 if join or "RANK" in os.environ else 0,
            resume=None if resume is None else os.fsencode(resume),
            log_level=None if log_level is None else log_level.encode(),
        )
        handle = ctypes.c_void_p()
        _library.check(_library.LIBRARY.simurgh_worker_open(options, handle))
        self._handle = handle
        # Not __del__: at the end of the process, Python 3.13 does not call it for each object.
        self._abandon = weakref.finalize(self, _abandon, handle, self._process)
        self.inputs = inputs_of(_library.LIBRARY.simurgh_worker_inputs, handle)

    def track(self, *, forward=None, save=None, restore=None, name="program"):
        """Registers what evaluations and checkpoints ask for.

        forward(batch): returns outputs (B, labels), of evaluations and of a few rows of each checkpoint. save(): returns what the model keeps: dicts, lists, tuples,
        numbers, texts and numpy arrays. restore(state): takes over such a value; called at once if training
        continues a model. name: name of the network, for `simurgh model info`.
        """
        self._forward = forward
        self._save = save
        self._restore = restore
        self._name = name
        start = _library.State()
        _library.check(_library.LIBRARY.simurgh_worker_start(self._require(), start))
        if start.name is not None:
            self._take_over(start)
        if save is not None and self.inputs.saves:
            state.pack(save(), self._as_array)  # What cannot be saved shows now.

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind, error, _traceback):
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers = {}
        failure = None
        if error is not None:
            failure = traceback.format_exception_only(kind, error)[-1].strip()
        elif self._batch is not None:
            failure = f"the batch of step {self._batch.step} was not finished"
        elif self._is_training and self._handle is not None:
            failure = "the loop ended before training did, so nothing is saved; worker.interrupt() ends training early"
        try:
            self._close(failure)
        except Error:
            if error is None:
                raise
        if error is None and failure is not None:
            raise InvalidError(failure)

    def close(self):
        """Ends the worker. Training that has not ended stops, without a save."""
        self._close(None)

    def _close(self, failure):
        if self._handle is None:
            return
        handle, self._handle, self._batch = self._handle, None, None
        self._abandon.detach()
        text = None if failure is None else failure.encode("utf-8", "replace")
        _library.check(_library.LIBRARY.simurgh_worker_close(handle, text))

    def _on_signal(self, number, _frame):
        if self._interrupted:
            raise KeyboardInterrupt
        self.interrupt()

    def interrupt(self):
        """Ends training on all ranks, and saves the model if it has a folder.

        Batches that have been read, at most training.loader_queue_batches and those in flight, are trained on before.
        Without a folder they are not.
        """
        self._interrupted = True
        _library.check(_library.LIBRARY.simurgh_worker_interrupt(self._require()))

    @property
    def interrupted(self):
        """Whether a signal or `interrupt` has asked this rank to end."""
        return self._interrupted

    def _require(self):
        if self._handle is None:
            raise InvalidError("the worker is closed; open another one to train again")
        if os.getpid() != self._process:
            raise InvalidError(
                f"the worker belongs to process {self._process}, which has forked this one; open workers after the "
                "fork, for example with the start method 'spawn'"
            )
        return self._handle

    def __iter__(self):
        return self

    def __next__(self):
        self._require()
        if self._batch is not None:
            raise InvalidError(
                f"the batch of step {self._batch.step} was not finished; call worker.finish before the next batch"
            )
        if self.inputs.saves and self._save is None:
            raise InvalidError(
                "checkpoint.directory is set, but nothing is tracked; call worker.track before the first batch"
            )
        if self.inputs.predicts and self._forward is None:
            raise InvalidError(
                "evaluations and checkpoints ask for predictions, but no network is tracked; call "
                "worker.track(forward=...) before the first batch"
            )
        while True:
            task = _library.Task(size=ctypes.sizeof(_library.Task))
            self._is_training = True
            code = _library.LIBRARY.simurgh_worker_next(self._require(), _WAIT_MS, task)
            self._is_training = code in (_library.OK, _library.INVALID) and task.kind != _library.END
            _library.check(code)
            if task.kind == _library.TRAIN:
                self._batch = self._make_batch(task)
                return self._batch
            if task.kind == _library.PREDICT:
                self._predict(self._make_batch(task))
            elif task.kind == _library.SAVE:
                self._hand_out()
            elif task.kind == _library.RESTORE:
                self._take_over(task.state)
                _library.check(_library.LIBRARY.simurgh_worker_restored(self._handle))
            elif task.kind == _library.END:
                self._leave_evaluation()
                text = ctypes.c_char_p()
                _library.check(_library.LIBRARY.simurgh_worker_result(self._handle, text))
                self._result = text.value.decode()
                raise StopIteration

    def _leave_evaluation(self):
        """Called after the last evaluation."""

    def _make_batch(self, task):
        return Batch(self.inputs, task)

    def _outputs(self, outputs, rows):
        return outputs_of(outputs, rows, len(self.inputs.labels))

    def _predict(self, batch):
        if self._forward is None:
            raise InvalidError("an evaluation is due, but no network is tracked; call worker.track(forward=...)")
        outputs = self._outputs(self._forward(batch), batch.rows)
        _library.check(
            _library.LIBRARY.simurgh_worker_predicted(self._require(), outputs.ctypes.data, outputs.size)
        )

    def finish(self, batch, outputs, gradients, *, skipped=False):
        """Ends a batch: pushes the embeddings' gradients and counts the predictions.

        outputs: (B, labels), before the step: logits for the losses bce and focal, the value for squared_error, its
        logarithm for poisson. gradients: (B, embedding width), of the mean loss over the batch. skipped: the dense
        step was left out. Gradients that are not finite are not pushed. Ranks minimise the mean of their losses.
        """
        self._check_open(batch)
        outputs = self._outputs(outputs, batch.rows)
        gradients = _floats(gradients, "gradients")
        if gradients.shape != (batch.rows, self.inputs.embedding_width):
            raise InvalidError(
                f"gradients have the shape {gradients.shape}, expected "
                f"({batch.rows}, {self.inputs.embedding_width}), as the embeddings"
            )
        step = _library.Step(
            size=ctypes.sizeof(_library.Step),
            gradients=gradients.ctypes.data,
            outputs=outputs.ctypes.data,
            skipped=int(skipped),
        )
        _library.check(_library.LIBRARY.simurgh_worker_finish(self._require(), step))
        self._batch = None

    def _check_open(self, batch):
        if self._batch is None or batch is not self._batch:
            raise InvalidError("this batch is not the one to finish; finish each batch once, before the next one")

    def sum(self, numbers):
        """Replaces a float32 array by its sum over the ranks: the same bits on all of them.

        Call it between a batch and its `finish`, on all ranks alike.
        """
        if numbers.dtype != np.float32 or not numbers.flags.c_contiguous:
            raise InvalidError("worker.sum takes contiguous float32 arrays")
        _library.check(_library.LIBRARY.simurgh_worker_sum(self._require(), numbers.ctypes.data, numbers.size))

    def agree(self, yes):
        """Returns whether all ranks say yes. Call it as `sum`."""
        if self.inputs.ranks == 1:
            return yes
        answer = ctypes.c_int()
        _library.check(_library.LIBRARY.simurgh_worker_agree(self._require(), int(yes), answer))
        return answer.value != 0

    @property
    def result(self):
        """The result of a training that has ended, as `simurgh train` prints it: numbers by name, such as test_auc.

        Empty after an interrupt, and on ranks other than 0.
        """
        return result_of(self._result)

    @property
    def result_text(self):
        """The text of the result, as `simurgh train` prints it: lines of warnings, then the line of metrics."""
        return self._result

    @property
    def warnings(self):
        """The warnings of the result: a list of texts."""
        lines = self._result.splitlines()[:-1]
        return [line.removeprefix("warning: ") for line in lines]

    def _hand_out(self):
        text, arrays = state.pack(self._save(), self._as_array)
        keep = []  # What the C structs refer to.
        tensors = (_library.Tensor * len(arrays))()
        for slot, (name, array) in zip(tensors, arrays.items()):
            array, dtype = state.kept(array)
            shape = (ctypes.c_uint64 * array.ndim)(*array.shape)
            keep += [array, shape]
            slot.name = name.encode()
            slot.dtype = dtype
            slot.dimensions = array.ndim
            slot.shape = shape
            slot.data = array.ctypes.data
        given = _library.State(
            name=self._name.encode(), text=text.encode(), tensors=tensors, tensor_count=len(arrays)
        )
        _library.check(_library.LIBRARY.simurgh_worker_saved(self._require(), given))

    def _take_over(self, saved):
        self._restore(state.unpack(saved.text.decode(), arrays_of(saved), self._from_array))

    @staticmethod
    def _as_array(value):
        return (np.asarray(value), "numpy") if isinstance(value, (np.ndarray, np.generic)) else None

    @staticmethod
    def _from_array(array, _kind):
        return array

