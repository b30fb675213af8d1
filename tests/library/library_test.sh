#!/usr/bin/env bash
# library_test.sh LIBRARY EXAMPLE MISTAKES SERVE ROWS ROW_SERVER MODEL: programs in C train and serve by libsimurgh.so, which shows only the functions of its header.
set -euo pipefail
library=$1 example=$2 mistakes=$3 serve=$4 rows=$5 row_server=$6 of_model=$7
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
  printf '%s\n' "$*" >&2
  failures=$((failures + 1))
}

shown=$(nm --dynamic --defined-only "$library" | awk '{ print $NF }' | sort)
declared=$(grep --extended-regexp --only-matching --no-filename 'simurgh_[a-z_]+\(' include/simurgh/simurgh.h | tr -d '(' | sort --unique)
others=$(grep --invert-match '^simurgh_' <<<"$shown" || true)
[[ -z $others ]] || fail "the library also shows: $(head -n 20 <<<"$others")"
missing=$(comm -13 <(echo "$shown") <(echo "$declared"))
[[ -z $missing ]] || fail "the library lacks functions of its header: $missing"
extra=$(comm -23 <(echo "$shown") <(echo "$declared"))
[[ -z $extra ]] || fail "the header lacks functions of the library: $extra"

# The configuration of the quickstart, without its network.
sed --expression "s|data/adult/|$root/config/data/adult/|" --expression 's|metrics: "127.0.0.1:[0-9]*"|metrics: "127.0.0.1:0"|' \
  --expression '/^model:/,/^training:/{/^training:/!d}' config/adult.yaml >"$folder/adult.yaml"
cd "$folder"
settings=(training.mode=sync training.epochs=1 checkpoint.directory=model)
"$example" adult.yaml "${settings[@]}" training.max_steps=100 >first.txt || fail "the example ended with code $?"
"$example" adult.yaml "${settings[@]}" >second.txt || fail "the example that continues ended with code $?"
"$example" adult.yaml "${settings[@]}" checkpoint.directory=whole >whole.txt || fail "the whole example ended with code $?"
cat first.txt second.txt whole.txt
# In a sanitizer build speed differs, but no number.
[[ $(sed 's/ samples_per_sec.*//' second.txt) == "$(sed 's/ samples_per_sec.*//' whole.txt)" ]] ||
  fail "the training that was continued has another result than the whole one"
auc=$(sed --quiet 's/^.*test_auc=\([0-9.]*\).*$/\1/p' whole.txt)
awk -v auc="$auc" 'BEGIN { exit !(auc > 0.88 && auc < 0.95) }' || fail "test_auc: '$auc', expected 0.88 to 0.95"
"$example" no.yaml 2>error.txt && fail "the example trains without a configuration"
grep --quiet 'no.yaml' error.txt || fail "the error does not name the file: $(cat error.txt)"

# A program in C serves the model: the predictions of its probe are those of the training.
"$serve" model >address.txt 2>serve.txt &
server=$!
until [[ -s address.txt ]] || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
curl --silent --show-error --retry 100 --retry-delay 1 "$(<address.txt)/v2/health/ready" >ready.txt || fail "the server is not ready: $(cat serve.txt)"
python3 - "$(<address.txt)" model/step-*/probe.csv <<'CODE' || fail "the server's predictions differ: $(cat serve.txt)"
import csv, json, pathlib, re, sys, urllib.request
columns = re.findall(r"- \{name: (\w+), kind: (\w+)", pathlib.Path("adult.yaml").read_text())
step = max(sys.argv[2:], key=lambda path: int(re.search(r"step-(\d+)", path)[1]))
probe = list(csv.reader(open(step)))[1:]
rows = [dict(zip([name for name, _ in columns], next(csv.reader([row])))) for _, row in probe]
for row in rows:
    row.pop(next(name for name, kind in columns if kind == "label"))
request = urllib.request.Request(f"http://{sys.argv[1]}/v1/models/model:predict", json.dumps({"instances": rows}).encode())
found = json.load(urllib.request.urlopen(request))["predictions"]
far = max(abs(one - float(wanted)) for one, (wanted, _) in zip(found, probe, strict=True))
print("rows of the probe:", len(found), "largest difference:", far)
sys.exit(far > 1e-6)
CODE
kill $server
wait $server || fail "the server ended with code $?: $(cat serve.txt)"

# Rows by id are the same from memory, from mapped files and from servers.
ids=$(python3 - model/step-*/rows/workclass/0.safetensors <<'CODE'
import json, struct, sys
path = max(sys.argv[1:], key=lambda path: int(path.split("step-")[1].split("/")[0]))
content = open(path, "rb").read()
length = struct.unpack("<Q", content[:8])[0]
begin, end = json.loads(content[8:8 + length])["id"]["data_offsets"]
print(*struct.unpack(f"<{(end - begin) // 8}Q", content[8 + length + begin:8 + length + end]), 12345)
CODE
)
servers=unix://$folder/rows0,unix://$folder/rows1
pids=() places=0
for i in 0 1; do
  "$row_server" --model model --set "serving.servers=$servers" --index $i 2>row-server.$i &
  pids+=($!)
done
for place in memory mapped "$servers"; do
  places=$((places + 1))
  # shellcheck disable=SC2086
  "$rows" model "$place" f32 workclass $ids >"rows.$places" || fail "rows of $place: code $?"
done
grep --quiet '^1 ' rows.1 && grep --quiet '^0 0 ' rows.1 || fail "no rows: $(head -n 3 rows.1)"
cmp rows.1 rows.2 && cmp rows.1 rows.3 || fail "rows differ by their place"
# shellcheck disable=SC2086
"$rows" model "$servers" int8 workclass $ids >rows.4 || fail "rows of int8: code $?"
paste -d ' ' rows.1 rows.4 | awk '{ half = NF / 2
  for (i = 1; i <= half; ++i) { far = $i - $(i + half); if (far < 0) far = -far; if (far > most) most = far }
} END { print "largest difference of int8:", most; exit !(most > 0 && most < 0.02) }' || fail "rows of int8 are far from those of f32"
kill "${pids[@]}"
wait "${pids[@]}" || fail "row-server ended with code $?"
for bad in "disk f32;rows: 'disk' is neither" "memory int4;'int4' is unknown" "mapped int8;mapped rows have" "unix://$folder/none f32;cannot reach"; do
  # shellcheck disable=SC2086
  "$rows" model ${bad%%;*} workclass 1 2>error.txt && fail "$bad is no error"
  grep --quiet --fixed-strings -- "${bad#*;}" error.txt || fail "the error lacks ${bad#*;}: $(cat error.txt)"
done
"$mistakes" adult.yaml || fail "mistakes ended with code $?"
"$of_model" whole || fail "mistakes with a model ended with code $?"
exit $((failures > 0))
