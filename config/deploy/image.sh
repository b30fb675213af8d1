#!/usr/bin/env bash
# Packs the Debian package of build/release, with the packages that it needs, into an image. scripts/build.sh image
# calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "image: $*" >&2; exit 1; }
folder=$PWD/build/image
most_bytes=150000000
user=10001  # Of the pods of simurgh kubernetes.
as_root=()
((UID == 0)) || as_root=(sudo --preserve-env=http_proxy,https_proxy)

# Before a build, which takes minutes.
check() {
  local tool missing=() free least=1500
  for tool in buildah mmdebstrap dpkg-shlibdeps file jq; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) || fail "${missing[*]} missing; scripts/bootstrap.sh --image installs what is needed"
  ((UID == 0)) || command -v sudo >/dev/null ||
    fail "only root can unpack Debian packages, and there is no sudo; run scripts/build.sh image as root"
  mkdir -p build
  free=$(df --output=avail --block-size=1M build | tail -n 1)
  ((free >= least)) || fail "$PWD/build has $((free)) MiB of free space, $least are needed; free some, or mount a larger disk there"
}

step() { printf 'image: %s, %d:%02d elapsed\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)) >&2; }

# remove PATH...: not what is mounted below, which an interrupted run may have left.
remove() { "${as_root[@]}" rm -rf --one-file-system "$@"; }

check
[[ ${1-} != --check ]] || exit 0

remove "$folder"
mkdir -p "$folder/temporary"
trap 'remove "$folder"/{layout,manifest.json,package,run,store,temporary}' EXIT

step "1 of 3: packing build/release"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
cpack --config build/release/CPackConfig.cmake -B "$folder/package" >"$folder/cpack.log" 2>&1 ||
  { tail -n 20 "$folder/cpack.log" >&2; fail "the Debian package cannot be made; $folder/cpack.log has more"; }
package=$(echo "$folder"/package/simurgh_*.deb)
version=$(dpkg-deb --field "$package" Version)

buildah() {
  "${as_root[@]}" env TMPDIR="$folder/temporary" buildah --root "$folder/store" --runroot "$folder/run" \
    --storage-driver vfs "$@"
}
container=$(buildah from scratch)
root=$(buildah mount "$container")

# Debian's packages come from a mirror, then dpkg installs ours, whose file apt would seek inside. The user exists before
# the package's script would choose its number. The hook-dir avoids usrmerge, which needs Perl. Without privileges,
# programs that change their user have no use. Brokers of Kafka and buckets have certificates of public authorities, and
# programs load libcurl for buckets. mmdebstrap empties /tmp itself: its configuration of apt is there until the end.
needed=$(dpkg-deb --field "$package" Depends | sed 's/ *([^)]*)//g; s/ *|[^,]*//g; s/ //g')
step "2 of 3: unpacking Debian 12 and $(basename "$package")"
"${as_root[@]}" env TMPDIR="$folder/temporary" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
  mmdebstrap --variant=essential --format=directory --include="$needed,ca-certificates,libcurl4" \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-include=/usr/share/doc/simurgh/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --essential-hook="echo simurgh:x:$user:$user:Simurgh:/var/lib/simurgh:/usr/sbin/nologin >>\"\$1/etc/passwd\"" \
  --essential-hook="echo simurgh:x:$user: >>\"\$1/etc/group\"" \
  --essential-hook="install --directory --owner=$user --group=$user \"\$1/var/lib/simurgh\"" \
  --customize-hook="cp '$package' \"\$1/simurgh.deb\"" \
  --customize-hook='chroot "$1" dpkg --install /simurgh.deb && rm "$1/simurgh.deb"' \
  --customize-hook='find "$1" -xdev -perm /6000 -type f -exec chmod a-s {} +' \
  --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/log/*' \
  bookworm "$root" ${MIRROR:+"$MIRROR"} >"$folder/mmdebstrap.log" 2>&1 || {
    grep '^E: ' "$folder/mmdebstrap.log" >&2 || tail -n 20 "$folder/mmdebstrap.log" >&2
    fail "Debian's packages cannot be fetched or unpacked; $folder/mmdebstrap.log has more. The mirror is" \
      "${MIRROR:-http://deb.debian.org/debian}; MIRROR=URL names another"
  }

"${as_root[@]}" find "$root/dev" -xdev -mindepth 1 -delete  # Each container gets its own.
step "3 of 3: compressing $("${as_root[@]}" du --summarize --block-size=1MB "$root" | cut -f 1) MB"
buildah config --user "$user:$user" --workingdir /var/lib/simurgh --cmd '["simurgh", "--help"]' \
  --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  --label org.opencontainers.image.title=simurgh --label "org.opencontainers.image.version=$version" \
  --label org.opencontainers.image.licenses=Apache-2.0 "$container"
# The full name, as containerd and Kubernetes know simurgh:VERSION.
buildah commit --quiet --disable-compression=false --timestamp "$SOURCE_DATE_EPOCH" "$container" \
  "oci:$folder/layout:docker.io/library/simurgh:$version" >/dev/null
archive=$folder/simurgh-$version.tar
# Docker reads manifest.json only, others index.json.
manifest=$(jq --raw-output '.manifests[0].digest | sub(":"; "/")' "$folder/layout/index.json")
jq --arg name "simurgh:$version" 'def path: "blobs/" + sub(":"; "/");
  [{Config: .config.digest | path, RepoTags: [$name], Layers: [.layers[].digest | path]}]' \
  "$folder/layout/blobs/$manifest" >"$folder/manifest.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --create --file "$archive" \
  --directory "$folder/layout" oci-layout index.json blobs --directory "$folder" manifest.json
bytes=$(stat --format %s "$archive")
((bytes <= most_bytes)) || fail "$archive has $bytes bytes, at most $most_bytes are allowed"
echo "wrote $archive, $((bytes / 1000000)) MB; load it: docker load --input $archive"
