#!/usr/bin/env bash
# Fuzzes the code that reads bytes of a peer, for longer than the tests do.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/fuzz.sh [--seconds N] [TARGET...]

Builds build/asan and fuzzes the targets (default: all) one after another. Keeps new inputs in
build/asan/fuzz/corpus/TARGET for the next run. Reports failing inputs and keeps them in build/asan/fuzz/artifacts.

  --seconds N  time per target (default: 600 for frames, conversations and batches, 120 for metadata)
  --help       print this text
TEXT
}

seconds=
targets=()
while (($# > 0)); do
  case "$1" in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done

scripts/build.sh asan rpc_fuzz
program=build/asan/bin/rpc_fuzz
((${#targets[@]} > 0)) || mapfile -t targets < <("$program" --list)

broken=()
for target in "${targets[@]}"; do
  case "$target" in
    frame | *_conversation | submit_batch | feed_batch) own=600 ;;
    *) own=120 ;;
  esac
  echo "$target: ${seconds:-$own} s"
  tests/fuzz/run.sh "$program" "$target" "${seconds:-$own}" build/asan/fuzz || broken+=("$target")
done
if ((${#broken[@]} > 0)); then
  echo "failed: ${broken[*]}" >&2
  exit 1
fi
