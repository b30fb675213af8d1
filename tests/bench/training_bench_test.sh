#!/usr/bin/env bash
# That the benches of whole training run say what they should; never how fast.
set -euo pipefail
for tool in jq gnuplot; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: skipped"; exit 77; }
done

out=$(mktemp --directory)
trap 'rm -r "$out"' EXIT
failures=0
expect() {  # expect WHAT ACTUAL EXPECTED
  [[ $2 == "$3" ]] && return
  echo "$1: '$2' and not '$3'"
  failures=$((failures + 1))
}
small=(--models light --samples 4096 --ids 2000)

bench/e2e/bench_training "${small[@]}" --batch 512,1024 --json >"$out/training.jsonl"
expect "points" "$(jq --slurp --compact-output 'map([.peer, .model, .batch_size])' "$out/training.jsonl")" \
  '[["simurgh","light",512],["simurgh","light",1024]]'
expect "numbers" "$(jq 'select((.samples_per_s > 0 and .auc > 0.3 and .auc <= 1 and .peak_rss_mb > 1) | not)' "$out/training.jsonl")" ""
expect "an unknown model's exit code" "$(bench/e2e/bench_training --models huge 2>/dev/null; echo $?)" 2

exit $((failures > 0))
