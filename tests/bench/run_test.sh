#!/usr/bin/env bash
# bench/run from its command line to its report, in a tree of its own whose benches and build are stubs.
set -euo pipefail
. tests/bench/expect.sh

tree=$out/tree
mkdir -p "$tree/bench" "$tree/scripts" "$tree/tools"
cp -r bench/run bench/harness "$tree/bench"

describe_stub() {  # describe_stub NAME QUICK_ROUNDS
  cat >"$tree/bench/$1.bench" <<TEXT
summary="what $1 measures"
program=bench/stub
targets=(build_$1)
arguments=($1 --json)
quick_arguments=(--quick)
peer_arguments=(--beside)
lone_arguments=(--alone)
rounds=5
quick_rounds=$2
keys=(bytes)
subject=peer
own=ours
values=(rps p50_us)
ratios=(rps)
rivals=(theirs)
plot_x=bytes
plot_y=(rps p50_us)
plot_pages=()
TEXT
}
describe_stub first 3
describe_stub second 1
stub() {  # stub FILE < commands
  { echo '#!/usr/bin/env bash'; cat; } >"$tree/$1"
  chmod +x "$tree/$1"
}
# Faster with each call, and the others half as fast.
stub bench/stub <<'TEXT'
echo "$*" >>calls
[[ $1 != broken ]] || { echo '{"peer":"ours","bytes":64,"rps":1,"p50_us":1}'; exit 3; }
times=$(grep -c "^$1 " calls)
for bytes in 64 65536; do
  echo "{\"peer\":\"ours\",\"bytes\":$bytes,\"rps\":$((100 * times)),\"p50_us\":7}"
  echo "{\"peer\":\"theirs\",\"bytes\":$bytes,\"rps\":$((50 * times)),\"p50_us\":8}"
done
TEXT
stub scripts/build.sh <<<'echo "$*" >>built'
stub tools/cmake <<<'true'

run() {  # run ARGUMENT...: the calls it made, what it printed, and its exit code.
  : >"$tree/calls"
  : >"$tree/built"
  code=0
  PATH=$tree/tools:$PATH "$tree/bench/run" "$@" >"$out/printed" 2>"$out/log" || code=$?
}
results=$out/results
run first second --quick --out "$results"
expect "exit code" "$code" 0
expect "what is built" "$(cat "$tree/built")" "release build_first build_second"
expect "rounds take turns" "$(paste -sd, "$tree/calls")" \
  "first --json --quick --alone,second --json --quick --alone,first --json --quick --alone,first --json --quick --alone"
expect "rounds of the measurements kept" "$(jq --slurp --compact-output 'map(.round)' "$results/first.jsonl")" \
  "[1,1,1,1,2,2,2,2,3,3,3,3]"
expect "a measurement is kept as it was printed" "$(sed -n 7p "$results/first.jsonl")" \
  '{"peer":"ours","bytes":65536,"rps":200,"p50_us":7,"round":2}'
expect "measurements of the other bench" "$(jq --slurp length "$results/second.jsonl")" 4
expect "command" "$(jq --raw-output .command "$results/machine.json")" "bench/run first second --quick --out $results"

squeeze() { tr -s ' ' <"$out/printed" | sed 's/^ //'; }
expect "heads of the tables" "$(grep ' measures ' "$out/printed" | paste -sd,)" \
  "first: what first measures (medians of 3),second: what second measures (medians of 1)"
expect "the table's columns" "$(squeeze | grep -c '^bytes peer rps ±% p50_us$')" 2
expect "medians and spread" "$(squeeze | grep '^64Ki ours ' | head -n 1)" "64Ki ours 200 50 7"
expect "ratios" "$(squeeze | grep -cE '^64(Ki)? 2$')" 4
expect "the last line" "$(tail -n 1 "$out/printed")" "$results/report.md"

report=$results/report.md
expect "headings of the report" "$(grep '^#' "$report" | paste -sd,)" "# Measurements,## first,## second"
expect "its medians" "$(grep -F '| 64Ki | ours |' "$report" | head -n 1)" "| 64Ki | ours | 200 | 50 | 7 |"
expect "its ratios" "$(grep -cF '| 64Ki | 2 |' "$report")" 2
expect "its plots" "$(sed -nE 's/^!\[.*\]\((.*)\)$/\1/p' "$report" | paste -sd,)" \
  "first-rps.svg,first-p50_us.svg,second-rps.svg,second-p50_us.svg"
for plot in {first,second}-{rps,p50_us}; do expect "$plot" "$(grep -c '</svg>' "$results/$plot.svg")" 1; done

run second --rounds 2 --peers --no-build --out "$results"
expect "nothing is built" "$(cat "$tree/built")" ""
expect "rounds asked for, beside others" "$(paste -sd, "$tree/calls")" "second --json --beside,second --json --beside"
run --quick --no-build
expect "all benches without a name" "$(cut -d ' ' -f 1 "$tree/calls" | paste -sd,)" "first,second,first,first"
expect "a folder of its own" "$(tail -n 1 "$out/printed" | grep -c "^$tree/build/bench/.*Z/report.md$")" 1
run third --out "$out/none"
expect "exit code without such a bench" "$code: $(cat "$out/log")" "2: bench/run: no bench 'third'; there are: first second"
describe_stub broken 2
run broken --quick --no-build --out "$results"
expect "exit code when a program fails" "$code: $(tail -n 1 "$out/log")" \
  "2: bench/run: bench/stub did not succeed; what it measured is in $results/broken.jsonl"
expect "what it measured" "$(wc -l <"$results/broken.jsonl")" 1
((failures == 0))
