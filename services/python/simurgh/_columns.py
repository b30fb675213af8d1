"""Rows as columns by name: cells of any frame or array as numbers or texts, as CSV and as an Arrow C stream.

Both outputs have the same ids: a text for a float of a whole number has no point, and others are as short as those that
the library writes.
"""

import csv
import ctypes
import datetime
import itertools
import numbers

import numpy as np

from ._library import InvalidError

_EXACT = 2**53  # Larger floats are written as floats.
_LINE_ENDS = str.maketrans({"\r": " ", "\n": " ", "\0": " "})


def _float_text(number):
    """Returns the text of a finite float: the shorter one of both notations, and without a point if it is whole."""
    if abs(number) <= _EXACT and number.is_integer():
        return str(int(number))
    mantissa, _, exponent = repr(number).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) - len(fraction)  # Of the last digit.
    stripped = digits.rstrip("0")
    power += len(digits) - len(stripped)
    digits = stripped
    point = len(digits) + power
    if point <= 0:
        fixed = "0." + "0" * -point + digits
    elif power >= 0:
        fixed = str(int(abs(number)))  # All digits, as printf has them.
    else:
        fixed = digits[:point] + "." + digits[point:]
    first, rest = digits[0], digits[1:]
    scientific = f"{first}{'.' + rest if rest else ''}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    return sign + (fixed if len(fixed) <= len(scientific) else scientific)


def _is_missing(cell):
    if cell is None:
        return True
    if isinstance(cell, (str, list, tuple, np.ndarray)):
        return False
    try:
        return bool(cell != cell)  # NaN and NaT.
    except (TypeError, ValueError):  # pandas.NA
        return type(cell).__name__ == "NAType"


def _text(cell):
    if isinstance(cell, str):
        return cell.translate(_LINE_ENDS)
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace").translate(_LINE_ENDS)
    if isinstance(cell, (bool, np.bool_)):
        return str(int(cell))
    if isinstance(cell, numbers.Integral):
        return str(int(cell))
    if isinstance(cell, numbers.Real):
        return _float_text(float(cell))
    if isinstance(cell, (datetime.date, np.datetime64)):
        return str(cell)
    raise TypeError(
        f"a cell is a {type(cell).__name__}; argument must be a string or a number, a date, or in all rows a list of these"
    )


class Lists(list):
    """A column of lists: each cell is a list of texts, or None."""


_LIST_KINDS = {list, tuple, np.ndarray}


def _of_objects(cells):
    kinds = set(map(type, cells))
    if kinds == {str}:
        joined = "".join(cells)
        if joined.translate(_LINE_ENDS) == joined:
            return list(cells)
    elif kinds == {float}:
        return np.array(cells, np.float64)
    elif kinds == {int} and -(2**63) <= min(cells) and max(cells) < 2**63:
        return np.array(cells, np.int64)
    missing = [_is_missing(cell) for cell in cells]
    known = [cell for cell, is_missing in zip(cells, missing) if not is_missing]
    kinds = set(map(type, known))
    if known and kinds <= _LIST_KINDS:
        return Lists(
            None if is_missing else [_text(one) for one in cell if not _is_missing(one)]
            for cell, is_missing in zip(cells, missing)
        )
    if known and all(issubclass(kind, (numbers.Real, np.bool_)) for kind in kinds):
        if any(missing) or not all(issubclass(kind, (numbers.Integral, np.bool_)) for kind in kinds):
            if all(abs(cell) <= _EXACT for cell in known):
                return np.array([np.nan if is_missing else float(cell) for cell, is_missing in zip(cells, missing)])
        elif all(-(2**63) <= cell < 2**63 for cell in known):
            return np.array(known, np.int64)
    return [None if is_missing else _text(cell) for cell, is_missing in zip(cells, missing)]


