#!/usr/bin/env bash
# Formats the C and C++ files (--check: lists unformatted files)

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev format [--check] [FILE...]

Runs clang-format-19 on the FILEs (default: all). --check changes nothing and fails if a file is unformatted.
TEXT
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
