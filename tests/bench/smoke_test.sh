#!/usr/bin/env bash
# smoke_test.sh BENCH: a short run prints a measurement per point, and a bad option ends the bench; speed is not tested.
set -euo pipefail
. tests/bench/expect.sh

declare -A arguments=(
  [batch]="--distribution zipf1.05,uniform --samples 64,2000 --turns 1 --missing 0"
  [checkpoint]="--rows 70000 --dim 4 --turns 2"
  [collective]="--ranks 2,3 --bytes 1000,64Ki --megabytes 0.1 --turns 1"
  [nn]="--model light --batch 8,16 --precision f32 --threads 1 --seconds 0.001 --turns 1"
  [ps]="--transport tcp,shm --dim 4 --in-flight 2 --partitions 1 --rows 65536 --seconds 0.02 --turns 1"
  [retrieval]="--items 3000 --graph-items 500 --dim 16 --k 10 --queries 1,3 --turns 2"
  [rpc]="--peers=raw --work echo,produce --transport tcp,shm --bytes 64,8Mi --in-flight 8 --repeat 1 --seconds 0.02"
  [table]="--dim 4 --rows 65536 --turns 1"
  [worker]="--transport tcp --precision f32,int8 --row-age 0,3 --samples 256 --seconds 0.05 --turns 1"
)
# The fields that tell points apart, and how many points there are.
declare -A keys=([batch]="distribution samples" [checkpoint]="work" [collective]="transport ranks work bytes" [nn]="batch part" [ps]="transport" [retrieval]="search items queries" [rpc]="peer work transport bytes"
  [table]="case distribution" [worker]="precision row_age")
declare -A points=([batch]=4 [checkpoint]=3 [collective]=28 [nn]=34 [ps]=2 [retrieval]=12 [rpc]=18 [table]=23 [worker]=4)
# What holds for each measurement.
declare -A holds=(
  [batch]='.occurrences == 26 * .samples and .entropy <= .of_bare and .decode_per_s > 0'
  [checkpoint]='.seconds > 0 and .rows_per_s > 0'
  [collective]='.us > 0'
  [nn]='.ms >= 0'
  [ps]='.share > 0'
  [retrieval]='.ms > 0 and .recall > 0.9'
  [rpc]='.rps > 0 and .p50_us <= .p99_us and (.peer == "raw" or .extra_rss_mb <= 8)'
  [table]='.rows_per_s > 0'
  [worker]='.occ_per_s > 0 and ((.row_age > 0) == (.row_cache > 0))'
)

program=$SIMURGH_BIN_DIR/bench_$1
read -ra words <<<"${arguments[$1]}"
"$program" --json "${words[@]}" >"$out/measurements"
point=$(printf '.%s,' ${keys[$1]})
expect "points" "$(jq --compact-output "[${point%,}]" "$out/measurements" | sort -u | wc -l)" "${points[$1]}"
expect "implausible measurements" "$(jq --compact-output "select((${holds[$1]}) | not)" "$out/measurements")" ""
option=--turns
[[ $1 == rpc ]] && option=--repeat
code=0
"$program" "$option" 0 >"$out/printed" 2>&1 || code=$?
expect "a bad option's exit code and message" "$code $(cat "$out/printed")" \
  "2 bench_$1: $option: '0' is out of range; use 1 to 1000 (--help lists the options)"
"$program" --help >"$out/printed"
expect "--help" "$(grep -c "^bench_$1: " "$out/printed")" 1
((failures == 0))
