#!/usr/bin/env bash
# Fuzzes what reads bytes of a peer, longer than the tests do.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/fuzz.sh [--seconds N] [TARGET...]

Builds build/asan and fuzzes the targets, or all of them, one after the other: frames, conversations and
batches for 10 minutes, metadata for 2, or each for --seconds. What is found interesting stays in
build/asan/fuzz/corpus/TARGET for the next run; an input that breaks something is named and stays in
build/asan/fuzz/artifacts.
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
  echo "broken: ${broken[*]}" >&2
  exit 1
fi
