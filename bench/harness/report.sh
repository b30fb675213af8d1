# The report in Markdown.

markdown_table() {
  awk -F '\t' '
    { gsub(/\|/, "\\|"); line = "|"; for (i = 1; i <= NF; ++i) line = line " " $i " |"; print line }
    NR == 1 { line = "|"; for (i = 1; i <= NF; ++i) line = line "---|"; print line }'
}

write_report() {
  local name value ratio_table
  echo "# Measurements"
  echo
  jq --raw-output '"| | |\n|---|---|", (to_entries[] | "| \(.key) | \(.value) |")' "$out/machine.json"
  for name in "$@"; do
    describe "$name"
    printf '\n## %s\n\n%s. bench/README.md explains the columns.\n' "$name" "${summary^}"
    ratio_table=$(table_lines "$name" ratio_lines | markdown_table)
    [[ -z $ratio_table ]] || printf '\nRatios of medians, ours over theirs:\n\n%s\n' "$ratio_table"
    echo
    for value in "${plot_y[@]}"; do printf '![%s](%s-%s.svg)\n' "$value" "$name" "$value"; done
    printf '\nMedians; ±%% is half the range of the first value over its median:\n\n'
    table_lines "$name" median_lines | markdown_table
  done
}
