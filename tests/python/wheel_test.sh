#!/usr/bin/env bash
# Makes the wheel, installs it in a bare Debian with another Python, trains there with the programs and with a program
# of numpy, and uninstalls it. The Debian is in memory and ends with the test.
set -euo pipefail

skip() { echo "SKIPPED: $*"; exit 77; }
if [[ ${1-} != inside ]]; then
  ((UID == 0)) || skip "only root can make a chroot"
  command -v debootstrap >/dev/null || skip "debootstrap is missing; scripts/bootstrap.sh --tests installs it"
  unshare --mount true 2>/dev/null || skip "no permission for a mount namespace"
  exec unshare --mount "$0" inside
fi

fail() { echo "wheel_test: $*" >&2; exit 1; }
folder=$(mktemp --directory)
mount -t tmpfs tmpfs "$folder"
trap 'umount --lazy "$folder"; rmdir "$folder"' EXIT

# Python comes with the system; numpy from PyPI.
for suite in trixie bookworm; do
  root=$folder/$suite
  if debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" >"$folder/debootstrap.log" 2>&1; then break; fi
  root=
done
[[ -n $root ]] || skip "debootstrap cannot make a Debian: $(tail -n 1 "$folder/debootstrap.log")"
for one in dev proc sys; do mount --rbind "/$one" "$root/$one"; done
inside() {
  chroot --userspec=nobody:nogroup "$root" env --ignore-environment --chdir=/tmp HOME=/tmp PATH=/usr/bin:/bin "$@"
}
python=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
echo "$suite, $(inside ldd --version | head -n 1), Python $python"

/usr/bin/python3 -m venv "$folder/venv" || skip "python3-venv is missing; scripts/bootstrap.sh --tests installs it"
"$folder/venv/bin/pip" download --quiet --disable-pip-version-check --only-binary :all: --python-version "$python" \
  --dest "$root/tmp/pypi" numpy || skip "PyPI cannot be reached"

scripts/build.sh wheel
wheel=$(echo build/wheel/*"$(uname -m)".whl)
cp "$wheel" tests/python/wheel_program.py "$root/tmp"
cp -r config/data "$root/tmp"
# Addresses that no other test uses.
sed 's/127.0.0.1/127.83.43.7/g' config/adult.yaml >"$root/tmp/adult.yaml"
sed '/^model:/,/^training:/{/^training:/!d}' "$root/tmp/adult.yaml" >"$root/tmp/program.yaml"

venv=/tmp/venv
files() { find "$root$venv" ! -name __pycache__ ! -name '*.pyc' | sort; }
inside python3 -m venv "$venv"
inside "$venv/bin/pip" install --quiet --no-index --find-links /tmp/pypi numpy
files >"$folder/before"
inside "$venv/bin/pip" install --quiet --no-index "/tmp/${wheel##*/}"

inside "$venv/bin/simurgh" --version
inside "$venv/bin/python" -m simurgh --version
inside "$venv/bin/simurgh-feed" --version
inside "$venv/bin/simurgh" schema | head -n 1 >/dev/null || [[ ${PIPESTATUS[0]} == 141 ]] || fail "a closed pipe does not end a command"
train() {
  local result
  result=$(inside "$venv/bin/simurgh" train adult.yaml --set training.max_steps=100 --set checkpoint.directory=model)
  [[ $result =~ ^test_auc=0\.9[123] ]] || fail "training gave '$result'; test_auc must be 0.91 to 0.94"
}
train
inside "$venv/bin/simurgh" predict --model model --input data/adult/adult.test.csv.zst --output scores.csv
(($(wc -l <"$root/tmp/scores.csv") > 10000)) || fail "predictions are missing"
inside "$venv/bin/simurgh" train program.yaml -- "$venv/bin/python" wheel_program.py program.yaml

# Parquet, by the programs and by the library, if this build has Arrow.
if [[ -e $(echo "$root$venv"/lib/*/site-packages/simurgh/bin/libsimurgh_arrow.so) ]]; then
  build/arrow/bin/python - "$root/tmp" <<'PYTHON'
import pathlib
import re
import sys
from pyarrow import csv, parquet
folder = pathlib.Path(sys.argv[1])
names = re.findall(r"^ +- {name: (\w+), kind:", (folder / "adult.yaml").read_text(), re.M)
for path in (folder / "data/adult").glob("adult.*.csv.zst"):
    table = csv.read_csv(path, csv.ReadOptions(column_names=names))
    parquet.write_table(table, str(path).replace(".csv.zst", ".parquet"))
PYTHON
  sed -i 's/format: csv/format: parquet/; s/\.csv\.zst/.parquet/' "$root/tmp/"{adult,program}.yaml
  rm -r "$root/tmp/model"
  train
  inside "$venv/bin/python" wheel_program.py program.yaml
fi

inside "$venv/bin/pip" uninstall --quiet --yes simurgh
files | diff "$folder/before" - || fail "files are left after the removal"
