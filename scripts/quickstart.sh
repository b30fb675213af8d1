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
  --device D       cpu, cuda or auto: where the dense network is computed (default: as the
                   configuration says, else cpu); cuda and auto build the preset cuda where nvcc
                   is, and compute on the CPU where there is no device
  --set KEY=VALUE  override any key of the configuration; repeatable
  --keep-running   leave the servers and the worker up and print their metrics addresses
  -h, --help       this text

Logs of the daemons: build/quickstart/*.log
EOT
}

config=config/adult.yaml
keep_running=false
preset=release
overrides=()
need_value() { [ $# -ge 2 ] || { echo "quickstart: $1 needs a value; see --help" >&2; exit 2; }; }
need_number() {
  need_value "$@"
  [[ $2 =~ ^[0-9]+$ ]] || { echo "quickstart: $1 takes a whole number, not '$2'" >&2; exit 2; }
}
while [ $# -gt 0 ]; do
  case "$1" in
    --config) need_value "$@"; config=$2; shift 2 ;;
    --epochs) need_number "$@"; overrides+=(--set "training.epochs=$2"); shift 2 ;;
    --seed) need_number "$@"; overrides+=(--set "cluster.seed=$2"); shift 2 ;;
    --device)
      need_value "$@"
      case "$2" in
        cpu) ;;
        cuda | auto)
          # Without, the nn-worker's log says why it computes on the CPU.
          if command -v nvcc >/dev/null; then preset=cuda; fi ;;
        *) echo "quickstart: --device takes cpu, cuda or auto, not '$2'" >&2; exit 2 ;;
      esac
      overrides+=(--set "nn_worker.device=$2"); shift 2 ;;
    --set) need_value "$@"; overrides+=(--set "$2"); shift 2 ;;
    --keep-running) keep_running=true; shift ;;
    -h|--help) usage; exit 0 ;;
    *) echo "quickstart: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done

scripts/bootstrap.sh
if [ "$preset" = release ]; then
  scripts/build.sh release
else
  scripts/build.sh "$preset" embedding-ps embedding-worker nn-worker
fi

bin=build/$preset/bin
logs=build/quickstart
mkdir -p "$logs"
# "ok: cluster adult: 2 embedding-ps, 1 embedding-worker, ..."
"$bin/nn-worker" --config "$config" ${overrides[@]+"${overrides[@]}"} --check-config

# shellcheck source=scripts/cluster.sh
. scripts/cluster.sh
stop_cluster_at_exit
start_embedding_daemons
start_trainers "$logs/result"
# What the first trainer logs is the user's progress.
tail --lines=+1 --follow --sleep-interval=0.1 --pid="${trainers[0]}" "$logs/nn-worker-0.log" >&2 &
progress=$!
wait_for_trainers
wait "$progress"

if $keep_running; then
  running=()
  for pid in "${pids[@]}"; do
    if kill -0 "$pid" 2>/dev/null; then running+=("$pid"); fi
  done
  echo "still running (stop with: kill ${running[*]}):"
  grep -ho 'http://[^ ]*' "$logs"/embedding-*.log | sort -u | sed 's|^|  |; s|$|/metrics|'
  disown -a
  trap - EXIT
else
  stop_cluster
fi
tail -n 1 "$logs/result"
