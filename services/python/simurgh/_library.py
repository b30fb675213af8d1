"""libsimurgh.so by ctypes: its structs, functions and errors, as include/simurgh/simurgh.h has them."""

import ctypes
import os
import pathlib

INTERFACE_VERSION = 1

NONE, TRAIN, PREDICT, SAVE, RESTORE, END = range(6)
OK, INVALID, _FAILED, _START_AGAIN = 0, 2, 3, 4


class Error(Exception):
    """A failure, with the text that the command line prints."""


class InvalidError(Error):
    """Bad arguments or configuration, or a call at the wrong time."""


class LostError(Error):
    """Another process of the training was lost. A new start continues from the last checkpoint."""


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_uint32),
        ("dimensions", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("data", ctypes.c_void_p),
    ]


class State(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(Tensor)),
        ("tensor_count", ctypes.c_uint64),
    ]


class WorkerOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("config_path", ctypes.c_char_p),
        ("overrides", ctypes.POINTER(ctypes.c_char_p)),
        ("override_count", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("joins", ctypes.c_uint32),
        ("resume", ctypes.c_char_p),
        ("log_level", ctypes.c_char_p),
    ]


class Feature(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("first_column", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("dim", ctypes.c_uint64),
        ("mask_width", ctypes.c_uint64),
        ("first_mask_column", ctypes.c_uint64),
    ]


class Inputs(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("features", ctypes.POINTER(Feature)),
        ("feature_count", ctypes.c_uint64),
        ("embedding_width", ctypes.c_uint64),
        ("dense_columns", ctypes.POINTER(ctypes.c_char_p)),
        ("dense_width", ctypes.c_uint64),
        ("labels", ctypes.POINTER(ctypes.c_char_p)),
        ("losses", ctypes.POINTER(ctypes.c_char_p)),
        ("label_count", ctypes.c_uint64),
        ("batch_size", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("ranks", ctypes.c_uint32),
        ("saves", ctypes.c_uint32),
        ("predicts", ctypes.c_uint32),
        ("weighs", ctypes.c_uint32),
    ]


class Task(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("step", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("dense", ctypes.c_void_p),
        ("embeddings", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
        ("state", State),
    ]


class Step(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("gradients", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("skipped", ctypes.c_uint32),
    ]


class LoaderOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("config_path", ctypes.c_char_p),
        ("overrides", ctypes.POINTER(ctypes.c_char_p)),
        ("override_count", ctypes.c_uint64),
        ("index", ctypes.c_uint32),
        ("log_level", ctypes.c_char_p),
    ]


class Ids(ctypes.Structure):
    _fields_ = [("offsets", ctypes.c_void_p), ("ids", ctypes.c_void_p), ("weights", ctypes.c_void_p)]


class Samples(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("features", ctypes.POINTER(Ids)),
        ("dense", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
    ]


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("path", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("overrides", ctypes.POINTER(ctypes.c_char_p)),
        ("override_count", ctypes.c_uint64),
        ("follows", ctypes.c_uint32),
        ("allows_plugins", ctypes.c_uint32),
        ("log_level", ctypes.c_char_p),
        ("rows", ctypes.c_char_p),
        ("row_precision", ctypes.c_char_p),
    ]


class ServerOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("model", ctypes.c_char_p),
        ("listen", ctypes.c_char_p),
        ("config_path", ctypes.c_char_p),
        ("overrides", ctypes.POINTER(ctypes.c_char_p)),
        ("override_count", ctypes.c_uint64),
        ("log_level", ctypes.c_char_p),
    ]


class Vectors(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("vectors", ctypes.c_void_p),
        ("bad_rows", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
    ]


class RecommendOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("k", ctypes.c_uint64),
        ("items", ctypes.POINTER(ctypes.c_char_p)),
        ("item_count", ctypes.c_uint64),
        ("item_id", ctypes.c_char_p),
        ("exclude", ctypes.POINTER(ctypes.c_char_p)),
        ("exclude_count", ctypes.c_uint64),
        ("filter_columns", ctypes.POINTER(ctypes.c_char_p)),
        ("filter_values", ctypes.POINTER(ctypes.c_char_p)),
        ("filter_count", ctypes.c_uint64),
    ]


class Recommendations(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("k", ctypes.c_uint64),
        ("ids", ctypes.POINTER(ctypes.c_char_p)),
        ("scores", ctypes.c_void_p),
        ("bad_rows", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
        ("outputs", ctypes.c_void_p),
        ("dense", ctypes.c_void_p),
        ("embeddings", ctypes.c_void_p),
        ("bad_rows", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
    ]


class Evaluation(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("text", ctypes.c_char_p),
        ("rows", ctypes.c_uint64),
        ("bad_rows", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
    ]


class Checkpoint(ctypes.Structure):
    _fields_ = [
        ("step", ctypes.c_uint64),
        ("seconds", ctypes.c_int64),
        ("parent", ctypes.c_uint64),
        ("is_delta", ctypes.c_uint32),
        ("is_used", ctypes.c_uint32),
        ("is_best", ctypes.c_uint32),
        ("is_pinned", ctypes.c_uint32),
        ("problem", ctypes.c_char_p),
    ]


class Checkpoints(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("checkpoints", ctypes.POINTER(Checkpoint)),
        ("count", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
    ]


_FUNCTIONS = {
    "model_open": [ctypes.POINTER(ModelOptions), ctypes.POINTER(ctypes.c_void_p)],
    "model_inputs": [ctypes.c_void_p, ctypes.POINTER(Inputs)],
    "model_step": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)],
    "model_versions": [ctypes.c_void_p, ctypes.POINTER(Checkpoints)],
    "model_predict": [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Result)],
    "model_evaluate": [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.POINTER(Evaluation),
    ],
    "model_features": [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Result)],
    "model_recommend": [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(RecommendOptions), ctypes.POINTER(Recommendations)
    ],
    "model_vectors": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Vectors)],
    "model_rows": [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ],
    "model_close": [ctypes.c_void_p],
    "server_open": [ctypes.POINTER(ServerOptions), ctypes.POINTER(ctypes.c_void_p)],
    "server_inputs": [ctypes.c_void_p, ctypes.POINTER(Inputs)],
    "server_start": [ctypes.c_void_p, ctypes.POINTER(State)],
    "server_address": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_char_p)],
    "server_ready": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)],
    "server_next": [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Task)],
    "server_predicted": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
    "server_restored": [ctypes.c_void_p],
    "server_failed": [ctypes.c_void_p, ctypes.c_char_p],
    "server_reload": [ctypes.c_void_p],
    "server_interrupt": [ctypes.c_void_p],
    "server_close": [ctypes.c_void_p],
    "loader_open": [ctypes.POINTER(LoaderOptions), ctypes.POINTER(ctypes.c_void_p)],
    "loader_inputs": [ctypes.c_void_p, ctypes.POINTER(Inputs)],
    "loader_rows": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)],
    "loader_feed_table": [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)],
    "loader_feed_samples": [ctypes.c_void_p, ctypes.POINTER(Samples), ctypes.POINTER(ctypes.c_int)],
    "loader_end": [ctypes.c_void_p],
    "loader_abandon": [ctypes.c_void_p, ctypes.c_char_p],
    "loader_stop": [ctypes.c_void_p],
    "loader_close": [ctypes.c_void_p],
    "worker_open": [ctypes.POINTER(WorkerOptions), ctypes.POINTER(ctypes.c_void_p)],
    "worker_inputs": [ctypes.c_void_p, ctypes.POINTER(Inputs)],
    "worker_start": [ctypes.c_void_p, ctypes.POINTER(State)],
    "worker_next": [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Task)],
    "worker_finish": [ctypes.c_void_p, ctypes.POINTER(Step)],
    "worker_predicted": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
    "worker_saved": [ctypes.c_void_p, ctypes.POINTER(State)],
    "worker_restored": [ctypes.c_void_p],
    "worker_sum": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64],
    "worker_agree": [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)],
    "worker_interrupt": [ctypes.c_void_p],
    "worker_result": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)],
    "worker_close": [ctypes.c_void_p, ctypes.c_char_p],
}


