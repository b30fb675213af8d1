#!/usr/bin/env bash
# Installs PyTorch, TorchRec or FuxiCTR from PyPI for comparisons by bench_training, bench_job, gpu_check.sh and models_case.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
Usage: bench/peers/install_pytorch.sh [--torchrec | --models]

Installs the newest PyTorch from PyPI in build/peers/pytorch (5 GB), for bench_training --peers and
scripts/gpu_check.sh.

  --torchrec  install TorchRec and a matching PyTorch in build/peers/torchrec instead (6 GB).
              Also pyarrow, LightGBM and DeepCTR-Torch for bench_job
  --models    install the same and FuxiCTR in build/peers/models (6 GB), for tests/python/models_case.py
  --help      print this help

Compiled networks need a C++ compiler and Python's headers (apt-get install g++ python3-dev).
TEXT
}

folder=build/peers/pytorch
packages=(torch numpy)
case "${1:-}" in
  --help | -h) usage; exit 0 ;;
  --torchrec | --models)
    folder=build/peers/${1#--}
    packages=('torch==2.14.*' numpy tqdm tensordict pyre-extensions torchmetrics==1.0.3)
    if [[ $1 == --torchrec ]]; then packages+=(pyarrow lightgbm deepctr-torch requests); else packages+=('fuxictr==2.3.*'); fi
    ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac
command -v python3 >/dev/null || { echo "${0##*/}: python3 is missing: apt-get install python3-venv" >&2; exit 1; }
[[ -x $folder/bin/pip ]] || python3 -m venv "$folder"
"$folder/bin/pip" install --upgrade "${packages[@]}"
if [[ $folder != */pytorch ]]; then
  # Without its dependency FBGEMM for GPUs, which does not load without a driver.
  "$folder/bin/pip" install --no-deps 'torchrec==1.9.*' 'fbgemm-gpu-cpu==1.9.*'
  "$folder/bin/python" -c 'import torchrec; print("TorchRec", torchrec.__version__)'
fi
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
