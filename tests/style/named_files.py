#!/usr/bin/python3
"""Checks that files which READMEs and comments name exist, and counts the folders on the path of one id."""

import pathlib
import re
import subprocess
import sys

ROOTS = ("src", "rpc", "services", "include", "bench", "tests", "config", "scripts")
MODULES = sorted(path.name for path in pathlib.Path("src").iterdir() if path.is_dir()) + ["rpc", "services"]
MOST_FOLDERS = 5
MOST_HANDOFFS = 13


def exists(name, folders):
    """Whether there is such a file, with or without an ending, seen from one of the folders."""
    return any(pathlib.Path(folder, name + ending).exists() or list(pathlib.Path(folder).glob(name))
               for folder in folders for ending in ("", ".h", ".cc"))


def missing_of(path):
    text = path.read_text()
    if path.suffix == ".md":  # NAME in capitals stands for any.
        for name in re.findall(r"`((?:%s)/[\w./-]+[\w])`" % "|".join(ROOTS), text):
            if not exists(name, ["."]) and "NAME" not in name:
                yield name
        # A header as it is included: `table/row_store.h`.
        for name in re.findall(r"`((?:%s)/[\w/]+\.h)`" % "|".join(MODULES), text):
            if not exists(name, ["src", "."]):
                yield name
        for name in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text):
            if not exists(name, [path.parent]):
                yield name
    else:
        for name in re.findall(r"//.*?\b((?:%s)/[\w/-]+\.(?:h|cc|md|fbs))\b" % "|".join(MODULES + list(ROOTS)), text):
            if not exists(name, ["src", "."]) and not name.endswith("_generated.h"):
                yield name


def main():
    failures = []
    tracked = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.md", "*.h", "*.cc", "*.cu"],
                             capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        path = pathlib.Path(name)
        if path.exists():
            failures += [f"{name}: names {missing}, which does not exist" for missing in missing_of(path)]
    section = pathlib.Path("src/README.md").read_text().split("## The path of one id")[1].split("\n## ")[0]
    folders = sorted(set(re.findall(r"`src/(\w+)/", section.split("These are")[0])))
    if len(folders) > MOST_FOLDERS:
        failures.append(f"src/README.md: the path of one id passes {len(folders)} folders of src: {' '.join(folders)}")
    handoffs = sum(int(count) for count in re.findall(r"\| (\d+) \|$", section, re.M))
    if handoffs > MOST_HANDOFFS or f"These are {handoffs} hand-offs" not in section:
        failures.append(f"src/README.md: the table has {handoffs} hand-offs, at most {MOST_HANDOFFS} are allowed")
    print("\n".join(failures) or f"the path of one id: {' '.join(folders)}; {handoffs} hand-offs")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
