#!/usr/bin/env bash
# Installs the peers of bench/quality/bench_quality from PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
Usage: bench/peers/install_quality.sh

Installs scikit-learn, LightGBM, FuxiCTR, implicit and PyTorch from PyPI for `bench/run quality` and `bench/run recall`
in build/peers/quality (6 GB). A PyTorch that the system's Python has is used instead, as that of Debian's python3-torch.
TEXT
}

case "${1:-}" in
  --help | -h) usage; exit 0 ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac
folder=build/peers/quality
packages=(numpy pandas scipy scikit-learn lightgbm pyyaml implicit 'fuxictr==2.3.*')
[[ -x $folder/bin/pip ]] || python3 -m venv --system-site-packages "$folder"
if "$folder/bin/python" -c 'import torch' 2>/dev/null; then
  packages+=('numpy<2')  # Which an older PyTorch may need.
else
  packages+=(torch)
fi
"$folder/bin/pip" install --upgrade "${packages[@]}"
"$folder/bin/python" -c 'import torch, lightgbm, sklearn, fuxictr
print("PyTorch", torch.__version__, "LightGBM", lightgbm.__version__, "scikit-learn", sklearn.__version__,
      "FuxiCTR", fuxictr.__version__)'
