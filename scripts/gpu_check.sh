#!/usr/bin/env bash
# Runs all checks that need a CUDA device, with programs built before, and prints tables.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/gpu_check.sh [PART...] [--from DIR] [--out DIR] [--quick]
       scripts/gpu_check.sh --pack DIR

Parts (default: all); a part that cannot run prints SKIPPED with the reason:
  tests      run each test case that needs a device in its own process.
  sanitizer  run them under compute-sanitizer, memcheck and then racecheck.
  adult      train on the Adult data with ten seeds, in f32 and bf16, and check the test AUC.
  trace      trace a short run with rows under nsys. Print the times of copies, pooling and other
             kernels, and their overlap.
  bench      run bench_nn_cuda.
  peer       run the same steps in PyTorch and print the ratio to its best time; needs
             bench/peers/install_pytorch.sh or PYTHON=...

  --from DIR   use the programs in DIR (default: build/cuda)
  --out DIR    write the benches' JSON lines and the trace to DIR (default: build/gpu_check)
  --quick      measure few points
  --pack DIR   copy this script, the programs and their libraries to DIR. DIR then works on a
               machine with a device but without our packages. Run DIR/scripts/gpu_check.sh --from . there.
               Build first: scripts/build.sh cuda nn_cuda_test adult_cuda_test bench_nn_cuda

Exit codes: 0 done, 1 failed, 2 bad options, 77 nothing could run.
TEXT
}

fail() {
  echo "gpu_check.sh: $*" >&2
  exit 2
}

tests=tests/nn_cuda_test
adult=tests/adult_cuda_test
bench=bin/bench_nn_cuda
programs=("$tests" "$adult" "$bench")
peer=bench/peers/pytorch_nn.py
data=(config/adult-persia.yaml config/data/adult)

pack() {
  local target=$1 program file
  mkdir -p "$target/lib"
  for program in "${programs[@]}"; do
    mkdir -p "$target/$(dirname "$program")"
    cp "build/cuda/$program" "$target/$program"
    # The C library belongs to the machine.
    ldd "build/cuda/$program" | awk '$3 ~ /^\// { print $3 }' |
      { grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' || true; } | xargs -I{} cp -L {} "$target/lib"
  done
  cp -r --parents scripts/gpu_check.sh "$peer" "${data[@]}" "$target"
  echo "packed to $target"
}

folder=build/cuda out=build/gpu_check quick=false
parts=()
while (($# > 0)); do
  case "$1" in
    --pack) pack "${2:?--pack needs a folder}"; exit ;;
    --from) folder=${2:?--from needs a folder}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --quick) quick=true ;;
    --help | -h) usage; exit ;;
    tests | sanitizer | adult | trace | bench | peer) parts+=("$1") ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
