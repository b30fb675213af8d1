#!/usr/bin/env bash
# That the benches of whole training run say what they should; never how fast.
set -euo pipefail
. tests/bench/expect.sh
small=(--models light --samples 16384 --ids 2000)

bench/e2e/bench_training "${small[@]}" --batch 512 --json >"$out/training.jsonl"
expect "points" "$(jq --slurp --compact-output 'map([.peer, .model, .batch_size, .precision])' "$out/training.jsonl")" \
  '[["simurgh","light",512,"f32"],["simurgh","light",512,"bf16"]]'
expect "numbers" "$(jq 'select((.samples_per_s > 0 and .auc > 0.3 and .auc <= 1 and .peak_rss_mb > 1) | not)' "$out/training.jsonl")" ""
expect "an unknown model's exit code" "$(bench/e2e/bench_training --models huge 2>/dev/null; echo $?)" 2

compare() { bench/e2e/compare_modes "${small[@]}" --batch 512 --out "$out/modes" "$@" >"$out/log" 2>&1 || cat "$out/log"; }
compare --modes sync,hybrid --ranks 1,2
expect "runs" "$(jq --slurp --compact-output 'map([.mode, .ranks, .seed])' "$out/modes/results.jsonl")" \
  '[["sync",1,1],["hybrid",1,1],["sync",2,1],["hybrid",2,1]]'
expect "sync is not stale" "$(jq --slurp 'map(select(.mode == "sync").staleness) | max' "$out/modes/results.jsonl")" 0
expect "samples of all ranks" "$(tail -qn 1 "$out"/modes/curves/light-sync-[12]-1.tsv | awk '{ sum += $2 * NR } END { print sum }')" 32768
expect "rows of the table" "$(grep -cE "^\| (sync|hybrid) \| [12] " "$out/modes/report.md")" 4
compare --modes async,naive_hybrid --ranks 2 --seeds 1,2
expect "runs of two seeds" "$(jq --slurp --compact-output 'map([.mode, .seed])' "$out/modes/results.jsonl")" \
  '[["async",1],["naive_hybrid",1],["async",2],["naive_hybrid",2]]'
expect "dense weights are late in async alone" \
  "$(jq 'select((.dense_staleness > 0) != (.mode == "async"))' "$out/modes/results.jsonl")" ""
expect "times to an AUC, of the seeds and of each run" "$(grep -c "| seconds to AUC 0" "$out/modes/report.md")" 2
expect "columns of the means" "$(sed -nE '/^\| 2 \| (async|naive_hybrid) \| 2 /s/[^|]//gp' "$out/modes/report.md" | sort -u)" "||||||||||||"
came=$(sed -nE 's/^\| (async|naive_hybrid) \| 2 \| [12] \|[^|]*\|[^|]*\| ([0-9.]+) .*/\2/p' "$out/modes/report.md" | wc -l)
expect "some run comes near the best AUC" "$((came > 0))" 1
expect "means over two seeds" "$(grep -cE "^\| 2 \| (async|naive_hybrid) \| 2 " "$out/modes/report.md")" 2
for plot in light-samples light-time; do
  [[ -s $out/modes/$plot.svg && -s $out/modes/$plot.png ]] || expect "$plot" missing drawn
done

# A step of sync asks servers for rows and then gives gradients back, each over two hops and back: 8 times the delay, and no machine
# is faster. Without a delay a step takes some milliseconds.
slow_run() {  # slow_run KIND OPTION...
  local kind=$1
  shift
  compare --modes sync --ranks 1 --delay-ms 20 "$@"
  expect "a step through $kind takes its delays" \
    "$(jq '.samples_per_s > 0 and .samples_per_s <= 512 / (8 * 0.020)' "$out/modes/results.jsonl")" true
  expect "the report tells of the network" "$(grep -c "20 ms one way" "$out/modes/report.md")" 1
}
slow_run proxies --proxies
if [[ $(id -u) == 0 && -c /dev/net/tun ]] && ip netns add "simurgh-test-$$" 2>/dev/null; then
  ip netns del "simurgh-test-$$"
  slow_run hosts
  expect "hosts left over" "$(ip netns | grep -c "^simurgh-$$" || true)" 0
else
  echo "no network namespaces here: hosts of their own are not tried"
fi
exit $((failures > 0))
