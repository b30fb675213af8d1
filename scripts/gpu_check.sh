#!/usr/bin/env bash
# Runs everything that needs a CUDA device, from programs that were built before, and prints a table.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/gpu_check.sh [--pack DIR | --from DIR]

  --pack DIR   copies the programs and the libraries that they need, but for the system's own, to DIR: for a machine
               with a device and without our packages. Build first: scripts/build.sh cuda nn_cuda_test
  --from DIR   runs what was packed (default: build/cuda/tests)

Every test case runs by itself; output of those that fail follows the table. The exit code is 77 without a device.
TEXT
}

programs=(nn_cuda_test)
folder=build/cuda/tests
case "${1-}" in
  --pack)
    target=${2:?--pack needs a folder}
    mkdir -p "$target/lib"
    for program in "${programs[@]}"; do
      cp "build/cuda/tests/$program" "$target"
      # The C library belongs to the machine.
      ldd "build/cuda/tests/$program" | awk '$3 ~ /^\// { print $3 }' |
        { grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' || true; } | xargs -I{} cp -L {} "$target/lib"
    done
    echo "packed to $target"
    exit ;;
  --from) folder=${2:?--from needs a folder} ;;
  "") ;;
  --help | -h) usage; exit ;;
  *) usage >&2; exit 2 ;;
esac
if [[ -d $folder/lib ]]; then export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi

failures=$(mktemp)
trap 'rm -f "$failures"' EXIT
failed=0
for program in "${programs[@]}"; do
  # The exit code of a list is the number of tests.
  mapfile -t cases < <("$folder/$program" --list-test-names-only || true)
  ((${#cases[@]} > 0)) || { echo "$folder/$program does not start" >&2; exit 1; }
  for name in "${cases[@]}"; do
    begin=$EPOCHREALTIME
    outcome=0
    # A comma separates names, unless a backslash says otherwise.
    output=$("$folder/$program" "${name//,/\\,}" 2>&1) || outcome=$?
    if ((outcome == 77)); then
      echo "$output"
      exit 77
    fi
    verdict=pass
    if ((outcome != 0)) || [[ $output == *"No test cases matched"* ]]; then
      verdict=FAIL
      ((failed += 1))
      printf '== %s: %s\n%s\n' "$program" "$name" "$output" >>"$failures"
    fi
    awk -v a="$begin" -v b="$EPOCHREALTIME" -v v="$verdict" -v n="$name" \
      'BEGIN { printf "%-4s %8.2f s  %s\n", v, b - a, n }'
  done
done
cat "$failures"
echo "$failed failed"
((failed == 0))
