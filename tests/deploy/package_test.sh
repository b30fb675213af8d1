#!/usr/bin/env bash
# Makes the Debian package of a build, installs it in a copy of this system that is thrown away, trains with the
# installed programs and a unit's command, and removes it.
# usage: package_test.sh BUILD
set -euo pipefail
build=$1

skip() { echo "SKIPPED: $*"; exit 77; }
if [[ ${2-} != inside ]]; then
  ((UID == 0)) || skip "only root can install a package"
  for tool in dpkg-shlibdeps unshare adduser; do
    command -v "$tool" >/dev/null || skip "$tool is missing; scripts/bootstrap.sh --tests installs it"
  done
  unshare --mount true 2>/dev/null || skip "no permission for a mount namespace"
  exec unshare --mount "$0" "$build" inside
fi

fail() { echo "package_test: $*" >&2; exit 1; }
folder=$(mktemp --directory)
mount -t tmpfs tmpfs "$folder"
trap 'kill $(jobs -p) 2>/dev/null || true; wait; umount --lazy "$folder"; rmdir "$folder"' EXIT
mkdir "$folder"/{upper,work,root,package}
root=$folder/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root" 2>/dev/null ||
  skip "this kernel cannot mount an overlay of /"
for one in proc dev; do mount --rbind "/$one" "$root/$one"; done

cpack --config "$build/CPackConfig.cmake" -B "$folder/package" >"$folder/cpack.log" || { cat "$folder/cpack.log"; fail "cpack failed"; }
package=$(echo "$folder"/package/simurgh_*.deb)
cp "$package" "$root/tmp/simurgh.deb"
inside() { chroot "$root" "$@"; }
as_user=(chroot --userspec=simurgh:simurgh "$root" env --chdir=/var/lib/simurgh HOME=/var/lib/simurgh)

inside dpkg --install /tmp/simurgh.deb
inside dpkg --status simurgh | grep -q '^Status: install ok installed$' || fail "it is not installed"
if command -v systemd-analyze >/dev/null; then
  for unit in simurgh@nn-worker-0 simurgh-serve; do
    inside systemd-analyze verify "$unit.service" || fail "$unit has errors"
  done
fi

[[ -d $root/etc/simurgh ]] || fail "/etc/simurgh is missing"
# An address that no other test uses.
config=/var/lib/simurgh/adult.yaml
inside sed "s/127.0.0.1/127.83.41.7/g; s|data/adult|/usr/share/simurgh/examples/data/adult|" \
  /usr/share/simurgh/examples/adult.yaml >"$root$config"
"${as_user[@]}" simurgh train "$config" --set training.max_steps=50 --set checkpoint.directory=model |
  grep -q '^test_auc=0\.[89]' || fail "training failed"
"${as_user[@]}" simurgh predict --model model --input /usr/share/simurgh/examples/data/adult/adult.test.csv.zst \
  --output scores.csv
(($(wc -l <"$root/var/lib/simurgh/scores.csv") > 10000)) || fail "predictions are missing"

for one in prometheus.yml alerts.yml training.json servers.json README.md; do
  [[ -s $root/usr/share/simurgh/monitoring/$one ]] || fail "monitoring/$one is missing"
done

# command_of UNIT KEY: the shell's command of a unit, as systemd would read it.
command_of() {
  local command
  command=$(sed -n "s/^$2=\/bin\/sh -c '\(.*\)'$/\1/p" "$root/lib/systemd/system/$1.service" |
    sed 's/%i/embedding-ps-1/; s/%%/%/g; s/\$\$/$/g')
  [[ -n $command ]] || fail "the unit $1 has no $2"
  echo "$command"
}
# await TEXT LOG: waits until a log has the text.
await() {
  for ((i = 0; i < 600; ++i)); do
    grep -q "$1" "$2" && return
    sleep 0.1
  done
  cat "$2"
  fail "no '$1' after a minute"
}

"${as_user[@]}" simurgh serve --model model --listen 127.83.41.7:7602 >"$folder/serve.log" 2>&1 &
server=$!
await "127.83.41.7:7602" "$folder/serve.log"
command=$(command_of simurgh-serve ExecReload)
chroot "$root" env --ignore-environment PATH=/nowhere MAINPID="$server" /bin/sh -c "$command"
await "SIGHUP: reloaded" "$folder/serve.log"
kill "$server"
wait "$server" || fail "simurgh serve did not stop: $?"

command=$(command_of simurgh@ ExecStart)
"${as_user[@]}" "SIMURGH_CONFIG=$config" /bin/sh -c "$command" 2>"$folder/server.log" &
server=$!
await "127.83.41.7:7502 serves /metrics" "$folder/server.log"
kill "$server"
wait "$server" || fail "embedding-ps 1 did not stop: $?"

inside dpkg --remove simurgh
for left in /usr/bin/embedding-ps /lib/systemd/system/simurgh@.service /usr/share/simurgh; do
  [[ ! -e $root$left ]] || fail "$left is left after the removal"
done
[[ -d $root/var/lib/simurgh/model ]] || fail "the removal has deleted a model"
inside dpkg --purge simurgh
for left in /var/lib/simurgh /etc/simurgh; do
  [[ ! -e $root$left ]] || fail "$left is left after the purge"
done
! inside getent passwd simurgh || fail "the user is left after the purge"
