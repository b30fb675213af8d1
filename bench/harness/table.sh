# Medians, spreads and ratios, as numbers and as tables.

list_of() { jq --compact-output --null-input '$ARGS.positional' --args "$@"; }

# jq with the variables of a bench's description.
jq_of_bench() {
  jq --argjson keys "$(list_of "${keys[@]}")" --arg subject "$subject" --arg own "$own" \
    --argjson values "$(list_of "${values[@]}")" --argjson ratios "$(list_of "${ratios[@]}")" \
    --argjson against "$(list_of "${against[@]}")" \
    --argjson rivals "$(list_of "${rivals[@]}" | jq --compact-output 'map(split(" "))')" "$@"
}

summarise() {
  describe "$1"
  jq_of_bench --slurp --from-file bench/harness/summary.jq "$out/$1.jsonl" >"$out/$1.summary.json"
}

# table_lines NAME median_lines|ratio_lines: tab-separated lines, the header first.
table_lines() {
  describe "$1"
  jq_of_bench --raw-output "$(<bench/harness/format.jq) $2 | @tsv" "$out/$1.summary.json"
}

# Pads columns; left-aligns words and right-aligns numbers.
align() {
  awk -F '\t' '
    { for (i = 1; i <= NF; ++i) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } if (NF > most) most = NF }
    END {
      for (row = 1; row <= NR; ++row) {
        line = ""
        for (i = 1; i <= most; ++i) {
          text = cell[row, i]
          pad = sprintf("%" (width[i] - length(text)) "s", "")
          if (width[i] == length(text)) pad = ""
          line = line (i > 1 ? "  " : "") (cell[2, i] ~ /^-?[0-9.]+(Ki|Mi)?$/ || text ~ /^-?[0-9.]+$/ ? pad text : text pad)
        }
        sub(/ +$/, "", line)
        print line
      }
    }'
}

print_table() {
  local name=$1 ratio_table
  describe "$name"
  echo
  echo "$name: $summary (medians of $(jq '[.rows[].count] | max' "$out/$name.summary.json"))"
  table_lines "$name" median_lines | align
  ratio_table=$(table_lines "$name" ratio_lines | align)
  [[ -z $ratio_table ]] || printf '\nratios of medians, ours over theirs\n%s\n' "$ratio_table"
}
