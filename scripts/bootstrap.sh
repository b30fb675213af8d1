#!/usr/bin/env bash
# Installs the Debian packages for building and testing.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/bootstrap.sh [--tests] [--bench] [--arrow] [--arm64] [--image] [--check]

Installs the missing packages of Debian 12 or 13 for building and testing.

  --tests  also install PyTorch, Slurm and more, for tests with other programs: 650 MB
  --arrow  also get Arrow C++ from PyPI, 75 MB, into build/arrow, for the module that reads Parquet and object stores
  --arm64  also install QEMU, and unpack the libraries for 64-bit ARM into build/arm64-sysroot, for the preset arm64
  --bench  also install peers and load generators of the benches
  --image  also install what scripts/build.sh image needs
  --check  install nothing; list missing packages and exit with 1 if there are any
  --help   print this text
TEXT
}

fail() {
  echo "bootstrap: $*" >&2
  exit 1
}

system=$(. /etc/os-release 2>/dev/null && echo "${ID-} ${VERSION_ID-}") || system=unknown
# Each version of Debian: its number and name, and those of Boost, libstdc++ and Python in its packages.
while read -r version suite boost libstdcxx python; do
  [[ $system != "debian $version" ]] || break
done <<'TABLE'
12 bookworm 1.81 12 3.11
13 trixie   1.83 14 3.13
TABLE

PACKAGES=(
  # Compiler, linker, sanitizer run-times and their symbolizer (GCC 12 miscompiles coroutines; see scripts/README.md).
  clang-19 lld-19 libclang-rt-19-dev llvm-19
  # Build.
  cmake ninja-build ccache git
  # Format and lint.
  clang-format-19 clang-tidy-19
  # Network: Asio, Beast, program options; TLS; schemas.
  "libboost$boost-dev" "libboost-program-options$boost-dev" libssl-dev libflatbuffers-dev flatbuffers-compiler
  # Status, containers, strings.
  libabsl-dev
  # Configuration, logs, metrics.
  libyaml-cpp-dev libspdlog-dev libfmt-dev prometheus-cpp-dev
  # Manifests of checkpoints, and their export.
  nlohmann-json3-dev libminizip-dev
  # Hashes, checksums and compressed files.
  libxxhash-dev libfarmhash-dev libzstd-dev zlib1g-dev
  # Kafka, for simurgh-feed.
  librdkafka-dev
  # HTTP, for checkpoints in object stores.
  libcurl4-openssl-dev
  # Arithmetic: vector kernels, dense layers and their threads.
  libhwy-dev libdnnl-dev libgomp1
  # Neighbours of vectors, for retrieval.
  libhnswlib-dev
  # Memory, and rows on disk.
  libjemalloc-dev liburing-dev
  # Tests, and those of the benches' reports.
  catch2 jq gnuplot-nox python3-numpy python3-xxhash zstd
)

TEST_PACKAGES=(
  # Other programs that read exported models, and clients of the online server.
  curl python3-torch python3-venv
  # To make and install the package and the wheel; to run under Slurm.
  adduser debootstrap dpkg-dev file iproute2 munge slurm-client slurmctld slurmd systemd
  # The rules of config/monitoring.
  prometheus
)

BENCH_PACKAGES=(
  # A peer of bench_cold.
  librocksdb-dev
  # A peer of bench_rpc.
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  # Measures TCP, as a reference for bench_rpc's raw peer.
  iperf3
  # Load of bench_serving; libraries of bench/peers/install_triton.sh.
  wrk libb64-0d python3-venv "libpython$python"
)

ARM64_PACKAGES=(
  # Unpacks packages of another processor with what they depend on; runs their programs.
  mmdebstrap qemu-user-static
)

IMAGE_PACKAGES=(
  # To make the package, a Debian that has it, and an image of that.
  buildah dpkg-dev file mmdebstrap
)

