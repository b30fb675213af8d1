#!/usr/bin/env bash
# run.sh PROGRAM TARGET SECONDS FOLDER: fuzzes one target from its seeds, from what earlier runs found in
# FOLDER/corpus, and from what once broke it (regressions/TARGET). An input that breaks something stays in
# FOLDER/artifacts.
set -euo pipefail
program=$1 target=$2 seconds=$3 folder=$4

corpus=$folder/corpus/$target
artifacts=$folder/artifacts
log=$folder/$target.log
mkdir -p "$corpus" "$artifacts"
"$program" "$target" --seeds="$corpus"
regressions=$(dirname "$0")/regressions/$target
inputs=("$corpus")
[[ ! -d $regressions ]] || inputs+=("$regressions")
if ! "$program" "$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$artifacts/$target-" "${inputs[@]}" >"$log" 2>&1; then
  tail -n 60 "$log"
  echo "$target: broken by the input named above; to see it again: $program $target FILE"
  exit 1
fi
executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
echo "$target: $executed inputs in $seconds s, $(find "$corpus" -type f | wc -l) in the corpus"
# A target that stops at its first line, or a program that forgets where it has been, finds nothing.
((executed > 100)) && grep -q 'INITED *cov: [1-9]' "$log"
