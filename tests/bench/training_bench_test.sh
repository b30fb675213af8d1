#!/usr/bin/env bash
# The benches of whole training runs write their measurements, curves and reports; speed is not tested.
set -euo pipefail
. tests/bench/expect.sh
small=(--models light --samples 16384 --ids 2000 --batch 512)

bench/e2e/bench_training "${small[@]}" --json >"$out/training.jsonl"
expect "points" "$(jq --slurp --compact-output 'map([.peer, .model, .batch_size, .precision])' "$out/training.jsonl")" \
  '[["simurgh","light",512,"f32"],["simurgh","light",512,"bf16"]]'
expect "numbers" "$(jq 'select((.samples_per_s > 0 and .auc > 0.3 and .auc <= 1 and .peak_rss_mb > 1) | not)' "$out/training.jsonl")" ""
expect "exit code of an unknown model" "$(bench/e2e/bench_training --models huge 2>/dev/null; echo $?)" 2

bench/e2e/bench_job --models light,deepfm,dlrm --samples 20000 --ids 2000 --batch 512 --json >"$out/job.jsonl"
expect "jobs" "$(jq --slurp --compact-output 'map([.job, .model])' "$out/job.jsonl")" \
  "$(jq --null-input --compact-output '["light", "deepfm", "dlrm"] | map(["simurgh", .], ["simurgh-standalone", .])')"
expect "costs" "$(jq 'select((.seconds > 0 and .cpu_s > 0 and .peak_mb > 1 and .auc > 0.3 and .auc <= 1) | not)' "$out/job.jsonl")" ""
expect "exit code of an unknown network" "$(bench/e2e/bench_job --models huge 2>/dev/null; echo $?)" 2

compare() { bench/e2e/compare_modes "${small[@]}" --out "$out/modes" "$@" >"$out/log" 2>&1 || cat "$out/log"; }
compare --modes sync,async-4 --ranks 1,2
expect "runs" "$(jq --slurp --compact-output 'map([.mode, .ranks, .seed])' "$out/modes/results.jsonl")" \
  '[["sync",1,1],["async-4",1,1],["sync",2,1],["async-4",2,1]]'
expect "stale dense weights" "$(jq 'select((.dense_staleness > 0) != (.mode == "async-4"))' "$out/modes/results.jsonl")" ""
expect "samples of all ranks" "$(tail -qn 1 "$out"/modes/curves/light-sync-[12]-1.tsv | awk '{ sum += $2 * NR } END { print sum }')" 32768
expect "rows of the table" "$(grep -cE "^\| (sync|async-4) \| [12] " "$out/modes/report.md")" 4
for plot in light-samples light-time; do [[ -s $out/modes/$plot.svg ]] || expect "$plot" missing drawn; done

# A push of sync goes over two hops, and the rows that waited for it come back over two: 4 delays in a step, independent of
# the machine's speed.
compare --modes sync --ranks 1 --delay-ms 20
expect "a step takes its delays" "$(jq '.samples_per_s > 0 and .samples_per_s <= 512 / (4 * 0.020)' "$out/modes/results.jsonl")" true
expect "delay in the report" "$(grep -c "20 ms one way" "$out/modes/report.md")" 1
((failures == 0))
