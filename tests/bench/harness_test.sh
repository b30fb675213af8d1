#!/usr/bin/env bash
# The harness's medians, spreads, ratios, tables and report, from measurements made up here.
set -euo pipefail
. tests/bench/expect.sh
for part in record rounds table plots report; do . "bench/harness/$part.sh"; done

sample() {  # sample PEER BYTES RPS CPU [TRANSPORT]
  echo "{\"work\":\"echo\",\"peer\":\"$1\",\"transport\":\"${5:-tcp}\",\"bytes\":$2,\"in_flight\":1,\"rps\":$3,\"gbps\":1,\"p50_us\":1,
    \"p99_us\":1,\"p999_us\":1,\"cpu_s_per_gb\":$4,\"peak_rss_mb\":1,\"extra_rss_mb\":1,\"other_cores\":0}"
}
{
  sample simurgh 1048576 100 2
  sample raw 1048576 400 1
  sample simurgh 1048576 300 4
  sample raw 1048576 200 3
  sample simurgh 1048576 200 3
  sample grpc 1048576 50 6
  sample grpc-bytebuffer 1048576 80 12
  sample simurgh 64 1000 1
  sample simurgh 64 3000 2 unix
} >"$out/rpc.jsonl"
summarise rpc

of() { jq --raw-output ".rows[] | select(.point.bytes == $1 and .subject == \"$2\") | $3" "$out/rpc.summary.json"; }
expect "rows" "$(jq '.rows | length' "$out/rpc.summary.json")" 6
expect "smaller sizes come first" "$(jq '.rows[0].point.bytes' "$out/rpc.summary.json")" 64
expect "count" "$(of 1048576 simurgh .count)" 3
expect "odd median" "$(of 1048576 simurgh .medians.rps)" 200
expect "even median" "$(of 1048576 raw .medians.rps)" 300
expect "spread" "$(of 1048576 simurgh .spreads.rps)" 0.5
expect "spread of one" "$(of 64 simurgh .spreads.rps | head -n 1)" 0

ratio_lines=$(table_lines rpc ratio_lines)
expect "ratios, the faster of gRPC's two" "$(tail -n 1 <<<"$ratio_lines")" $'echo\t1Mi\t1\ttcp\t0.67\t1.5\t2.5\t0.25\t-\t-'
expect "ratios to our own over TCP" "$(sed -n 2p <<<"$ratio_lines")" $'echo\t64\t1\tunix\t-\t-\t-\t-\t3\t2'
expect "no line for who has no rival" "$(wc -l <<<"$ratio_lines")" 3

print_table rpc >"$out/table.txt"
expect "lines of the table" "$(grep -c '^echo' "$out/table.txt")" 8
draw_plots rpc
for value in rps gbps p50_us cpu_s_per_gb; do
  expect "plot of $value" "$(grep -c '</svg>' "$out/rpc-$value.svg")" 1
done
record_machine "bench/run rpc" >"$out/machine.json"
expect "command" "$(jq --raw-output .command "$out/machine.json")" "bench/run rpc"
write_report rpc >"$out/report.md"
expect "report names its plots" "$(grep -c '^!\[.*svg)$' "$out/report.md")" 4

for name in $(all_benches); do
  describe "$name"
  for needed in summary program plot_x; do expect "bench/$name.bench says $needed" "${!needed:+yes}" yes; done
done
((failures == 0))
