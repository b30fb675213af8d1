#!/usr/bin/env python3
"""Prints the tensors of a checkpoint, or rows of one tensor, and checks the checksums.

Usage: read_model.py MODEL/step-N | FILE.safetensors [TENSOR [FIRST_ROW [ROWS]]]
Needs numpy. With python3-xxhash it checks checksums. src/model/FORMAT.md describes the format.
"""
import json
import sys
import numpy
try:
    from xxhash import xxh3_64_intdigest as digest
except ImportError:
    digest = None
DTYPES = {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}


def read_tensors(path):
    """The tensors by name, in the order of the file; the metadata; the bytes before the tensors."""
    data, tensors = numpy.memmap(path, "u1", "r"), {}
    start = data[:8 + int(data[:8].view("<u8")[0])].tobytes()
    header = json.loads(start[8:])
    metadata = header.pop("__metadata__", {})
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        tensors[name] = data[len(start):][slice(*entry["data_offsets"])].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata, start


def check(path, tensors, start, file_hash):
    sums = tensors.pop("sums", None)
    if digest is None or sums is None:
        return "not checked: " + ("python3-xxhash is missing" if digest is None else "the file has none")
    expected = iter(sums)
    for name, tensor in tensors.items():
        for row in range(0, len(numpy.atleast_1d(tensor)) if tensor.size else 0, 65536):
            if digest(numpy.atleast_1d(tensor)[row:row + 65536].tobytes()) != next(expected):
                sys.exit(f"{path}: tensor {name}, rows from {row}: wrong checksum")
    if file_hash and digest(start + sums.tobytes()) != int(file_hash, 16):
        sys.exit(f"{path}: the hash is not that of the manifest")
    return "all match"


def show(path, file_hash=None, tensor=None, first=0, rows=10):
    tensors, metadata, start = read_tensors(path)
    if tensor is None:
        print(path, *(f"  {name} {one.dtype} {list(one.shape)}" for name, one in tensors.items()), sep="\n")
        print("  checksums:", check(path, tensors, start, file_hash))
    else:
        values = tensors[tensor][int(first):int(first) + int(rows)]
        print((values.astype("<u4") << 16).view("<f4") if metadata.get(tensor + ".format") == "bf16" else values)


if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
elif sys.argv[1].endswith(".safetensors"):
    show(sys.argv[1], None, *sys.argv[2:])
else:
    text = open(sys.argv[1] + "/manifest.json", "rb").read()
    manifest = json.loads(text)
    # The checksum in the second line is that of all that follows. Older manifests have none.
    if digest is not None and "checksum" in manifest:
        head = b'{\n "checksum": "%016x",\n' % digest(text[text.index(b"\n", 2) + 1:])
        if not text.startswith(head):
            sys.exit(f"{sys.argv[1]}/manifest.json: checksum: it is not that of the text")
    print("step", manifest["step"], "samples", manifest["samples"], "metrics", manifest["metrics"])
    for one in (one for one in manifest["files"] if one["path"].endswith(".safetensors")):
        show(sys.argv[1] + "/" + one["path"], one["hash"])
