#!/usr/bin/env bash
# The bench of checkpoints while training and of a killed server writes its measurements; speed is not tested.
set -euo pipefail
. tests/bench/expect.sh

bench/e2e/bench_recovery --samples 100000 --ids 20000 --epochs 5 --batch 512 --every 1 --turns 1 --json >"$out/recovery.jsonl"
expect "cases" "$(jq --slurp --compact-output 'map(.case)' "$out/recovery.jsonl")" '["training","kill"]'
expect "training" "$(jq 'select(.case == "training" and (.checkpoints > 0 and .share > 0 and .most_wait_s >= .wait_s | not))' "$out/recovery.jsonl")" ""
expect "kill" "$(jq 'select(.case == "kill" and (.seconds > .load_s and .rows > 0 | not))' "$out/recovery.jsonl")" ""
expect "exit code of a bad option" "$(bench/e2e/bench_recovery --turns x 2>/dev/null; echo $?)" 2
((failures == 0))
