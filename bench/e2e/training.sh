# Measures one training run. Source it in the repository's root, under `set -euo pipefail`.

# shellcheck source=bench/e2e/cluster.sh
. bench/e2e/cluster.sh

# shellcheck source=bench/e2e/network.sh
. bench/e2e/network.sh

bin=${SIMURGH_BIN_DIR:-build/release/bin}
cores=$(nproc)
ranks=1
hosted=()
hosted_python=
peers=build/peers  # One Python environment per peer.

# hidden_layers MODEL: outputs of the linear layers before the last.
hidden_layers() {
  case "$1" in
    light) echo 256,128,64 ;;
    paper) echo 4096,2048,1024,512,256 ;;
    *) echo "${0##*/}: unknown model '$1'; use light or paper" >&2; return 2 ;;
  esac
}

# make_data SAMPLES TEST_SAMPLES IDS [ZIPF]: prints a folder with train.tsv, test.tsv and teacher.json, and keeps it for
# later runs. ZIPF: exponent of the ids' distribution, or datagen's default.
make_data() {
  local folder=build/bench/data/$1-$2-$3${4:+-zipf-$4} skew=(${4:+--zipf-exponent "$4"})
  if [[ ! -f $folder/teacher.json ]]; then
    mkdir -p "$folder"
    echo "writing $1 + $2 samples with $3 ids into $folder" >&2
    "$bin/datagen" --output "$folder/train.tsv" --samples "$1" --distinct-ids "$3" ${skew[@]+"${skew[@]}"} --json >"$folder/train.json"
    "$bin/datagen" --output "$folder/test.tsv" --samples "$2" --distinct-ids "$3" --first "$1" ${skew[@]+"${skew[@]}"} --json >"$folder/test.json"
    mv "$folder/test.json" "$folder/teacher.json"
  fi
  echo "$folder"
}

# towers_of MODEL: prints the value of the configuration's key model.
towers_of() {
  local width layers=
  for width in $(hidden_layers "$1" | tr , ' '); do layers+="{linear: $width}, relu, "; done
  echo "{towers: [{name: top, input: [dense, embeddings], layers: [${layers}{linear: 1}]}]}"
}

# record_peak_memory FILE PID...: on SIGTERM, writes the sum of the processes' peak resident memory, in MB, into the file. It
# starts no processes, which would use the cores that it measures.
record_peak_memory() {
  local file=$1 pid name kb rest total ended=false never
  local -A peaks=()
  shift
  exec {never}<> <(:)  # Never readable.
  trap 'ended=true' TERM
  while true; do
    total=0
    for pid in "$@"; do
      while read -r name kb rest; do
        [[ $name != VmHWM: ]] || peaks[$pid]=$kb
      done 2>/dev/null <"/proc/$pid/status" || true
      ((total += ${peaks[$pid]:-0})) || true
    done
    if $ended || [[ ! -e /proc/$$ ]]; then break; fi  # $$: the parent.
    read -r -t 0.5 -u "$never" rest || true
  done
  echo $((total * 1024 / 1000000)) >"$file"
}

# instances PROGRAM COUNT: prints the value of the configuration's key instances.
instances() {
  local program=$1 count=$2 i list=
  for ((i = 0; i < count; ++i)); do list+="{address: '$(address_of "$program-$i")'}, "; done
  echo "[$list]"
}

# start_hosted RESULT OPTIONS...: a network of PyTorch in place of the nn-worker, without its model in the configuration.
start_hosted() {
  local result=$1
  shift
  : >"$logs/nn-worker-0.log"
  # As `simurgh train` does.
  OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-5000} \
    MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=268435456 \
    PYTHONPATH=services/python SIMURGH_LIBRARY=$bin/../lib/libsimurgh.so.1 \
    "$hosted_python" bench/peers/hosted_training.py --config "$config" "${overrides[@]}" "$@" \
    >"$result" 2>"$logs/nn-worker-0.log" &
  pids+=($!) names_of+=(nn-worker-0) trainers+=($!)
}

# train_ours DATA MODEL BATCH SEED [KEY=VALUE...]: trains once with $ranks nn-workers, one embedding-worker and one
# embedding-ps on this machine. Prints one JSON object. The logs are in $logs. With hosted=(OPTIONS...), PyTorch computes
# the network, in the Python $hosted_python.
train_ours() {
  local data=$1 model=$2 batch=$3 seed=$4 override
  shift 4
  mkdir -p "$logs"
  config=config/criteo-synthetic.yaml
  overrides=(
    --set "data.train=[$PWD/$data/train.tsv]" --set "data.test=[$PWD/$data/test.tsv]"
    --set "training.batch_size=$batch" --set "cluster.seed=$seed"
    --set "embedding_ps={partitions: 1, instances: $(instances embedding-ps 1)}"
    --set "embedding_worker={instances: $(instances embedding-worker 1)}"
    --set "nn_worker={threads: $(((cores + ranks - 1) / ranks)), instances: $(instances nn-worker "$ranks")}")
  for override in "$@"; do overrides+=(--set "$override"); done
  if ((${#hosted[@]} > 0)); then
    sed '/^model:$/,/^training:$/{/^training:$/!d}' "$config" >"$logs/hosted.yaml"
    config=$logs/hosted.yaml
    start_embedding_daemons
    start_hosted "$logs/result" --hidden "$(hidden_layers "$model")" --seed "$seed" "${hosted[@]}"
  else
    overrides+=(--set "model=$(towers_of "$model")")
    start_embedding_daemons
    start_trainers "$logs/result"
  fi
  record_peak_memory "$logs/peak_mb" "${pids[@]}" &
  local recorder=$!
  local status=0
  wait_for_trainers || status=$?
  kill "$recorder" && wait "$recorder" || true
  stop_cluster
  ((status == 0)) || return "$status"
  sed -nE 's/^test_auc=([0-9.]+) test_logloss=([0-9.]+) .*samples_per_sec=([0-9]+)$/{"auc": \1, "log_loss": \2, "samples_per_s": \3}/p' "$logs/result" |
    jq --compact-output --argjson memory "$(cat "$logs/peak_mb")" --argjson ranks "$ranks" \
      '.samples_per_s *= $ranks | . + {peak_rss_mb: $memory}'  # Each rank logs its own rate.
}

# train_peer PEER DATA MODEL BATCH SEED [OPTIONS...]: the same in PyTorch (pytorch), or with TorchRec's embeddings (torchrec).
train_peer() {
  local peer=$1 data=$2 model=$3 batch=$4 seed=$5 embeddings=torch
  shift 5
  [[ $peer != torchrec ]] || embeddings=torchrec
  "$peers/$peer/bin/python" bench/peers/pytorch_training.py --train "$data/train.tsv" --test "$data/test.tsv" \
    --embeddings "$embeddings" --hidden "$(hidden_layers "$model")" --batch-size "$batch" --seed "$seed" "$@"
}
