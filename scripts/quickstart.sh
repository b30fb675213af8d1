#!/usr/bin/env bash
# Builds the daemons, trains on real data and prints the test AUC.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/quickstart.sh [options]

Installs missing packages and builds the three daemons and simurgh. Then `simurgh train` runs 2 embedding-ps,
1 embedding-worker and 1 nn-worker on this machine and trains on the UCI Adult income data. The last line of the output is
test_auc=0.NNNN test_logloss=0.NNNN samples_per_sec=N.

  --config FILE    use this cluster configuration (default: config/adult.yaml)
  --epochs N       override training.epochs
  --seed N         override cluster.seed, the seed for initial rows and dense weights
  --device D       compute the dense network on D: cpu, cuda or auto (default: nn_worker.device of the
                   configuration). With cuda or auto, builds the preset cuda if nvcc is installed. Without
                   a CUDA device, the CPU computes it
  --set KEY=VALUE  override any key of the configuration; repeatable
  -h, --help       print this help

Logs: build/quickstart/*.log
Model: build/quickstart/model; the one of an earlier quickstart is removed
EOT
}

config=config/adult.yaml
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
    -h|--help) usage; exit 0 ;;
    *) echo "quickstart: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done

scripts/bootstrap.sh
scripts/build.sh "$preset" embedding-ps embedding-worker nn-worker simurgh simurgh-feed

bin=build/$preset/bin
folder=build/quickstart
mkdir -p "$folder"
rm -rf "$folder/model"
"$bin/simurgh" train "$config" --logs "$folder" --set "checkpoint.directory=$PWD/$folder/model" \
  ${overrides[@]+"${overrides[@]}"} >"$folder/result" &
trainer=$!
# stop CODE: lets the daemons stop first.
stop() { kill -TERM "$trainer" 2>/dev/null || true; wait "$trainer" || true; exit "$1"; }
trap 'stop 130' INT
trap 'stop 143' TERM
wait "$trainer"
[[ ! -d $folder/model ]] || echo "Try next: $bin/simurgh predict --model $folder/model --input config/data/adult/adult.test.csv.zst --evaluate" >&2
cat "$folder/result"
