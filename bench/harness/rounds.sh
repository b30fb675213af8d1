# Runs the benches: each once per round, so that changes of the machine affect all.
run_rounds() {
  local name round most=0
  local -A rounds_of
  for name in "$@"; do
    describe "$name"
    rounds_of[$name]=${rounds:-$rounds_of_bench}
    if [[ -z $rounds ]] && $quick; then rounds_of[$name]=$quick_rounds; fi
    ((rounds_of[$name] > most)) && most=${rounds_of[$name]}
    : >"$out/$name.jsonl"
  done
  for ((round = 1; round <= most; ++round)); do
    for name in "$@"; do
      if ((round <= rounds_of[$name])); then run_once "$name" "$round" "${rounds_of[$name]}"; fi
    done
  done
}

run_once() {
  local name=$1 round=$2 of=$3
  describe "$name"
  local line=("build/release/bin/$program" "${arguments[@]}")
  if [[ $program == */* ]]; then line[0]=$program; fi
  if $quick; then line+=("${quick_arguments[@]}"); fi
  if $with_peers; then line+=("${peer_arguments[@]}"); else line+=("${lone_arguments[@]}"); fi
  echo "round $round/$of: ${line[*]}" >&2
  "${line[@]}" | jq --compact-output --argjson round "$round" '. + {round: $round}' >>"$out/$name.jsonl" ||
    fail "$program failed; its measurements are in $out/$name.jsonl"
}
