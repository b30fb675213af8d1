# Makes the table and the plots of compare_modes from $out/results.jsonl, whose lines name their curves.

# The AUC of fewer predictions is noise.
fewest_predictions=5000

# curve_of LOG: prints seconds since the first step, samples and AUC of the latest predictions, tab-separated; at least one line.
curve_of() {
  sed -nE 's/^[^T]*T([0-9]+):([0-9]+):([0-9.]+)Z .* progress: step=[0-9]+ samples=([0-9]+) loss=[^ ]* auc=([0-9.]+) samples_per_s=([0-9]+) .*/\1 \2 \3 \4 \5 \6/p' "$1" |
    awk -v OFS='\t' -v fewest="$fewest_predictions" '
      { seconds = $1 * 3600 + $2 * 60 + $3 }
      NR == 1 { first = seconds - $4 / $6 }
      seconds < first { seconds += 86400 }
      { point = seconds - first OFS $4 OFS $5 }
      $4 >= fewest { print point; ++points }
      END { if (!points) print point }'
}

# mean_of_progress LOG NAME: the mean of NAME=... over the lines of progress; 0 without any.
mean_of_progress() {
  sed -nE "s/.* progress: .* $2=([0-9.]+).*/\1/p" "$1" | awk '{ sum += $1 } END { printf "%.3f\n", NR ? sum / NR : 0 }'
}

# time_to_auc CURVE AUC: seconds, or "never".
time_to_auc() {
  awk -v target="$2" '$3 >= target { printf "%.2f\n", $1; found = 1; exit } END { if (!found) print "never" }' "$1"
}

# target_of MODEL: 0.99 of the best AUC that a curve ends with.
target_of() {
  [[ -z $target_auc ]] || { echo "$target_auc"; return; }
  local curve
  jq --raw-output --arg model "$1" 'select(.model == $model).curve' "$out/results.jsonl" |
    while read -r curve; do tail -n 1 "$out/$curve"; done |
    awk '$3 > best { best = $3 } END { printf "%.4f\n", 0.99 * best }'
}

# write_tables COMMAND TEACHER NETWORK: prints runs and means over seeds by model. NETWORK: a sentence or empty.
write_tables() {
  local model
  echo "# Modes of training"
  echo
  echo "\`$1\`"
  echo
  echo "The teacher that drew the labels has AUC $(jq .teacher_auc "$2") on the test rows.${3:+ $3}"
  for model in ${models//,/ }; do
    echo
    echo "## $model"
    echo
    write_means "$model"
    echo
    write_runs "$model"
    echo
    echo "![AUC over samples]($model-samples.svg) ![AUC over time]($model-time.svg)"
  done
}

# time_of_runs MODEL AUC: prints ranks, mode and time to the AUC of each run, tab-separated.
time_of_runs() {
  local curve line
  jq --raw-output --arg model "$1" 'select(.model == $model) | [.curve, .ranks, .mode] | @tsv' "$out/results.jsonl" |
    while read -r curve line; do printf '%s\t%s\n' "$line" "$(time_to_auc "$out/$curve" "$2")"; done
}

# write_means MODEL: prints over the seeds the medians of throughput and time to the AUC, and mean and range of the test AUC.
# "never" is later than any time.
write_means() {
  local target
  target=$(target_of "$1")
  echo "| ranks | mode | seeds | samples/s | test AUC | least | most | log loss | seconds to AUC $target | staleness | of all ranks | dense |"
  echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
  jq --slurp --raw-output --arg model "$1" --rawfile times <(time_of_runs "$1" "$target") '
    def mean: add / length;
    def median: sort | .[(length - 1) / 2 | floor];
    def digits($n): . * pow(10; $n) | round / pow(10; $n);
    ($times | split("\n") | map(select(. != "") | split("\t"))) as $times
    | map(select(.model == $model)) | group_by([.ranks, .mode])[]
    | [(.[0].ranks | tostring), .[0].mode] as $group
    | [.[0].ranks, .[0].mode, length, (map(.samples_per_s) | median), (map(.auc) | mean | digits(5)), (map(.auc) | min),
       (map(.auc) | max), (map(.log_loss) | mean | digits(5)), ($times | map(select(.[:2] == $group)[2] | tonumber? // .) | median),
       ((map(.staleness), map(.ranks_staleness), map(.dense_staleness)) | mean | digits(1))]
    | "| " + (map(tostring) | join(" | ")) + " |"' "$out/results.jsonl"
}

write_runs() {
  local line curve target
  target=$(target_of "$1")
  echo "| mode | ranks | seed | samples/s | test AUC | seconds to AUC $target | staleness | memory MB |"
  echo "|---|---|---|---|---|---|---|---|"
  jq --raw-output --arg model "$1" \
    'select(.model == $model) | [.curve, .mode, .ranks, .seed, .samples_per_s, .auc, .staleness, .peak_rss_mb] | @tsv' \
    "$out/results.jsonl" | sort --stable -k 3,3n -k 2,2 | while read -r curve line; do
    awk -v OFS=' | ' -v time="$(time_to_auc "$out/$curve" "$target")" \
      '{ print "| " $1, $2, $3, $4, $5, time, $6, $7 " |" }' <<<"$line"
  done
}

# Plots each model's first seed over samples and over seconds.
draw_curves() {
  local model
  for model in ${models//,/ }; do
    draw_curve "$model" samples "column(2) * RANKS" samples
    draw_curve "$model" time "column(1)" seconds
  done
}

# draw_curve MODEL NAME X LABEL: X is a gnuplot expression; a curve counts the samples of one of RANKS.
draw_curve() {
  local model=$1 name=$2 x=$3 label=$4 lines terminal
  lines=$(jq --raw-output --arg model "$model" --argjson seed "${seeds%%,*}" --arg out "$out" --arg x "$x" \
    'select(.model == $model and .seed == $seed) | (.ranks | tostring) as $ranks
     | "\"\($out)/\(.curve)\" using (\($x | sub("RANKS"; $ranks))):3 with lines title \"\(.mode | gsub("_"; " ")), \(.ranks) ranks\""' \
    "$out/results.jsonl" | paste -sd ,)
  for terminal in svg png; do
    gnuplot <<PLOT
set terminal $terminal size 800,500
set output "$out/$model-$name.$terminal"
set xlabel "$label"
set ylabel "AUC of the latest predictions"
set format x "%.1s%c"
set key right bottom
set grid
plot $lines
PLOT
  done
}
