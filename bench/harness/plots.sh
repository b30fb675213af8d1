# Draws one SVG per value, with a panel per page.

# plot_series NAME VALUE: prints "page <tab> series <tab> x <tab> y" of the medians.
plot_series() {
  jq_of_bench --raw-output --arg x "$plot_x" --arg y "$2" --argjson pages "$(list_of "${plot_pages[@]}")" '
    .rows[]
    | . as $row
    | [$pages[] as $page | "\($page) \($row.point[$page])"] as $page
    | ($keys - $pages - [$x] | map($row.point[.] | tostring)) + ([.subject] - [""]) | join(" ") as $series
    | select($row.medians[$y] != null)
    | [($page | join(", ")), $series, $row.point[$x], $row.medians[$y]] | @tsv' "$out/$1.summary.json"
}

draw_plots() {
  local name=$1 value
  describe "$name"
  for value in "${plot_y[@]}"; do draw_plot "$name" "$value"; done
}

draw_plot() {
  local name=$1 value=$2 scratch pages
  scratch=$(mktemp --directory)
  plot_series "$name" "$value" >"$scratch/all.tsv"
  mapfile -t pages < <(cut -f 1 "$scratch/all.tsv" | awk '!seen[$0]++')
  # Rows of panels: the first keys. Columns: the last key.
  local columns
  columns=$(sed "s/.*, //" <<<"$(printf "%s\n" "${pages[@]}")" | sort -u | wc -l)
  local lines=$(((${#pages[@]} + columns - 1) / columns))
  {
    echo "set terminal svg size $((columns * 360)),$((lines * 340)) font 'sans-serif,11' background '#ffffff'"
    echo "set output '$out/$name-$value.svg'"
    echo 'set datafile separator tab'
    echo "set logscale xy; set grid; set key below; set format x '%.0s%c'"
    echo "set xlabel '$plot_x' noenhanced; set ylabel '$value' noenhanced"
    echo "set multiplot layout $lines,$columns"
    local page i=0
    for page in "${pages[@]}"; do
      echo "set title '$page' noenhanced"
      plot_page "$scratch" "$page" "$((i++))"
    done
    echo "unset multiplot"
  } >"$scratch/plot.gp"
  gnuplot "$scratch/plot.gp"
  rm -r "$scratch"
}

# Writes a file of points and a clause of `plot` per series.
plot_page() {
  local scratch=$1 page=$2 number=$3 series clauses=() file
  while IFS= read -r series; do
    file="$scratch/$number-${#clauses[@]}.tsv"
    awk -F '\t' -v page="$page" -v series="$series" \
      '$1 == page && $2 == series { print $3 "\t" $4 }' "$scratch/all.tsv" | sort -n >"$file"
    clauses+=("'$file' using 1:2 with linespoints title '$series' noenhanced")
  done < <(awk -F '\t' -v page="$page" '$1 == page && !seen[$2]++ { print $2 }' "$scratch/all.tsv")
  local IFS=,
  echo "plot ${clauses[*]}"
}