def _find():
    """Returns the path of the library: of the wheel, or of a source tree."""
    given = os.environ.get("SIMURGH_LIBRARY")
    if given:
        return given
    package = pathlib.Path(__file__).resolve().parent
    in_tree = package.parents[2] / "build" / "release" / "lib"
    for folder in (package / "lib", in_tree):
        path = folder / "libsimurgh.so.1"
        if path.exists():
            return str(path)
    raise InvalidError(
        f"libsimurgh.so.1 is neither in {package / 'lib'} nor in {in_tree}; install the wheel, or "
        "build it with scripts/build.sh release simurgh_shared"
    )


def _load():
    path = _find()
    library = ctypes.CDLL(path)
    library.simurgh_interface_version.restype = ctypes.c_uint32
    library.simurgh_version.restype = ctypes.c_char_p
    library.simurgh_last_error.restype = ctypes.c_char_p
    version = library.simurgh_interface_version()
    if version != INTERFACE_VERSION:
        raise InvalidError(
            f"{path} has version {version} of the interface, and the package has version "
            f"{INTERFACE_VERSION}; install both from one wheel"
        )
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, "simurgh_" + name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    library.simurgh_memory_release.argtypes = [ctypes.c_void_p]
    library.simurgh_memory_release.restype = None
    return library


LIBRARY = _load()


ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def check(code):
    """Raises the error of a call that has returned this code."""
    if code == OK:
        return
    text = LIBRARY.simurgh_last_error().decode("utf-8", "replace")
    kind = {INVALID: InvalidError, _START_AGAIN: LostError}.get(code, Error)
    raise kind(text)


def version():
    """Returns the version of the library, such as "0.1.0"."""
    return LIBRARY.simurgh_version().decode()