((${#parts[@]} > 0)) || parts=(tests sanitizer adult trace bench peer)
for program in "${programs[@]}"; do
  [[ -x $folder/$program ]] || fail "$folder/$program is missing: scripts/build.sh cuda ${programs[*]##*/}"
done
if [[ -d $folder/lib ]]; then export LD_LIBRARY_PATH=$PWD/$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
mkdir -p "$out"
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT
failed=0 ran=0

# run_cases LABEL PROGRAM COMMAND...: runs each test case in its own process.
run_cases() {
  local label=$1 program=$folder/$2 cases name begin outcome output verdict
  shift 2
  # The exit code of a list is the number of tests.
  mapfile -t cases < <("$program" --list-test-names-only || true)
  ((${#cases[@]} > 0)) || fail "$program does not start"
  for name in "${cases[@]}"; do
    begin=$EPOCHREALTIME
    outcome=0
    # A comma separates names, unless a backslash says otherwise.
    output=$("$@" "$program" "${name//,/\\,}" 2>&1) || outcome=$?
    if ((outcome != 0)) && grep -q '^SKIPPED:' <<<"$output" && ! grep -qF "SKIPPED: $name: " <<<"$output"; then
      echo "$label: $(grep -m1 '^SKIPPED:' <<<"$output")"  # Without a device, all cases are skipped.
      return
    fi
    ran=1
    verdict=pass
    if ((outcome == 77)); then
      verdict=skip
    elif ((outcome != 0)) || [[ $output == *"No test cases matched"* ]]; then
      verdict=FAIL
      ((failed += 1))
      printf '== %s: %s\n%s\n' "$label" "$name" "$output" >>"$failures"
    fi
    awk -v a="$begin" -v b="$EPOCHREALTIME" -v v="$verdict" -v l="$label" -v n="$name" \
      'BEGIN { printf "%-4s %8.2f s  %-10s %s\n", v, b - a, l, n }'
    # What it measured.
    sed -n 's/^\([^:]*: mean .*\)/                 \1/p' <<<"$output"
  done
}

# table FILE: prints JSON objects as rows of a table, and other lines unchanged.
table() {
  awk '
    !/^{/ { print; next }
    {
      count = split(substr($0, 2, length($0) - 2), cells, /, ?"/)
      names = row = ""
      for (i = 1; i <= count; ++i) {
        at = index(cells[i], ":")
        name = substr(cells[i], 1, at - 1); value = substr(cells[i], at + 1)
        gsub(/"/, "", name); gsub(/^ |"/, "", value)
        width = name == "part" || name == "device" ? 24 : length(name) < 8 ? 8 : length(name)
        names = names sprintf("%-" width "s ", name); row = row sprintf("%-" width "s ", value)
      }
      if (names != last) { print names; last = names }
      print row
    }' "$1"
}

# run_bench LABEL FILE COMMAND...: prints the command's output and writes it to FILE.
run_bench() {
  local label=$1 file=$2 outcome=0
  shift 2
  "$@" >"$file" 2>"$failures.bench" || outcome=$?
  if ((outcome == 77)); then
    echo "$label: $(cat "$file")"
  elif ((outcome != 0)); then
    ran=1
    ((failed += 1))
    { printf '== %s\n' "$label"; tail -n 20 "$file" "$failures.bench"; } >>"$failures"
    echo "FAIL $label"
  else
    ran=1
    table "$file"
  fi
  rm -f "$failures.bench"
}

# spans: turns each line of nsys's CSV into "begin +1 KIND" and "end -1 KIND", in nanoseconds.
spans() {
  awk -F, '
    /^Start/ { found = 1; next }
    !found || $1 !~ /^[0-9]+$/ { next }
    {
      kind = /CUDA memcpy/ ? "copies" : /CUDA memset/ ? "" : /PoolCell/ ? "pool_rows" : "kernels"
      if (kind != "") printf "%.0f -1 %s\n%.0f +1 %s\n", $1 + $2, kind, $1, kind
    }'
}

# overlaps: from sorted spans, prints the time of each kind and how much of it overlaps with the
# other lane: copies with kernels, kernels with copies.
overlaps() {
  awk '
    BEGIN { count = split("copies pool_rows kernels", kinds, " ") }
    {
      passed = $1 - last; last = $1
      computes = under["pool_rows"] + under["kernels"] > 0
      for (i = 1; i <= count; ++i) {
        kind = kinds[i]
        if (under[kind] == 0) continue
        total[kind] += passed
        if (kind == "copies" ? computes : under["copies"] > 0) overlapped[kind] += passed
      }
      under[$3] += $2
    }
    END {
      for (i = 1; i <= count; ++i) {
        kind = kinds[i]
        if (total[kind] > 0) {
          printf "{\"part\": \"%s\", \"ms\": %.3f, \"overlap_percent\": %.1f}\n", kind, total[kind] / 1e6, 100 * overlapped[kind] / total[kind]
        }
      }
    }'
}

# trace_rows FILE: prints the overlaps of a trace, which must contain pooled rows and copies.
trace_rows() {
  local report=$1.nsys-rep outcome=0 output lines part
  output=$(nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none --force-overwrite=true \
    --output="$1" "$folder/$adult" "a short run with rows that the device pools" 2>&1) || outcome=$?
  if ((outcome != 0)); then
    grep '^SKIPPED:' <<<"$output" || echo "$output" >&2
    return "$outcome"
  fi
  lines=$(nsys stats --force-export=true --report cuda_gpu_trace --format csv "$report" | spans | sort -n -k1,1 -k2,2 | overlaps)
  printf '%s\n' "$lines"
  for part in copies pool_rows; do
    if ! grep -q "\"$part\"" <<<"$lines"; then
      echo "no $part in $report" >&2
      return 1
    fi
  done
}

for part in "${parts[@]}"; do
  case "$part" in
    tests) run_cases tests "$tests" env ;;
    adult) run_cases adult "$adult" env ;;
    sanitizer)
      if ! command -v compute-sanitizer >/dev/null; then
        echo "sanitizer: SKIPPED: compute-sanitizer is not on the PATH"
        continue
      fi
      for tool in memcheck racecheck; do
        options=()
        # A test asks for more memory than there is.
        if [[ $tool == memcheck ]]; then options=(--report-api-errors no); fi
        run_cases "$tool" "$tests" compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 1 --launch-timeout 0
      done ;;
    trace)
      if ! command -v nsys >/dev/null; then
        echo "trace: SKIPPED: nsys is not on the PATH"
        continue
      fi
      run_bench trace "$out/trace.jsonl" trace_rows "$out/rows" ;;
    bench)
      points=()
      if $quick; then points=(--batch 16384 --repeats 20); fi
      run_bench bench "$out/nn.jsonl" "$folder/$bench" --json "${points[@]}" ;;
    peer)
      points=()
      if $quick; then points=(--batch 16384 --repeats 20); fi
      if [[ -s $out/nn.jsonl ]] && grep -q '^{' "$out/nn.jsonl"; then points+=(--beside "$out/nn.jsonl"); fi
      python=${PYTHON:-python3}
      if [[ -x build/peers/pytorch/bin/python && -z ${PYTHON-} ]]; then python=build/peers/pytorch/bin/python; fi
      run_bench peer "$out/pytorch.jsonl" "$python" "$peer" "${points[@]}" ;;
  esac
done
cat "$failures"
echo "$failed failed"
((failed == 0)) || exit 1
((ran == 1)) || exit 77
