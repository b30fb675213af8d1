#!/usr/bin/env bash
# The CUDA backend compiles for every architecture and links, where nvcc is; its tests start, and run where there is
# a device.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v nvcc >/dev/null; then
  echo "SKIPPED: nvcc is not on the PATH, the preset cuda is not built"
  exit 77
fi
if ! nvcc --version | grep -q 'release 13\.'; then
  echo "SKIPPED: nvcc is not CUDA 13's, the preset cuda is not built"
  exit 77
fi

# Only what CUDA adds: the backend and the programs made for it.
scripts/build.sh cuda nn_cuda_test adult_cuda_test bench_nn_cuda nn-worker
for test in nn_cuda_test adult_cuda_test; do
  outcome=0
  "build/cuda/tests/$test" || outcome=$?
  ((outcome == 77 || outcome == 0)) || exit "$outcome"
done
