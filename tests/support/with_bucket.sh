#!/usr/bin/env bash
# Runs a program with a bucket of a server on the loopback: with_bucket.sh [--faults N] COMMAND...
# SIMURGH_TEST_BUCKET names the place for models. --faults: of the first N requests, a third has a fault. The exit code is
# the program's; 77 if the server is not installed.
set -euo pipefail
faults=0
[[ $1 != --faults ]] || { faults=$2; shift 2; }
weed=build/python/bin/weed
[[ -x $weed ]] || { echo "skipped: tests/requirements.txt is not installed"; exit 77; }
for python in build/python/bin/python build/arrow/bin/python python3 none; do
  [[ $python != none ]] || { echo "skipped: no Python can import pyarrow"; exit 77; }
  ! "$python" -c 'import pyarrow' 2>/dev/null || break
done
folder=$(mktemp -d)
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret
coproc SERVER { exec "$python" tests/support/s3_server.py "$weed" "$folder"; }
server=$SERVER_PID
end() {
  touch "$folder/done"
  wait "$server" || true
  rm -rf "$folder"
}
trap end EXIT
read -r uri <&"${SERVER[0]}" && read -r proxy <&"${SERVER[0]}" || { cat "$folder/s3.log" >&2; exit 1; }
address=${uri#*endpoint_override=}
address=${address%%&*}
if ((faults > 0)); then
  address=127.0.0.1:$proxy
  curl --noproxy 127.0.0.1 --silent --fail "http://$address/-/random/$faults/1/" >/dev/null
fi
export AWS_ENDPOINT_URL=http://$address SIMURGH_TEST_BUCKET=s3://bucket/models no_proxy=127.0.0.1
"$@"
