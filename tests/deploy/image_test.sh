#!/usr/bin/env bash
# Makes the image, and checks its description, size and files. Runs it by chroot as its user, with a
# read-only root: three daemons train, and their model predicts.
set -euo pipefail

skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "image_test: $*" >&2; exit 1; }

if [[ ${1-} != inside ]]; then
  # What is missing ends the script before the build, with a remedy. The tools are fakes.
  fakes=$(mktemp --directory)
  trap 'rm -rf "$fakes"' EXIT
  chmod 755 "$fakes"
  mkdir -p "$fakes"/{tree/config/deploy,path}
  cp config/deploy/image.sh "$fakes/tree/config/deploy"
  fake() { printf '#!/bin/sh\n%s\n' "${*:2}" >"$fakes/path/$1" && chmod +x "$fakes/path/$1"; }
  # refuses TEXT COMMAND...
  refuses() {
    local code=0 text=$1
    shift
    PATH=$fakes/path "$@" "$fakes/tree/config/deploy/image.sh" --check 2>"$fakes/error" || code=$?
    ((code == 1)) && grep -q "$text" "$fakes/error" || fail "exit code $code, not '$text': $(cat "$fakes/error")"
  }
  for tool in bash dirname mkdir tail; do ln -s "$(command -v "$tool")" "$fakes/path"; done
  bash=$(command -v bash)
  setpriv=$(command -v setpriv)
  fake df echo 100000
  refuses '^image: buildah mmdebstrap dpkg-shlibdeps file jq missing; .*bootstrap.sh --image' "$bash"
  for tool in buildah mmdebstrap dpkg-shlibdeps file jq; do fake "$tool" exit 1; done
  ((UID == 0)) || fake sudo exit 1
  PATH=$fakes/path "$bash" "$fakes/tree/config/deploy/image.sh" --check || fail "it refuses what it has"
  ((UID > 0)) || refuses 'only root .* run scripts/build.sh image as root' "$setpriv" --reuid=65534 --clear-groups "$bash"
  fake df echo 10
  refuses 'build has 10 MiB of free space, 1500 are needed' "$bash"

  ((UID == 0)) || skip "only root can make the image and run it by chroot"
  for tool in buildah mmdebstrap dpkg-shlibdeps file; do
    command -v "$tool" >/dev/null || skip "$tool is missing; scripts/bootstrap.sh --image installs it"
  done
  unshare --mount true 2>/dev/null || skip "no permission for a mount namespace"
  rm -rf "$fakes"
  exec unshare --mount "$0" inside
fi

folder=$(mktemp --directory)
mount -t tmpfs tmpfs "$folder"
trap 'umount --lazy "$folder"; rmdir "$folder"' EXIT
/usr/lib/apt/apt-helper download-file http://deb.debian.org/debian/dists/bookworm/InRelease "$folder/release" \
  >/dev/null 2>&1 || skip "http://deb.debian.org/debian cannot be reached"
scripts/build.sh image >"$folder/log" 2>&1 || { cat "$folder/log"; fail "no image was made"; }
archive=$(sed -n 's/^wrote \(.*\.tar\), .*/\1/p' "$folder/log")
tail -n 1 "$folder/log"
(($(stat --format %s "$archive") <= 150000000)) || fail "it has more than 150 MB"

# The archive is an OCI layout, and one for Docker.
mkdir "$folder"/{image,root}
image=$folder/image
root=$folder/root
tar --extract --file "$archive" --directory "$image"
(cd "$image/blobs/sha256" && sha256sum * | awk '$1 != $2 { print; exit 1 }') || fail "a blob has another digest"
blob() { echo "$image/blobs/${1/:/\/}"; }
get() { jq --exit-status --raw-output "$1" "$2" || fail "$2 has no $1"; }
version=$(build/release/bin/simurgh --version | awk '{ print $2 }')
[[ $(get '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$image/index.json") == \
  docker.io/library/simurgh:$version ]] || fail "the image has another name"
manifest=$(blob "$(get '.manifests[0].digest' "$image/index.json")")
config=$(blob "$(get .config.digest "$manifest")")
[[ $(get '.[0].RepoTags[0]' "$image/manifest.json") == "simurgh:$version" ]] || fail "Docker sees another name"
[[ $image/$(get '.[0].Config' "$image/manifest.json") == "$config" ]] || fail "Docker sees another configuration"
[[ $(get '.[0].Layers[]' "$image/manifest.json" | tr / :) == "$(get '.layers[].digest | "blobs:" + .' "$manifest")" ]] ||
  fail "Docker sees other layers"
[[ $(get .architecture "$config") == "$(dpkg --print-architecture)" ]] || fail "it is for another processor"
user=$(get .config.User "$config")
[[ $user == 10001:10001 ]] || fail "its user is $user"
path=$(get '.config.Env[] | select(startswith("PATH="))' "$config")
for layer in $(get '.layers[].digest' "$manifest"); do
  tar --extract --gunzip --file "$(blob "$layer")" --directory "$root"
done
rm -r "$image"

[[ -z $(find "$root/var/lib/apt/lists" -type f -size +0) ]] || fail "lists of packages are left"
[[ -z $(find "$root" -xdev -perm /6000 -type f) ]] || fail "a program changes its user"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
for one in proc dev sys; do mount --rbind "/$one" "$root/$one"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
inside() {
  chroot "$root" setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs --inh-caps=-all \
    --bounding-set=-all env --ignore-environment --chdir=/tmp "$path" "$@"
}

[[ $(inside id --user --name) == simurgh ]] || fail "the user has no name"
! inside touch /var/lib/simurgh/file 2>"$folder/error" || fail "the root can be written"
grep -q 'Read-only file system' "$folder/error" || fail "the root is not read-only: $(cat "$folder/error")"
inside simurgh --help | grep -q '^simurgh: trains models' || fail "there is no help"
for program in embedding-ps embedding-worker nn-worker row-server simurgh simurgh-feed; do
  inside ldd "/usr/bin/$program" >"$folder/libraries"
  ! grep 'not found' "$folder/libraries" || fail "$program lacks libraries"
  grep -q 'libjemalloc' "$folder/libraries" || fail "$program has not the allocator of a release build"
  [[ $(inside "$program" --version) == "$program $version"* ]] || fail "$program does not start"
done
# Public authorities, for brokers of Kafka.
(($(inside find /etc/ssl/certs -name '*.0' | wc -l) > 100)) || fail "certificates of authorities are missing"

# An address that no other test uses.
sed "s/127.0.0.1/127.83.44.7/g; s|data/adult|/usr/share/simurgh/examples/data/adult|" config/adult.yaml >"$root/tmp/adult.yaml"
inside simurgh train adult.yaml --set training.max_steps=50 --set checkpoint.directory=model >"$folder/result"
grep -q '^test_auc=0\.[89]' "$folder/result" || fail "training gave '$(cat "$folder/result")'"
inside simurgh predict --model model --input /usr/share/simurgh/examples/data/adult/adult.test.csv.zst --output scores.csv
(($(wc -l <"$root/tmp/scores.csv") > 10000)) || fail "predictions are missing"

# Pods run this image as this user.
inside simurgh kubernetes adult.yaml --data files >"$folder/objects"
grep -q "image: \"simurgh:$version\"" "$folder/objects" || fail "pods run another image"
grep -q "runAsUser: ${user%:*}" "$folder/objects" || fail "pods run as another user"
