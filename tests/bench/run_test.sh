#!/usr/bin/env bash
# bench/run with stubs for benches and build: calls, medians, ratios, report and errors.
set -euo pipefail
. tests/bench/expect.sh

tree=$out/tree
mkdir -p "$tree/bench" "$tree/scripts" "$tree/tools"
cp -r bench/run bench/harness "$tree/bench"
describe_stub() {  # describe_stub NAME QUICK_ROUNDS
  sed "s/NAME/$1/; s/ROUNDS/$2/" >"$tree/bench/$1.bench" <<'STUB'
summary="the time of NAME" program=bench/stub targets=(build) rounds=5 quick_rounds=ROUNDS
arguments=(NAME) quick_arguments=(--quick) peer_arguments=(--peers) lone_arguments=(--alone)
keys=(bytes) subject=peer own=ours values=(rps p50_us) ratios=(rps) rivals=("theirs slow") plot_x=bytes plot_y=(rps)
STUB
  sed -i "s/NAME/$1/g" "$tree/bench/$1.bench"
}
describe_stub first 3
describe_stub second 1
# Our rate grows with each call; theirs is half of it.
cat >"$tree/bench/stub" <<'STUB'
#!/usr/bin/env bash
echo "$*" >>calls
[[ $1 != broken ]] || { echo '{"peer":"ours","bytes":64,"rps":1,"p50_us":1}'; exit 3; }
rps=$((100 * $(grep -c "^$1 " calls)))
for peer in "ours 1 7" "theirs 2 8" "slow 4 9"; do
  read -r name divisor p50 <<<"$peer"
  echo "{\"peer\":\"$name\",\"bytes\":65536,\"rps\":$((rps / divisor)),\"p50_us\":$p50}"
done
STUB
printf '#!/usr/bin/env bash\necho "$*" >>built\n' >"$tree/scripts/build.sh"
printf '#!/usr/bin/env bash\n' >"$tree/tools/cmake"
chmod +x "$tree/bench/stub" "$tree/scripts/build.sh" "$tree/tools/cmake"

run() {
  : >"$tree/calls"
  : >"$tree/built"
  code=0
  PATH=$tree/tools:$PATH "$tree/bench/run" "$@" >"$out/printed" 2>"$out/log" || code=$?
}
results=$out/results
run first second --quick --out "$results"
expect "exit code" "$code" 0
expect "targets" "$(cat "$tree/built")" "release build build"
expect "calls" "$(paste -sd, "$tree/calls")" \
  "first --quick --alone,second --quick --alone,first --quick --alone,first --quick --alone"
expect "rounds in the JSON" "$(jq --slurp --compact-output 'map(.round)' "$results/first.jsonl")" "[1,1,1,2,2,2,3,3,3]"
report=$results/report.md
expect "headings" "$(grep '^#' "$report" | paste -sd,)" "# Measurements,## first,## second"
expect "median and spread" "$(grep -F '| 64Ki | ours |' "$report" | head -n 1)" "| 64Ki | ours | 200 | 50 | 7 |"
expect "ratio to the best rival" "$(grep -cF '| 64Ki | 2 |' "$report")" 2
for name in first second; do expect "$name's plot" "$(grep -c '</svg>' "$results/$name-rps.svg")" 1; done
expect "last line" "$(tail -n 1 "$out/printed")" "$report"

run second --rounds 2 --peers --no-build --out "$results"
expect "no build" "$(cat "$tree/built")" ""
expect "calls with peers" "$(paste -sd, "$tree/calls")" "second --peers,second --peers"
run third --out "$out/none"
expect "unknown bench" "$code: $(cat "$out/log")" "2: bench/run: unknown bench 'third'; use one of: first second"
describe_stub broken 2
run broken --quick --no-build --out "$results"
expect "failing bench" "$code: $(tail -n 1 "$out/log")" \
  "2: bench/run: bench/stub failed; its measurements are in $results/broken.jsonl"
expect "kept measurements" "$(wc -l <"$results/broken.jsonl")" 1
((failures == 0))
