#!/usr/bin/env bash
# Installs a Triton server and its load generator from PyPI, for bench_serving and the test of the example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
Usage: bench/peers/install_triton.sh

Installs for bench_serving and tests/python/triton_case.py in build/peers, 1 GB:
  triton         Triton with its Python back end (PyPI's nvidia-pytriton), numpy, onnxruntime and polars
  perf_analyzer  the load generator, which tritonclient 2.41.1 is the last to bring, and libcudart

Needs Python 3.8 to 3.13 with its shared library, and libb64; scripts/bootstrap.sh --bench
installs them.

  --help  print this help
TEXT
}

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

case "${1:-}" in
  --help | -h) usage; exit 0 ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac
command -v python3 >/dev/null || fail "python3 is missing: apt-get install python3-venv"
folder=build/peers/triton client=build/peers/perf_analyzer
[[ -x $folder/bin/pip ]] || python3 -m venv "$folder"
"$folder/bin/pip" install 'nvidia-pytriton==0.7.*' 'numpy<2' onnxruntime polars

mkdir -p "$client"
wheels=$(mktemp --directory)
trap 'rm -r "$wheels"' EXIT
# Without their dependencies: the server needs a newer tritonclient.
"$folder/bin/pip" download --no-deps --dest "$wheels" tritonclient==2.41.1 'nvidia-cuda-runtime-cu12==12.*'
"$folder/bin/python" - "$wheels" "$client" <<'CODE'
import pathlib
import sys
import zipfile

wheels, client = map(pathlib.Path, sys.argv[1:])
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.endswith(("/bin/perf_analyzer", "/libcudart.so.12")):
                path = client / pathlib.Path(name).name
                path.write_bytes(files.read(name))
                path.chmod(0o755)
CODE
LD_LIBRARY_PATH=$client "$client/perf_analyzer" --version ||
  fail "perf_analyzer does not start; scripts/bootstrap.sh --bench installs its libraries"
server=$("$folder/bin/python" -c 'import pytriton, os; print(os.path.dirname(pytriton.__file__))')/tritonserver/bin/tritonserver
"$server" --help >/dev/null 2>&1 || [[ $? == 1 ]] || fail "$server does not start"
