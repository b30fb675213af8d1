#!/usr/bin/env bash
# Runs clang-tidy on the files that differ from main (--all, --sample: on all files, on one per folder)

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev lint [--build DIR] [--all | --sample | FILE...]

Runs clang-tidy-19 on the FILEs, with the flags of DIR/compile_commands.json (default: build/lint, which it makes as a
release build of single sources). Without FILEs, lints the .cc files that differ from main. With --all, lints all files
that DIR compiles, which takes about half an hour on two cores. With --sample, lints the first file of each folder,
which takes about three minutes.
TEXT
  exit 0
fi
command -v clang-tidy-19 >/dev/null || { echo "SKIPPED: clang-tidy-19 is missing; scripts/bootstrap.sh installs it"; exit 77; }
build=build/lint
if [[ ${1-} == --build ]]; then
  build=${2:?--build needs a folder}
  shift 2
else
  cmake --preset release -B "$build" -DCMAKE_UNITY_BUILD=OFF >/dev/null
  mapfile -t generated < <(ninja -C "$build" -t targets all | sed -n 's/^\([a-z_]*_generated\): phony$/\1/p')
  ninja -C "$build" --quiet "${generated[@]}"
fi
[[ -f $build/compile_commands.json ]] || { echo "lint: $build has no compile_commands.json" >&2; exit 2; }
# The files of the tree that the build compiles.
compiled() {
  sed -n "s|^ *\"file\": \"$PWD/\(.*\.cc\)\",*\$|\1|p" "$build/compile_commands.json" | grep -v '^build/' | sort -u
}
case "${1-}" in
  --all) mapfile -t files < <(compiled) ;;
  --sample) mapfile -t files < <(compiled | awk -F / '{ folder = $0; sub("/[^/]*$", "", folder) } !seen[folder]++') ;;
  "") mapfile -t files < <(git diff --name-only --diff-filter=d "$(git merge-base main HEAD)" -- '*.cc') ;;
  *) files=("$@") ;;
esac
if ((${#files[@]} == 0)); then
  echo "lint: no files to check"
  exit 0
fi
# clang-tidy takes half the time without the precompiled headers.
commands=$(mktemp --directory)
trap 'rm -r "$commands"' EXIT
sed -E 's/ -Xclang -include(-pch)? -Xclang [^ ]*cmake_pch[^ ]*//g' "$build/compile_commands.json" >"$commands/compile_commands.json"
printf '%s\n' "${files[@]}" | xargs --max-args=1 --max-procs="$(nproc)" clang-tidy-19 --quiet -p "$commands"
