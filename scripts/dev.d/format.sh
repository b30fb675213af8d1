#!/usr/bin/env bash
# Formats the C++ files (--check: only says which are not)

if [[ ${1-} == --help ]]; then
  echo "Usage: scripts/dev format [--check] [FILE...]"
  echo "Runs clang-format-19 over the files, or over all. --check changes nothing and fails if something would change."
  exit 0
fi
command -v clang-format-19 >/dev/null || { echo "SKIPPED: clang-format-19 is missing; scripts/bootstrap.sh installs it"; exit 77; }
options=(-i)
if [[ ${1-} == --check ]]; then
  options=(--dry-run --Werror)
  shift
fi
if (($# > 0)); then
  clang-format-19 "${options[@]}" "$@"
else
  sources | xargs --no-run-if-empty --max-args=32 --max-procs="$(nproc)" clang-format-19 "${options[@]}"
fi
