# Runs the daemons of one configuration, each with its own_options. For scripts to source, under `set -euo pipefail`.
# Where all run alike, use `simurgh train`.
#
# Reads these variables of the script: bin (the programs), config (the file), overrides (array of --set KEY=VALUE) and
# logs (an existing folder, for one log a daemon).

[[ ${BASH_SOURCE[0]} != "$0" ]] || { sed -n '/^$/q; s/^# \?//p' "$0"; exit; }

pids=()
names_of=()
trainers=()

# count_of PROGRAM: how many the configuration has.
count_of() {
  "$bin/embedding-ps" --config "$config" ${overrides[@]+"${overrides[@]}"} --check-config |
    sed -nE "s/.*[^0-9]([0-9]+) $1.*/\1/p"
}

# start_daemon NAME PROGRAM ARGUMENTS...: in the background, and in a session of its own: Ctrl-C reaches the script, which
# drains the daemons.
start_daemon() {
  local name=$1 program=$2
  shift 2
  : >"$logs/$name.log"
  local own
  own_options "$name"
  setsid "$bin/$program" --config "$config" \
    ${overrides[@]+"${overrides[@]}"} ${own[@]+"${own[@]}"} "$@" 2>>"$logs/$name.log" &
  pids+=($!)
  names_of+=("$name")
}

# Also makes a token for the run, so that other users of this machine cannot use the daemons.
start_embedding_daemons() {
  local program count i token
  token=$(realpath "$logs")/token
  rm -f "$token"
  (umask 077 && head -c 32 /dev/urandom | base64 >"$token")
  overrides=(--set "cluster.token_file=$token" ${overrides[@]+"${overrides[@]}"})
  for program in embedding-ps embedding-worker; do
    count=$(count_of "$program")
    for ((i = 0; i < count; ++i)); do start_daemon "$program-$i" "$program" --index "$i" >/dev/null; done
  done
}

# start_trainers RESULT: every nn-worker; the stdout of the first, whose last line is the result, goes to that file.
start_trainers() {
  local count i
  count=$(count_of nn-worker)
  for ((i = 0; i < count; ++i)); do
    local result=/dev/null
    ((i > 0)) || result=$1
    start_daemon "nn-worker-$i" nn-worker --index "$i" >"$result"
    trainers+=("${pids[-1]}")
  done
}

# Waits for the end of all trainers. Fails with the reason as soon as one of them or a daemon they need ends otherwise.
wait_for_trainers() {
  local left=${#trainers[@]} ended status i name
  local waiting=("${pids[@]}")
  while ((left > 0)); do
    status=0
    wait -n -p ended "${waiting[@]}" || status=$?
    for i in "${!pids[@]}"; do [[ ${pids[$i]} == "$ended" ]] && name=${names_of[$i]}; done
    if ((status != 0)) || [[ $name != nn-worker-* ]]; then
      echo "${0##*/}: $name ended early with $status; the end of $logs/$name.log:" >&2
      tail -n 5 "$logs/$name.log" >&2
      return "$((status == 0 ? 1 : status))"
    fi
    ((left -= 1)) || true
    local still=()
    for i in "${waiting[@]}"; do [[ $i == "$ended" ]] || still+=("$i"); done
    waiting=("${still[@]}")
  done
}

stop_cluster() {
  local pid
  for pid in ${pids[@]+"${pids[@]}"}; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  pids=() names_of=() trainers=()
}

# Daemons do not outlive the script, however it ends.
stop_cluster_at_exit() {
  trap stop_cluster EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}
