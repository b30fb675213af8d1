#!/usr/bin/env bash
# Configures a preset if necessary and builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/build.sh [PRESET] [TARGET...]
       scripts/build.sh wheel [arm64]
       scripts/build.sh image

Builds the targets (default: all) of a preset into build/PRESET. Presets: release (the default), cuda, arm64,
debug, asan, tsan. A terminal shows the progress in one line, a pipe in one line every ten per cent.

arm64 is for 64-bit ARM. Get its libraries before, by scripts/bootstrap.sh --arm64. scripts/arm64.sh runs its programs.

wheel builds the preset release, or arm64, and packs programs, library and Python package into build/wheel/*.whl. Get
Arrow before, by scripts/bootstrap.sh --arrow: without it, and for arm64, the wheel does not read Parquet.

image builds the preset release and packs it into an OCI image: build/image/simurgh-VERSION.tar. The image has the
programs and the packages of Debian 12 that they need. Docker, Podman and containerd load it. Needs root or sudo, a
mirror of Debian, and the tools that scripts/bootstrap.sh --image installs.

Environment:
  JOBS=N      run N compilers at a time (default: one per core, at most one per 1.5 GiB of free memory)
  MIRROR=URL  get the packages of the image from this mirror (default: http://deb.debian.org/debian)
TEXT
}

case "${1-}" in
  --help | -h) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
preset=${1:-release}
shift || true

jobs() {
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  local by_memory=$((memory_kib / (3 * 512 * 1024)))
  ((by_memory < 1)) && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# Copies Ninja's output, with one progress line in place of its status lines ("@finished/total@ step").
show_progress() {
  local line finished total left percent next=0 before='' after=$'\n'
  [[ -t 1 ]] && before=$'\r\e[K' after=''
  while IFS= read -r line; do
    if [[ ! $line =~ ^@([0-9]+)/([0-9]+)@ ]]; then
      printf '%s%s\n' "$before" "$line"
      continue
    fi
    # Ninja does these before it knows its steps.
    [[ $line != *'Re-checking globbed directories'* && $line != *'Re-running CMake'* ]] || continue
    finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    percent=$((100 * finished / total))
    [[ -t 1 ]] || ((percent >= next)) || continue
    next=$((percent / 10 * 10 + 10))
    left=
    if ((percent >= 5)); then  # The first steps tell nothing about the others.
      left=$((SECONDS * (total - finished) / finished))
      printf -v left ', about %d:%02d left' $((left / 60)) $((left % 60))
    fi
    printf '%sbuild: %d %% (%d of %d steps), %d:%02d elapsed%s%s' "$before" "$percent" "$finished" "$total" \
      $((SECONDS / 60)) $((SECONDS % 60)) "$left" "$after"
  done
  if [[ -t 1 ]]; then echo; fi
}

programs=(embedding-ps embedding-worker nn-worker row-server simurgh simurgh-feed)
case $preset in
  wheel | image)
    [[ ${1-} != --help ]] || { usage; exit 0; }
    [[ $# == 0 || "$preset $*" == "wheel arm64" ]] || { usage >&2; exit 2; }
    ;;
esac
if [[ $preset == image ]]; then
  config/deploy/image.sh --check
  "$0" release "${programs[@]}"
  exec config/deploy/image.sh
fi
if [[ $preset == wheel ]]; then
  build=${1:-release}
  "$0" "$build" "${programs[@]}" simurgh_shared
  targets=$(cmake --build --preset "$build" --target help)
  if grep -q '^simurgh_arrow:' <<<"$targets"; then
    "$0" "$build" simurgh_arrow
    programs+=(libsimurgh_arrow.so)
  fi
  exec services/python/wheel.sh "$build" "${programs[@]}"
fi
if [[ ! build/$preset/build.ninja -nt CMakePresets.json ]]; then
  cmake --preset "$preset"
fi
targets=()
(($# > 0)) && targets=(--target "$@")
NINJA_STATUS='@%f/%t@ ' cmake --build --preset "$preset" --parallel "${JOBS:-$(jobs)}" "${targets[@]}" 2>&1 |
  show_progress
