#!/usr/bin/env bash
# library_test.sh LIBRARY EXAMPLE MISTAKES SERVE: programs in C train and serve by libsimurgh.so, which shows only the functions of its header.
set -euo pipefail
library=$1 example=$2 mistakes=$3 serve=$4
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
"$mistakes" adult.yaml || fail "mistakes ended with code $?"
exit $((failures > 0))