def column_of(values):
    """Returns a column as an array of int64, uint64 or float64, where NaN is missing; as a list of texts and None; or as
    Lists.

    values: an array of one dimension, or a list. Errors: TypeError for cells that are neither numbers nor texts, dates
    or lists of these.
    """
    if isinstance(values, list):
        return _of_objects(values)
    kind = values.dtype.kind
    if kind in "bi":
        return values.astype(np.int64)
    if kind == "u":
        return values.astype(np.uint64)
    if kind == "f":
        return values.astype(np.float64)
    if kind == "M":
        texts = np.datetime_as_string(values.astype("datetime64[s]"))
        return [None if text == "NaT" else text.replace("T", " ") for text in texts.tolist()]
    if kind == "c":
        raise ValueError("Complex data not supported")
    return _of_objects(values.tolist() if kind in "US" else list(values))


def _cells_of(series):
    """Returns the cells of a column of pandas or polars as column_of takes them."""
    if hasattr(series, "null_count"):  # Polars.
        return series.to_list() if series.null_count() > 0 else series.to_numpy()
    # An array of another kind can have floats in place of integers beside missing ones.
    return series.to_numpy() if isinstance(series.dtype, np.dtype) else series.to_numpy(dtype=object)


def _given(name, values):
    """Returns the cells of a dict's column as column_of takes them. Errors: InvalidError for what is no column."""
    if isinstance(values, (tuple, range)):
        values = list(values)
    elif hasattr(values, "to_numpy") and hasattr(values, "dtype"):
        values = _cells_of(values)
    is_column = isinstance(values, list) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not isinstance(name, str) or not is_column:
        raise InvalidError(f"column {name!r}: {type(values).__name__}, expected a list or array of one dimension")
    return values


def columns_of(frame):
    """Returns the columns of a frame of pandas or polars, or a dict of arrays and lists, in their order, as column_of.

    Errors: InvalidError for a dict of columns that differ in their number of rows.
    """
    if isinstance(frame, dict):
        columns = {name: column_of(_given(name, values)) for name, values in frame.items()}
        rows = {name: len(column) for name, column in columns.items()}
        if len(set(rows.values())) > 1:
            raise InvalidError(f"the columns have different numbers of rows: {rows}")
        return columns
    if hasattr(frame, "iloc"):  # Names may occur twice.
        return {name: column_of(_cells_of(frame.iloc[:, place])) for place, name in enumerate(frame.columns)}
    return {name: column_of(_cells_of(frame.get_column(name))) for name in frame.columns}


def texts_of(column):
    """Returns the cells of a column as texts, "" for a missing one."""
    if isinstance(column, Lists):
        if any("|" in text for cell in column if cell for text in cell):
            raise InvalidError("a text of a list has the character '|', which separates texts of a list here; replace it")
        return ["" if cell is None else "|".join(cell) for cell in column]
    if isinstance(column, list):
        return ["" if cell is None else cell for cell in column]
    if column.dtype.kind != "f":
        return map(str, column.tolist())
    return ["" if cell != cell else _float_text(cell) for cell in column.tolist()]


def write_csv(path, columns):
    """Writes columns, as column_of returns them, by name as CSV."""
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(texts_of, columns.values())))


# The Arrow C data interface, https://arrow.apache.org/docs/format/CDataInterface.html


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


_kept = {}  # What released structs have kept alive, by the number in their private data.
_numbers = itertools.count(1)


def _keep(struct, *owned):
    number = next(_numbers)
    _kept[number] = owned
    struct.private_data = number


def _releaser(kind):
    @ctypes.CFUNCTYPE(None, ctypes.POINTER(kind))
    def release(struct):
        for child in range(getattr(struct[0], "n_children", 0)):
            one = struct[0].children[child]
            if one[0].release:
                one[0].release = None
        _kept.pop(struct[0].private_data, None)
        struct[0].release = None

    return release


_release_schema, _release_array, _release_stream = map(_releaser, (_Schema, _Array, _Stream))


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p)


def _schema(name, code):
    return _Schema(name=name.encode(), format=code.encode(), flags=2, release=_address(_release_schema))


