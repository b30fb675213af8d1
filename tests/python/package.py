"""The Python package, and expectations of errors, for cases with and without PyTorch.

A test is a program, NAME_case.py, with the expectations of tests/cases/case.py. It ends with 77, which CTest reports
as skipped, without what it needs.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "services/python"), str(ROOT / "tests/cases")]
LIBRARY = pathlib.Path(os.environ.setdefault("SIMURGH_LIBRARY", str(ROOT / "build/release/lib/libsimurgh.so.1")))

from case import expect, skip  # noqa: E402

if not LIBRARY.exists():
    skip(f"{LIBRARY} is missing; build simurgh_shared")

import simurgh  # noqa: E402, F401


def raises(kind, body, *parts):
    """Expects an error of this kind, whose text has these parts. Returns the text."""
    try:
        body()
    except kind as error:
        text = str(error)
        for part in parts:
            expect(part in text, f"the error has {part!r}: {text}")
        return text
    expect(False, f"{kind.__name__} with {parts} is raised")
    return ""
