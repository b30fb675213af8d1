#!/usr/bin/env bash
# The CUDA backend compiles for every architecture and links, where nvcc is; its unit test starts, and runs where there
# is a device.
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

# Only what CUDA changes: the backend, with a test and a bench that link it. nn-worker has no code of its own for CUDA.
# The test of a training would link everything, so it is only parsed.
scripts/build.sh cuda nn_cuda_test bench_nn_cuda simurgh_nn_backend simurgh_telemetry simurgh_precompiled_test_rpc
parse=$(jq --raw-output '.[] | select(.file | endswith("/adult_cuda_test.cc")).command' build/cuda/compile_commands.json)
(cd build/cuda && eval "$parse -fsyntax-only")
outcome=0
build/cuda/tests/nn_cuda_test || outcome=$?
((outcome == 77 || outcome == 0)) || exit "$outcome"
