#!/usr/bin/env bash
# Runs clang-tidy over what changed since main (--all: over everything)

if [[ ${1-} == --help ]]; then
  echo "Usage: scripts/dev lint [--all | FILE...]"
  echo "Runs clang-tidy-19 over the .cc files named, all, or those that differ from main; as build/release compiles them."
  exit 0
fi
command -v clang-tidy-19 >/dev/null || { echo "SKIPPED: clang-tidy-19 is missing; scripts/bootstrap.sh installs it"; exit 77; }
[[ -f build/release/compile_commands.json ]] || { echo "lint: build first: scripts/build.sh release" >&2; exit 2; }
case "${1-}" in
  --all) mapfile -t files < <(sources '*.cc') ;;
  "") mapfile -t files < <(git diff --name-only --diff-filter=d "$(git merge-base main HEAD)" -- '*.cc') ;;
  *) files=("$@") ;;
esac
if ((${#files[@]} == 0)); then
  echo "lint: nothing to look at"
  exit 0
fi
printf '%s\n' "${files[@]}" | xargs --max-args=1 --max-procs="$(nproc)" clang-tidy-19 --quiet -p build/release
