#!/usr/bin/env bash
# Trains on real data with all three daemons, from a fresh checkout to a test AUC.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
usage: scripts/quickstart.sh [options]

Installs what is missing, builds the release preset, starts 2 embedding-ps, 1 embedding-worker and
1 nn-worker on this machine, trains on the UCI Adult income data and prints, as its last line,
test_auc=0.NNNN test_logloss=0.NNNN samples_per_sec=N. Stops what it started.

  --config FILE    cluster to run (default config/adult.yaml)
  --epochs N       passes over the training data (default: as the configuration says)
  --seed N         of rows and weights (default: as the configuration says)
  --set KEY=VALUE  override any key of the configuration; repeatable
  --keep-running   leave the servers and the worker up and print their metrics addresses
  -h, --help       this text

Logs of the daemons: build/quickstart/*.log
EOT
}

config=config/adult.yaml
keep_running=false
overrides=()
need_value() { [ $# -ge 2 ] || { echo "quickstart: $1 needs a value; see --help" >&2; exit 2; }; }
need_number() {
  need_value "$@"
  [[ $2 =~ ^[0-9]+$ ]] || { echo "quickstart: $1 takes a whole number, not '$2'" >&2; exit 2; }
}
while [ $# -gt 0 ]; do
  case "$1" in
    --config) need_value "$@"; config=$2; shift 2 ;;
    --epochs) need_number "$@"; overrides+=(--set "training.passes=$2"); shift 2 ;;
    --seed) need_number "$@"; overrides+=(--set "cluster.seed=$2"); shift 2 ;;
    --set) need_value "$@"; overrides+=(--set "$2"); shift 2 ;;
    --keep-running) keep_running=true; shift ;;
    -h|--help) usage; exit 0 ;;
    *) echo "quickstart: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done

scripts/bootstrap.sh
scripts/build.sh release

bin=build/release/bin
logs=build/quickstart
mkdir -p "$logs"
# "ok: cluster adult: 2 embedding-ps, 1 embedding-worker, ..."
summary=$("$bin/nn-worker" --config "$config" ${overrides[@]+"${overrides[@]}"} --check-config)
echo "$summary"
count_of() { sed -nE "s/.*[^0-9]([0-9]+) $1.*/\1/p" <<<"$summary"; }

pids=()
logs_of=()
stop_daemons() {
  local pid
  for pid in ${pids[@]+"${pids[@]}"}; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  pids=()
}
trap stop_daemons EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() {  # start NAME PROGRAM ARGUMENTS...: a daemon in the background with a log of its own
  local log=$logs/$1.log
  shift
  # In a session of its own: Ctrl-C reaches this script, which drains the daemons.
  setsid "$bin/$1" --config "$config" ${overrides[@]+"${overrides[@]}"} "${@:2}" >"$log" 2>&1 &
  pids+=($!)
  logs_of+=("$log")
}

for ((i = 0; i < $(count_of embedding-ps); ++i)); do
  start "embedding-ps-$i" embedding-ps --index "$i"
done
for ((i = 0; i < $(count_of embedding-worker); ++i)); do
  start "embedding-worker-$i" embedding-worker --index "$i"
done

# The trainer's result is the last line of its stdout; everything it logs is the user's progress.
result=$logs/result
setsid "$bin/nn-worker" --config "$config" ${overrides[@]+"${overrides[@]}"} >"$result" &
trainer=$!
pids+=("$trainer")
logs_of+=("")

# Whoever ends first: the trainer when all is well, a daemon when it could not start.
status=0
wait -n -p ended "${pids[@]}" || status=$?
if [ "$ended" != "$trainer" ]; then
  for i in "${!pids[@]}"; do
    if [ "${pids[$i]}" = "$ended" ]; then
      echo "quickstart: a daemon ended early with $status; the end of ${logs_of[$i]}:" >&2
      tail -n 5 "${logs_of[$i]}" >&2
    fi
  done
  exit 1
fi
[ "$status" -eq 0 ] || { echo "quickstart: nn-worker ended with $status" >&2; exit "$status"; }

if $keep_running; then
  unset "pids[-1]"
  echo "still running (stop with: kill ${pids[*]}):"
  grep -ho 'http://[^ ]*' "$logs"/embedding-*.log | sort -u | sed 's|^|  |; s|$|/metrics|'
  disown -a
  pids=()
else
  stop_daemons
fi
tail -n 1 "$result"
