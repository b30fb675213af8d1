#!/usr/bin/env bash
# Builds the three daemons, trains on real data and prints the test AUC.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/quickstart.sh [options]

Installs missing packages and builds the three daemons. Then starts 2 embedding-ps, 1 embedding-worker
and 1 nn-worker on this machine and trains on the UCI Adult income data. The last line of the output is
test_auc=0.NNNN test_logloss=0.NNNN samples_per_sec=N. Stops the daemons at the end.

  --config FILE    use this cluster configuration (default: config/adult.yaml)
  --epochs N       override training.epochs
  --seed N         override cluster.seed, the seed for initial rows and dense weights
  --device D       compute the dense network on D: cpu, cuda or auto (default: nn_worker.device of the
                   configuration). With cuda or auto, builds the preset cuda if nvcc is installed. Without
                   a CUDA device, the CPU computes it
  --set KEY=VALUE  override any key of the configuration; repeatable
  --keep-running   leave the embedding daemons running and print their metrics addresses
  -h, --help       print this help

Logs: build/quickstart/*.log
EOT
}

config=config/adult.yaml
keep_running=false
preset=release
overrides=()
need_value() { [ $# -ge 2 ] || { echo "quickstart: $1 needs a value; see --help" >&2; exit 2; }; }
need_number() {
  need_value "$@"
  [[ $2 =~ ^[0-9]+$ ]] || { echo "quickstart: $1: '$2' is not a whole number" >&2; exit 2; }
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
          if command -v nvcc >/dev/null; then preset=cuda; fi ;;
        *) echo "quickstart: --device: '$2' is unknown; use cpu, cuda or auto" >&2; exit 2 ;;
      esac
      overrides+=(--set "nn_worker.device=$2"); shift 2 ;;
    --set) need_value "$@"; overrides+=(--set "$2"); shift 2 ;;
    --keep-running) keep_running=true; shift ;;
    -h|--help) usage; exit 0 ;;
    *) echo "quickstart: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done

scripts/bootstrap.sh
scripts/build.sh "$preset" embedding-ps embedding-worker nn-worker

bin=build/$preset/bin
logs=build/quickstart
mkdir -p "$logs"
"$bin/nn-worker" --config "$config" ${overrides[@]+"${overrides[@]}"} --check-config

# shellcheck source=scripts/cluster.sh
. scripts/cluster.sh
stop_cluster_at_exit
start_embedding_daemons
start_trainers "$logs/result"
# Shows the first trainer's log as progress.
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
  echo "further daemons need: --set cluster.token_file=$PWD/$logs/token"
  grep -ho 'http://[^ ]*' "$logs"/embedding-*.log | sort -u | sed 's|^|  |; s|$|/metrics|'
  disown -a
  trap - EXIT
else
  stop_cluster
fi
tail -n 1 "$logs/result"
