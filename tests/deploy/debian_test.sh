#!/usr/bin/env bash
# Builds the tree in a fresh Debian and runs its tests. It takes long, so CTest does not run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<'TEXT'
Usage: tests/deploy/debian_test.sh [SUITE [TARGET...]]

Builds the preset release in a chroot of Debian, and runs the tests of the labels unit and property. The last line
counts the tests. SUITE is bookworm or trixie (the default). Given TARGETs, builds only these, and runs no test.

The chroot sees the tree read-only. FOLDER/root has the system, FOLDER/build what was built, and FOLDER/ccache the
compiler cache. All are kept for the next call. Nothing is installed outside FOLDER. Needs root, a mirror of Debian,
mmdebstrap and 8 GB. Cases that need packages of PyPI are skipped without it.

Environment:
  FOLDER=PATH  use this folder (default: build/debian/SUITE)
  MIRROR=URL   get the packages from this mirror (default: http://deb.debian.org/debian)
  JOBS=N       run N compilers at a time
TEXT
}

fail() { echo "debian_test: $*" >&2; exit 1; }

# At the root of the tree, in the chroot.
if [[ ${1-} == inside ]]; then
  shift
  (($# > 0)) || exec scripts/test.sh --label '^(unit|property)$'
  scripts/bootstrap.sh
  exec scripts/build.sh release "$@"
fi

case "${1-}" in
  --help | -h) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
suite=${1:-trixie}
shift || true
((UID == 0)) || fail "only root can make a chroot"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
if [[ -z ${DEBIAN_TEST_NAMESPACE-} ]]; then  # Its mounts end with the script.
  DEBIAN_TEST_NAMESPACE=1 exec unshare --mount "$0" "$suite" "$@"
fi

mkdir -p build "${FOLDER:=build/debian/$suite}"/{build,ccache}
folder=$(realpath "$FOLDER")
root=$folder/root
if [[ ! -e $root/etc/os-release ]]; then
  rm -rf --one-file-system "$folder/unpacked"
  mmdebstrap --quiet --variant=apt --include=ca-certificates,mount "$suite" "$folder/unpacked" ${MIRROR:+"$MIRROR"} ||
    fail "mmdebstrap could not make $folder/unpacked; it needs a mirror of Debian that has $suite"
  mv "$folder/unpacked" "$root"
fi
cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/simurgh" "$root/ccache"
mount --bind "$root" "$root"
for one in dev proc sys; do mount --rbind "/$one" "$root/$one"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$PWD" "$root/simurgh"
mount -o remount,bind,ro "$root/simurgh"
mount --bind "$folder/build" "$root/simurgh/build"
mount --bind "$folder/ccache" "$root/ccache"
# Not chroot: in one, tests may not make a user namespace.
cd "$root"
pivot_root . mnt
umount --lazy mnt
exec env --ignore-environment --chdir=/simurgh HOME=/root LANG=C.UTF-8 CCACHE_DIR=/ccache \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${JOBS:+"JOBS=$JOBS"} \
  tests/deploy/debian_test.sh inside "$@"