missing_packages() {
  dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "${PACKAGES[@]}" 2>/dev/null |
    awk -v wanted="${PACKAGES[*]}" '
      $2 == "installed" { have[$1] = 1 }
      END {
        count = split(wanted, names, " ")
        for (i = 1; i <= count; ++i) if (!(names[i] in have)) print names[i]
      }'
}

# Arrow C++ of PyPI's pyarrow, and the Python package, whose writers the tests use.
ARROW=(pyarrow==26.0.1 'numpy>=2')

get_arrow() {
  local folder made
  folder=$(dirname "$0")/../build/arrow
  made=$folder/version
  [[ -f $made && $(<"$made") == "${ARROW[*]}" ]] && return
  echo "bootstrap: getting ${ARROW[*]}"
  /usr/bin/python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${ARROW[@]}"
  echo "${ARROW[*]}" >"$made"
}

# The packages of PACKAGES that programs are compiled with, and those of the C++ library, for 64-bit ARM. They are
# unpacked, not installed: most cannot be installed next to those of this machine.
get_arm64() {
  local folder package sysroot=("libstdc++-$libstdcxx-dev")
  folder=$(realpath --no-symlinks "$(dirname "$0")/..")/build/arm64-sysroot
  for package in "${PACKAGES[@]}"; do
    case $package in
      libclang-rt-*) ;;
      lib*-dev | libgomp1 | *-cpp-dev | nlohmann-json3-dev | zlib1g-dev | catch2) sysroot+=("$package") ;;
    esac
  done
  [[ -f $folder/version && $(<"$folder/version") == "${sysroot[*]}" ]] && return
  ((UID == 0)) || fail "only root can unpack the packages for arm64; run it by sudo"
  echo "bootstrap: unpacking ${#sysroot[@]} packages for arm64, and those that they need, into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  mmdebstrap --quiet --variant=extract --skip=check/qemu --architectures=arm64 --include="${sysroot[*]}" "$suite" "$folder" ||
    fail "mmdebstrap could not unpack the packages; it needs the network and 1 GB in $(dirname "$folder")"
  # The names of linked files begin at the sysroot, not at the root of this machine.
  local link target
  while read -r link; do
    target=$(readlink "$link")
    ln --symbolic --force --no-dereference --relative "$folder$target" "$link"
  done < <(find "$folder/usr" "$folder/lib" -lname '/*')
  rm -rf "$folder"/var/cache/apt "$folder"/var/lib/apt "$folder"/usr/share/doc
  echo "${sysroot[*]}" >"$folder/version"
}

arm64=false
arrow=false
check_only=false
for argument in "$@"; do
  case "$argument" in
    --tests) PACKAGES+=("${TEST_PACKAGES[@]}") ;;
    --bench) PACKAGES+=("${BENCH_PACKAGES[@]}") ;;
    --image) PACKAGES+=("${IMAGE_PACKAGES[@]}") ;;
    --arrow) arrow=true; PACKAGES+=(python3-venv) ;;
    --arm64) arm64=true; PACKAGES+=("${ARM64_PACKAGES[@]}") ;;
    --check) check_only=true ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

[[ -n $version ]] ||
  fail "this is '$system'; only Debian 12 and 13 are known to have the packages: ${PACKAGES[*]}"

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} == 0)); then
  echo "bootstrap: all ${#PACKAGES[@]} packages are installed"
  ! $arrow || $check_only || get_arrow
  ! $arm64 || $check_only || get_arm64
  exit 0
fi
if $check_only; then
  echo "bootstrap: missing: ${missing[*]}"
  exit 1
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    fail "not root, and there is no sudo; as root: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
echo "bootstrap: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet)
"${apt[@]}" update
# Tests start these programs themselves; as services they would run on all addresses.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
if [[ -d /run/systemd/system ]]; then
  for service in munge prometheus slurmctld slurmd; do
    [[ " ${missing[*]} " != *" $service "* ]] || "${as_root[@]}" systemctl disable --quiet "$service"
  done
fi
! $arrow || get_arrow
! $arm64 || get_arm64
