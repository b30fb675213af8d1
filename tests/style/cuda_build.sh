#!/usr/bin/env bash
# Where nvcc is: the CUDA backend compiles for every architecture without warnings and spilled registers, and links
# without CUDA's libraries. Its test starts, and runs where there is a device. A bundle of it needs no other package.
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

fail() { echo "cuda_build: $*" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Only what CUDA changes: the backend, with a test and a bench that link it, and the library that knows of CUDA.
# nn-worker has no code of its own for CUDA. The test of a training would link everything; every preset compiles it.
scripts/build.sh cuda nn_cuda_test bench_nn_cuda simurgh_nn_backend simurgh_telemetry
command_of() { jq --raw-output ".[] | select(.file | endswith(\"/$1\")).command" build/cuda/compile_commands.json; }

# refused MESSAGE CODE: the kernels' options refuse the code.
compile=$(command_of networks.cu)
refused() {
  echo "$2" >"$folder/a.cu"
  ! eval "${compile%% -x cu*} -x cu -c $folder/a.cu -o $folder/a.o" >"$folder/output" 2>&1 || fail "compiled: $2"
  grep -q "$1" "$folder/output" || fail "not '$1': $(cat "$folder/output")"
}
refused 'never referenced' '__global__ void Warns() { int unused; }'
refused 'spilled to local memory' '__global__ void __launch_bounds__(1024, 2) Spills(float* x) {
  float a[96];
  for (int i = 0; i < 96; ++i) a[i] = x[i * 1024 + threadIdx.x];
  for (int i = 0; i < 96; ++i) x[i * 1024 + threadIdx.x] = a[(i * 7) % 96] * a[95 - i];
}'
for architecture in 80 90 100; do
  [[ $compile == *sm_$architecture* ]] || fail "kernels are not compiled for sm_$architecture"
done

for program in build/cuda/tests/nn_cuda_test build/cuda/bin/bench_nn_cuda; do
  ! readelf -d "$program" | grep -E 'NEEDED.*lib(cuda|cublas|nccl)' || fail "$program needs a library of CUDA"
done
outcome=0
build/cuda/tests/nn_cuda_test || outcome=$?
((outcome == 77 || outcome == 0)) || exit "$outcome"

scripts/gpu_check.sh --bundle "$folder"
mkdir "$folder/bundle"
tar -C "$folder/bundle" -xzf "$folder/bundle.tar.gz"
for program in "$folder"/bundle/build/cuda/{tests,bin}/*; do
  missing=$(ldd "$program" | grep '=>' | grep -vE "=> $folder/|/lib(c|m|dl|rt|pthread|resolv|util|anl|mvec)\.so") || true
  [[ -z $missing ]] || fail "$program does not find in the bundle: $missing"
done
((outcome == 77)) || exit 0
outcome=0
(cd / && env -i PATH="$PATH" "$folder/gpu_check.sh") || outcome=$?
((outcome == 77)) || fail "the bundle ended with $outcome without a device"
