#!/usr/bin/env bash
# Installs PyTorch from PyPI for bench_training --peers, in a folder of its own: build/peers/pytorch, some 5 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case "${1:-}" in
  --help | -h) sed -n 2p "$0" | cut -c3-; exit 0 ;;
  "") ;;
  *) echo "${0##*/}: unknown option '$1'; there is none but --help" >&2; exit 2 ;;
esac
folder=build/peers/pytorch
command -v python3 >/dev/null || { echo "${0##*/}: python3 is missing: apt-get install python3-venv" >&2; exit 1; }
[[ -x $folder/bin/pip ]] || python3 -m venv "$folder"
"$folder/bin/pip" install --upgrade torch numpy
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__)'
