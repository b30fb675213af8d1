#!/usr/bin/env bash
# harness_test.sh PROGRAM FOLDER TARGET...: a target that is broken is found out, and every target is a test.
set -euo pipefail
program=$1 folder=$2
shift 2

failures=0
complain() {
  echo "$1"
  failures=$((failures + 1))
}

listed=$("$program" --list | sort)
tested=$(printf '%s\n' "$@" | sort)
[[ $listed == "$tested" ]] || complain "the program's targets and the tests differ:
$(diff <(echo "$listed") <(echo "$tested") || true)"

rm -rf "$folder"
mkdir -p "$folder"
if tests/fuzz/run.sh "$program" canary 20 "$folder" >"$folder/output"; then
  complain "the canary lived:"
  cat "$folder/output"
fi
grep -q heap-buffer-overflow "$folder/output" || complain "its end has not been told"
found=("$folder"/artifacts/canary-crash-*)
if [[ ! -f ${found[0]} ]]; then
  complain "the input that killed the canary has not been kept"
elif "$program" canary "${found[0]}" >"$folder/again" 2>&1; then
  complain "the input that killed the canary does not kill it again"
fi
((failures == 0))
