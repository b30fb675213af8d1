#!/usr/bin/env bash
# The bench of the online server writes its measurements; speed is not tested.
set -euo pipefail
. tests/bench/expect.sh

# Cases without a load generator.
bench/e2e/bench_serving --cases fresh,load,recommend --seconds 1 --samples 50000 --ids 20000 --load-samples 20000 --fresh 10 --turns 1 --json \
  >"$out/serving.jsonl"
expect "cases" "$(jq --slurp --compact-output 'map(.case)' "$out/serving.jsonl")" '["fresh","load","recommend"]'
expect "fresh" "$(jq 'select(.case == "fresh" and (.versions >= 1 and .late_s > 0 and .within > 0 | not))' "$out/serving.jsonl")" ""
expect "load" "$(jq 'select(.case == "load" and (.rows > 20000 and .share > 0 and .memory_share > 1 | not))' "$out/serving.jsonl")" ""
expect "recommend" "$(jq 'select(.case == "recommend" and (.p99_ms > 0 and .plain_p99_ms > 0 and .failed == 0 | not))' "$out/serving.jsonl")" ""
expect "exit code of an unknown case" "$(bench/e2e/bench_serving --cases lowest 2>/dev/null; echo $?)" 2
((failures == 0))
