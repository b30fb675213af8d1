"""The state of a program as tensors and a JSON text, which the model keeps. Never a pickle."""

import json

import numpy as np

from ._library import InvalidError

# simurgh_dtype of arrays that the model keeps; others are kept as unsigned numbers with the same bytes.
_DTYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "uint64": 3, "float16": 4, "float32": 5, "float64": 6}
_NAMES = {number: name for name, number in _DTYPES.items()}
_RESERVED = ("sums", "__metadata__")  # Names of tensor files.
_MOST_TEXT = 8 << 20
_AS_UNSIGNED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def pack(value, as_array):
    """Returns (text, arrays): `value` as JSON, in which {"$tensor": name} stands for an array.

    value: dicts, lists, tuples, texts, numbers, None, and what `as_array` accepts.
    as_array(value): returns (array, kind) for a tensor, else None. kind: a text that `unpack` gets back.
    """
    arrays = {}

    def encode(part, path):
        found = as_array(part)
        if found is not None:
            array, kind = found
            if array.dtype.hasobject:
                raise TypeError(f"{'.'.join(path)}: an array of objects cannot be saved; make a list of it")
            name = ".".join(path).replace("\0", "") or "state"
            while name in arrays or name in _RESERVED:
                name += "'"
            arrays[name] = array
            return {"$tensor": name, "kind": kind, "dtype": array.dtype.str, "shape": list(array.shape)}
        if part is None or isinstance(part, (bool, int, float, str)):
            return part
        if isinstance(part, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in part):
                return {key: encode(one, [*path, key]) for key, one in part.items()}
            return {"$items": [[encode(key, path), encode(one, [*path, str(key)])] for key, one in part.items()]}
        if isinstance(part, (list, tuple)):
            items = [encode(one, [*path, str(i)]) for i, one in enumerate(part)]
            return items if isinstance(part, list) else {"$tuple": items}
        raise TypeError(
            f"{'.'.join(path)}: {type(part).__name__} cannot be saved; states have tensors, numbers, texts, "
            "lists, tuples and dicts"
        )

    text = json.dumps(encode(value, []))
    if len(text) > _MOST_TEXT:
        raise InvalidError(f"the state without its tensors has {len(text)} bytes, at most {_MOST_TEXT} are kept")
    return text, arrays


def unpack(text, arrays, from_array):
    """The inverse of `pack`. from_array(array, kind): makes a tensor."""

    def decode(part):
        if isinstance(part, list):
            return [decode(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$tensor" in part:
            array = arrays[part["$tensor"]].reshape(-1).view(part["dtype"]).reshape(part["shape"])
            return from_array(array, part["kind"])
        if "$items" in part:
            return {decode(key): decode(one) for key, one in part["$items"]}
        if "$tuple" in part:
            return tuple(decode(one) for one in part["$tuple"])
        return {key: decode(one) for key, one in part.items()}

    return decode(json.loads(text))


def kept(array):
    """Returns (array, dtype): the bytes of an array in a type that the model keeps, and its simurgh_dtype."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)  # Of a scalar it would make a vector.
    name = str(array.dtype)
    if name not in _DTYPES:
        size = array.dtype.itemsize
        name = _AS_UNSIGNED.get(size, "uint8")
        shape = array.shape if size in _AS_UNSIGNED else (*array.shape, size)
        array = array.reshape(-1).view(name).reshape(shape)
    return array, _DTYPES[name]


def dtype_name(number):
    """Returns the numpy name of a simurgh_dtype."""
    return _NAMES[number]


_OF_FORMAT = {"U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32",
              "F64": "float64"}


def read(checkpoint):
    """Returns (text, arrays), the arguments of `unpack`, of a checkpoint's folder. See src/model/FORMAT.md."""
    extra = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))["extra"]
    if "program.state" not in extra:
        raise InvalidError(f"{checkpoint}: the model's network is that of the configuration, not of a program")
    data = (checkpoint / "program.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    arrays = {}
    for name, tensor in json.loads(data[8:begin]).items():
        if name in ("__metadata__", "sums"):
            continue
        first, end = tensor["data_offsets"]
        array = np.frombuffer(bytearray(data[begin + first : begin + end]), _OF_FORMAT[tensor["dtype"]])
        arrays[name] = array.reshape(tensor["shape"])
    return extra["program.state"], arrays
