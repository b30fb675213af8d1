#!/usr/bin/env bash
# consumer_build.sh BUILD [OPTION...]: a project that has this one as a subfolder builds its program, which runs, and neither builds
# nor looks for anything that rpc does not need. OPTIONs are CMake's.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$1
shift
source=$build/source
mkdir -p "$source"
cp tests/style/consumer/* "$source"
ln -sfn "$PWD" "$source/simurgh"
cmake --fresh -S "$source" -B "$build" "$@"

targets=$(cmake --build "$build" --target help | grep -oE '\bsimurgh_[a-z_]+' | sort -u | paste -sd ' ')
if [[ $targets != "simurgh_base simurgh_rpc simurgh_rpc_schema_generated" ]]; then
  echo "targets that rpc does not need: $targets"
  exit 1
fi
if grep -iE '^(yaml-cpp|spdlog|prometheus-cpp|hwy|zlib|simurgh_(dnnl|jemalloc|farmhash|zstd))[^=]*=' "$build/CMakeCache.txt"; then
  echo "packages were looked for that rpc does not need"
  exit 1
fi

cmake --build "$build" --parallel "${JOBS:-$(nproc)}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for address in tcp://127.0.0.1:0 "unix://$folder/echo" "shm://$folder/echo-shm"; do
  timeout 60 "$build/my_program" "$address"
done
