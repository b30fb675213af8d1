"""The commands `simurgh` and `simurgh-feed`, and `python -m simurgh`: each becomes the program of that name."""

import os
import pathlib
import signal
import sys

from simurgh.programs import program


def main():
    """Replaces this process by the program that has the command's name."""
    command = sys.argv[0]
    is_module = pathlib.Path(command).name == "__main__.py"
    path = program("simurgh" if is_module else pathlib.Path(command).name)
    if path == command:  # It was found by PATH.
        sys.exit(f"{command}: the package has no program of this name; install the wheel")
    os.environ.setdefault("SIMURGH_PYTHON", sys.executable)  # `simurgh tune` runs in Python.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and programs would inherit that.
    os.execv(path, [path if is_module else command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
