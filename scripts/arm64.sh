#!/usr/bin/env bash
# Runs a command on this machine, in which programs for 64-bit ARM run by QEMU.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/arm64.sh COMMAND [ARGUMENT...]

Runs the command. Programs for 64-bit ARM that it starts run by QEMU, as if they were programs of this machine. For
example: scripts/arm64.sh build/arm64/bin/simurgh train config/adult.yaml

Needs Linux 6.7 or later. The setting is the command's own, and other processes do not see it. An older kernel needs the
setting of the whole machine, which Debian's package binfmt-support makes for qemu-user-static.
TEXT
}

case "${1-}" in
  --help | -h) usage; exit 0 ;;
  -* | '') usage >&2; exit 2 ;;
esac
sysroot=$(realpath "$(dirname "$0")/..")/build/arm64-sysroot
qemu=$(command -v qemu-aarch64-static) && [[ -f $sysroot/version ]] || {
  echo "arm64: QEMU or $sysroot is missing; get both: scripts/bootstrap.sh --arm64" >&2
  exit 1
}
export QEMU_LD_PREFIX=$sysroot

# The first 20 bytes of such a program, and those of their bits that count. P keeps the program's own name.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# Each user namespace of Linux 6.7 has programs' formats of its own.
in_namespace() {
  local formats=/proc/sys/fs/binfmt_misc
  unshare --user --map-root-user --mount bash -c '
    mount -t binfmt_misc none "$0" && printf "%s" "$1" >"$0/register" && shift && exec "$@"' \
    "$formats" ":simurgh-arm64:M::$magic:$mask:$qemu:P" "$@"
}
if in_namespace true 2>/dev/null; then
  in_namespace "$@"
elif [[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]]; then
  exec "$@"
else
  echo "arm64: this system cannot start programs for 64-bit ARM; use Linux 6.7, or as root:" \
    "apt-get install binfmt-support" >&2
  exit 1
fi
