#!/usr/bin/env bash
# Configures a preset, if that has not been done, and builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/build.sh [PRESET] [TARGET...]

Builds into build/PRESET: release (the default), cuda, debug, asan or tsan; everything, or the targets named.
JOBS=N in the environment overrides the number of compilers at once.
TEXT
}

case "${1-}" in
  --help | -h) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
preset=${1:-release}
shift || true

# As many compilers as there are cores, but each may need 1.5 GiB of memory.
jobs() {
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  local by_memory=$((memory_kib / (3 * 512 * 1024)))
  ((by_memory < 1)) && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

if [[ ! -f build/$preset/build.ninja ]]; then
  cmake --preset "$preset"
fi
targets=()
(($# > 0)) && targets=(--target "$@")
cmake --build --preset "$preset" --parallel "${JOBS:-$(jobs)}" "${targets[@]}"
