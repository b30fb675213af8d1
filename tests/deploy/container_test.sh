#!/usr/bin/env bash
# Checks the Containerfile, and builds and runs the image where a program can.
set -euo pipefail
file=config/deploy/Containerfile
linted="not checked: hadolint is missing; scripts/test.sh installs it in build/python"
if [[ -x build/python/bin/hadolint ]]; then
  # Debian 12 changes packages only by fixes; the package makes the user.
  build/python/bin/hadolint --ignore DL3008 --ignore DL3066 "$file"
  linted="checked by hadolint"
fi
for tool in buildah podman; do
  command -v "$tool" >/dev/null || continue
  if ! "$tool" pull --quiet docker.io/library/debian:12 >/dev/null 2>&1; then
    echo "SKIPPED: $tool cannot get Debian's image from its registry; $file was $linted"
    exit 77
  fi
  "$tool" build --file "$file" --tag simurgh-test .
  if [[ $tool == podman ]]; then
    podman run --rm simurgh-test simurgh --version
  else
    container=$(buildah from simurgh-test)
    buildah run "$container" simurgh --version
    buildah rm "$container" >/dev/null
  fi
  exit 0
done
echo "SKIPPED: neither buildah nor podman is installed, so no image was built; $file was $linted"
exit 77