def _schema_of(name, column):
    if isinstance(column, Lists):
        schema = _schema(name, "+L")
        schema.n_children = 1
        schema.children = _pointers(_Schema, [_schema("item", "U")])
        return schema
    return _schema(name, "U" if isinstance(column, list) else _CODES[column.dtype.kind])


def _pointers(kind, structs):
    return (ctypes.POINTER(kind) * len(structs))(*map(ctypes.pointer, structs))


def _of_texts(texts):
    """Returns the buffers of texts, but the validity, and what they need."""
    texts = [b"" if text is None else text.encode("utf-8", "replace") for text in texts]
    offsets = _offsets(map(len, texts), len(texts))
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    return [offsets.ctypes.data, data.ctypes.data], [offsets, data]


def _offsets(lengths, count):
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=offsets[1:])
    return offsets


def _array(column, rows):
    """Returns a column's array, and what it needs."""
    children = []
    if not isinstance(column, list):
        column = np.ascontiguousarray(column)
        missing = np.isnan(column) if column.dtype.kind == "f" else None
        buffers, owned = [None, column.ctypes.data], [column]
    else:
        missing = np.array([cell is None for cell in column], bool)
        if isinstance(column, Lists):
            cells = [cell or [] for cell in column]
            offsets = _offsets(map(len, cells), rows)
            texts, kept = _array(list(itertools.chain.from_iterable(cells)), int(offsets[-1]))
            buffers, owned, children = [None, offsets.ctypes.data], [offsets, kept], [texts]
        else:
            buffers, owned = _of_texts(column)
            buffers.insert(0, None)
    nulls = 0 if missing is None else int(missing.sum())
    if nulls > 0:
        validity = np.packbits(~missing, bitorder="little")
        buffers[0] = validity.ctypes.data
        owned.append(validity)
    places = (ctypes.c_void_p * len(buffers))(*buffers)
    owned.append(places)
    array = _Array(
        length=rows,
        null_count=nulls,
        n_buffers=len(buffers),
        buffers=places,
        n_children=len(children),
        children=_pointers(_Array, children),
        release=_address(_release_array),
    )
    return array, owned


class Columns:
    """Columns by name, as column_of returns them."""

    def __init__(self, columns):
        self.columns = columns

    def stream(self):
        """Returns (owner, address) of an Arrow C stream, which is valid as long as the owner exists."""
        columns = self.columns
        rows = len(next(iter(columns.values()))) if columns else 0
        left = [rows] if rows > 0 else []

        @_GET_SCHEMA
        def get_schema(_stream, schema):
            children = [_schema_of(name, column) for name, column in columns.items()]
            pointers = _pointers(_Schema, children)
            whole = _schema("", "+s")
            whole.n_children = len(children)
            whole.children = pointers
            _keep(whole, whole, children)  # Texts of a struct live as long as the struct.
            schema[0] = whole
            return 0

        @_GET_NEXT
        def get_next(_stream, array):
            if not left:
                array[0].release = None
                return 0
            left.clear()
            made = [_array(column, rows) for column in columns.values()]
            pointers = _pointers(_Array, [one for one, _ in made])
            no_nulls = (ctypes.c_void_p * 1)(None)
            whole = _Array(
                length=rows,
                n_buffers=1,
                buffers=no_nulls,
                n_children=len(made),
                children=pointers,
                release=_address(_release_array),
            )
            _keep(whole, whole, made)
            array[0] = whole
            return 0

        stream = _Stream(
            get_schema=_address(get_schema),
            get_next=_address(get_next),
            get_last_error=_address(_no_error),
            release=_address(_release_stream),
        )
        return (stream, get_schema, get_next, self), ctypes.c_void_p(ctypes.addressof(stream))


_CODES = {"i": "l", "u": "L", "f": "g"}  # int64, uint64, float64
_GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))
def _no_error(_stream):
    return None
