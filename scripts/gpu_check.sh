#!/usr/bin/env bash
# The verdict on the CUDA backend: tests, sanitizers and measurements on a device, with programs built before.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/gpu_check.sh [--minutes N] [--out DIR]
       scripts/gpu_check.sh --bundle DIR

Tests and measures the CUDA backend on a device. Prints a table and writes DIR/gpu_check.json.
bench/README.md explains how to read both. A part that fails or is late does not stop the others. A part
that cannot run prints SKIPPED with the reason:
  tests      run all cases that need a device in one process. After a crash, run the others one by one.
             Repeat each failed case alone, without graphs, and with blocking launches, too.
  bench      measure steps and products of two networks with bench_nn_cuda.
  peer       measure the same steps in PyTorch.
  plans      look for faster ways to compute the products than those that are chosen.
  memcheck   run kernels, products and two short trainings under compute-sanitizer.
  initcheck  run them under its check of uninitialised memory.
  racecheck  run kernels under its check of memory that a block shares.
  synccheck  run them under its check of barriers and shuffles.
  training   train a few steps on the Adult data, and ranks on all devices.
  hosted     train a network of PyTorch on the device by the Python package.

  --minutes N    end after N minutes (default: 25)
  --out DIR      write results and logs to DIR (default: build/gpu_check)
  --bundle DIR   copy this script, the programs and their libraries to DIR. Run DIR/gpu_check.sh on a
                 machine that has a device, but not our packages. Build first:
                 scripts/build.sh cuda nn_cuda_test bench_nn_cuda adult_cuda_test simurgh_shared
                 Without adult_cuda_test, the part training is skipped; without simurgh_shared, hosted.

Environment:
  SIMURGH_CUDA_LIBRARIES  folders of cuBLASLt and NCCL, separated by colons; those of PyTorch are appended
  PYTHON                  Python with PyTorch (default: build/peers/pytorch/bin/python, or python3)

Exit codes: 0 passed, 1 failed, 2 bad options, 77 nothing could run.
TEXT
}

fail() {
  echo "gpu_check.sh: $*" >&2
  exit 2
}

tests=build/cuda/tests/nn_cuda_test
bench=build/cuda/bin/bench_nn_cuda
adult=build/cuda/tests/adult_cuda_test
library=build/cuda/lib/libsimurgh.so.1
hosted=tests/python/device_case.py
peer=bench/peers/pytorch_nn.py
points=(--network paper,light --precision bf16 --batch 4096,16384,65536)
# Cases for the sanitizers, by file or name.
declare -A sanitized=(
  [kernels]='[#kernel_runs_test],[#vector_kernels_test],[#pooling_runs_test]'
  [products]='[#product_runs_test]'
  [trainings]='a replayed graph*,rows pooled by a network in bf16*')

bundle() {
  local target=$1 program subject bytes
  for subject in "${!sanitized[@]}"; do
    [[ -n $("$tests" -# --list-test-names-only "${sanitized[$subject]}") ]] || fail "$tests: no case is ${sanitized[$subject]}"
  done
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$target" "$stage/build/cuda/lib"
  for program in "$tests" "$bench" "$adult" "$library"; do
    [[ -x $program ]] || continue
    cp --parents "$program" "$stage"
    # The C library belongs to the machine.
    ldd "$program" | sed -nE 's|.* => (/.*) \(0x[0-9a-f]+\)$|\1|p' | grep -vE '/lib(c|m|dl|rt|pthread|resolv|util|anl|mvec)\.so' |
      xargs -d '\n' -r cp -L --target-directory "$stage/build/cuda/lib"
  done
  cp -r --parents "$peer" config/adult-persia.yaml config/data/adult services/python/simurgh "$hosted" \
    tests/python/hosted.py tests/cases/case.py "$stage"
  git describe --always --dirty >"$stage/commit"
  tar -C "$stage" -czf "$target/bundle.tar.gz" .
  cp scripts/gpu_check.sh "$target"
  bytes=$(stat -c %s "$target/bundle.tar.gz")
  ((bytes < 63 << 20)) || fail "$target/bundle.tar.gz has $bytes bytes, more than 63 MiB"
  version() { find "$stage/build" -type f "$@" -exec objdump -T {} + | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1; }
  echo "$target: $((bytes >> 20)) MiB; needs $(version)," \
    "or $(version ! -name 'libstdc*' ! -name 'libgcc_s*') and the C++ library of GCC 12"
}

home=$(cd "$(dirname "$0")" && pwd)
minutes=25 out='' target=''
while (($# > 0)); do
  case "$1" in
    --help | -h) usage; exit ;;
    --minutes | --out | --bundle) [[ -n ${2-} ]] || fail "$1 needs a value" ;;&
    --minutes) minutes=$2 ;;
    --out) out=$(realpath -m "$2") ;;
    --bundle) target=$(realpath -m "$2") ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
[[ $minutes =~ ^[1-9][0-9]*$ ]] || fail "--minutes: '$minutes' is not a number of minutes; use 1 or more"
if [[ -f $home/bundle.tar.gz ]]; then
  mkdir -p "$home/bundle"
  tar -C "$home/bundle" -xzf "$home/bundle.tar.gz"
  cd "$home/bundle"
  # Our C++ library does not load with an older C library; the machine's may do.
  "$tests" --help >/dev/null 2>&1 || rm -f build/cuda/lib/lib{stdc++,gcc_s}.so.*
else
  cd "$home/.."
fi
for program in "$tests" "$bench"; do
  [[ -x $program ]] || fail "$program is missing; run scripts/build.sh cuda ${program##*/}"
done
if [[ -n $target ]]; then
  bundle "$target"
  exit
fi

out=${out:-$PWD/build/gpu_check}
mkdir -p "$out"
for file in results.tsv bench.jsonl peer.jsonl failed_cases.log; do : >"$out/$file"; done
python=${PYTHON:-build/peers/pytorch/bin/python}
[[ -x $python || -n ${PYTHON-} ]] || python=python3
# PyTorch's packages of libraries.
folders=$("$python" - 2>/dev/null <<'PYTHON' || true
import importlib.util, os
spec = importlib.util.find_spec("nvidia")
roots = spec.submodule_search_locations if spec else []
folders = [os.path.join(root, part, "lib") for root in roots for part in ("cu13", "cublas", "nccl")]
print(":".join(filter(os.path.isdir, folders)))
PYTHON
)
export SIMURGH_CUDA_LIBRARIES=${SIMURGH_CUDA_LIBRARIES-}:$folders

# record KIND FIELD...: keeps a line for the table.
record() { (IFS=$'\t'; echo "${*//$'\t'/ }") >>"$out/results.tsv"; }

failed=false ran=false
# part NAME PERCENT COMMAND...: runs a part until that percentage of the time. The command may set `note`.
part() {
  local outcome=0 verdict begin=$SECONDS
  note='' ends=$((60 * minutes * $2 / 100))
  "${@:3}" || outcome=$?
  case $outcome in
    0) verdict=passed ran=true ;;
    77) verdict=SKIPPED ;;
    124 | 137) verdict=late failed=true ;;
    *) verdict=FAILED failed=true ;;
  esac
  record part "$1" "$verdict" $((SECONDS - begin)) "$note"
  echo "$verdict: $1${note:+: $note}" >&2
}

# limited SECONDS COMMAND...: runs a command for so long, or to the end of the part.
limited() {
  local left=$((ends - SECONDS)) limit=$1
  ((left > 0)) || return 124
  ((limit <= left)) || limit=$left
  ((limit > 0)) || limit=1  # 0 means no limit.
  timeout --kill-after=5 "$limit" "${@:2}"
}

# logged LOG SECONDS COMMAND...: `note` is the reason of what is skipped, or the last line of what fails.
logged() {
  local outcome=0
  limited "${@:2}" >"$1" 2>"$1.log" || outcome=$?
  ((outcome != 77)) || note=$(sed -n 's/^SKIPPED: //p;' "$1" | head -n 1)
  ((outcome == 0 || outcome == 77)) || note=$(tail -qn 1 "$1.log" "$1" | head -n 1)
  return $outcome
}

# try CASE [VARIABLE=VALUE...]: sets `tried` to the case's verdict in its own process.
try() {
  local outcome=0 name=$1
  shift
  for special in '\' ',' '['; do name=${name//"$special"/"\\$special"}; done
  logged "$out/case" 60 env "$@" "$tests" "$name" || outcome=$?
  case $outcome in
    0) tried=passed ;;
    77) tried=skipped ;;
    124 | 137) tried=late ;;
    *) tried=failed; ((outcome < 128)) || tried=crashed ;;
  esac
  if grep -q 'No test cases matched' "$out/case"; then tried=failed; fi
  [[ $tried == passed ]] || { echo "== $name $*"; cat "$out/case" "$out/case.log"; } >>"$out/failed_cases.log"
}

# Prints verdict, seconds and name of each case in Catch2's XML; "unfinished" without an end.
cases_in() {
  awk '
    /<TestCase name="/ {
      name = $0; sub(/.*<TestCase name="/, "", name); sub(/".*/, "", name)
      gsub(/&lt;/, "<", name); gsub(/&gt;/, ">", name); gsub(/&quot;/, "\"", name); gsub(/&amp;/, "\\&", name)
      verdict = "unfinished"; seconds = 0
    }
    /<OverallResult success=/ {
      verdict = /success="true"/ ? "passed" : "failed"
      if (match($0, /durationInSeconds="[^"]*/)) seconds = substr($0, RSTART + 19, RLENGTH - 19)
    }
    /SKIPPED: / { if (verdict == "passed") verdict = "skipped" }
    /<\/TestCase>/ { print verdict "\t" seconds "\t" name; name = "" }
    END { if (name != "") print "unfinished\t0\t" name }' "$1"
}

run_tests() {
  local outcome=0 name verdict seconds names repeated result variables
  local -A together=() took=() count=([passed]=0 [skipped]=0 [failed]=0)
  logged "$out/tests.xml" $(((ends - SECONDS) * 6 / 10)) "$tests" --reporter xml --durations yes || outcome=$?
  ((outcome != 77)) || { no_device=$note; return 77; }
  while IFS=$'\t' read -r verdict seconds name; do
    together[$name]=$verdict took[$name]=$seconds
  done < <(cases_in "$out/tests.xml")
  mapfile -t names < <("$tests" --list-test-names-only || true)
  for name in "${names[@]}"; do
    verdict=${together[$name]-absent}
    tried=$verdict repeated=()
    for variables in '' SIMURGH_TEST_GRAPHS=0 'SIMURGH_TEST_GRAPHS=0 CUDA_LAUNCH_BLOCKING=1 CUBLASLT_LOG_LEVEL=1'; do
      [[ $tried != @(passed|skipped) ]] || break
      try "$name" $variables
      repeated+=("$tried")
    done
    # A case that was not reached counts as it ends alone.
    result=$verdict
    [[ $verdict != absent ]] || result=${repeated[0]}
    [[ $result == @(passed|skipped) ]] || result=failed
    record case "$result" "${took[$name]-0}" "$verdict" "${repeated[0]-}" "${repeated[1]-}" "${repeated[2]-}" "$name"
    count[$result]=$((count[$result] + 1))
  done
  local reason=$note
  note="${count[passed]} passed, ${count[failed]} failed, ${count[skipped]} skipped"
  ((${#names[@]} > 0)) || note=$reason
  ((count[failed] == 0 && ${#names[@]} > 0)) || return 1
  ((outcome == 0)) || note+="; the process ended with $outcome: $reason"
  return $outcome
}

# run_sanitizer TOOL SUBJECT...
run_sanitizer() {
  local tool=$1 sanitizer subject outcome errors options=() worst=0
  [[ -z $no_device ]] || { note=$no_device; return 77; }
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) ||
    { note="compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin"; return 77; }
  # A test asks for more memory than there is.
  [[ $tool != memcheck ]] || options=(--report-api-errors no)
  for subject in "${@:2}"; do
    outcome=0
    # Poisoned memory is initialised memory.
    logged "$out/$tool.$subject" 600 env SIMURGH_TEST_POISON=0 "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 99 \
      --launch-timeout 0 "$tests" -# "${sanitized[$subject]}" || outcome=$?
    errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$out/$tool.$subject" "$out/$tool.$subject.log" | tail -n 1)
    record sanitizer "$tool" "$subject" "$outcome" "${errors:-none reported}"
    ((outcome == 0)) || worst=$outcome
  done
  note="errors: $(awk -F'\t' -v tool="$tool" '$1 == "sanitizer" && $2 == tool { printf "%s%s in %s", comma, $5, $3; comma = ", " }' "$out/results.tsv")"
  return $worst
}

run_peer() {
  command -v "$python" >/dev/null || { note="$python is missing"; return 77; }
  logged "$out/peer.jsonl" 3600 "$python" "$peer" "${points[@]}"
}

# Writes lines for the table in src/nn/cuda/product_choices.cc.
run_plans() {
  logged "$out/plans.txt" 3600 "$bench" --choose --repeats 10 "${points[@]}" || return $?
  note="$(grep -vc '^[[#]' "$out/plans.txt" || true) faster, see plans.txt"
}

run_training() {
  [[ -x $adult ]] || { note="adult_cuda_test was not built"; return 77; }
  logged "$out/training" 600 "$adult" "a short run*,ranks on all devices*"
}

run_hosted() {
  [[ -e $library ]] || { note="simurgh_shared was not built"; return 77; }
  "$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null ||
    { note="$python has no PyTorch that sees a device"; return 77; }
  SIMURGH_LIBRARY=$PWD/$library logged "$out/hosted" 600 "$python" -B "$hosted"
}

# Prints the table and writes the JSON.
report() {
  local commit
  commit=$(cat commit 2>/dev/null || git describe --always --dirty 2>/dev/null || echo unknown)
  awk -F'\t' -v json="$out/gpu_check.json" -v commit="$commit" '
    function quote(text) { gsub(/[\\"]/, "\\\\&", text); gsub(/[\001-\037]/, " ", text); return "\"" text "\"" }
    function field(name,   value) {
      if (!match($0, "\"" name "\": *(\"[^\"]*\"|[^,}]*)")) return ""
      value = substr($0, RSTART, RLENGTH)
      sub(/^"[^"]*": *"?/, "", value); sub(/"$/, "", value)
      return value
    }
    function number(name) { return field(name) + 0 }
    function add(list, object) { lists[list] = lists[list] (list in lists && lists[list] != "" ? ",\n    " : "\n    ") object }
    function ratio(peer, own) { return own > 0 && peer > 0 ? sprintf("%.3f", peer / own) : "null" }
    function write(list, comma) { printf "  \"%s\": [%s]%s\n", list, lists[list] == "" ? "" : lists[list] "\n  ", comma >json }
    BEGIN { versions = "commit " commit; add("versions", "{\"commit\": " quote(commit) "}") }
    $1 == "part" {
      rows = rows sprintf("%-10s %-8s %7d  %s\n", $2, $3, $4, $5)
      add("parts", "{\"part\": " quote($2) ", \"verdict\": " quote($3) ", \"seconds\": " $4 ", \"note\": " quote($5) "}")
    }
    $1 == "case" {
      if ($4 !~ /^(passed|skipped)$/) cases = cases sprintf("%-10s %-8s %-8s %-8s %s\n", $4, $5, $6, $7, $8)
      add("tests", "{\"case\": " quote($8) ", \"verdict\": " quote($2) ", \"seconds\": " $3 ", \"together\": " quote($4) ", \"alone\": " quote($5) ", \"without_graphs\": " quote($6) ", \"blocking\": " quote($7) "}")
    }
    $1 == "sanitizer" {
      add("sanitizers", "{\"tool\": " quote($2) ", \"cases\": " quote($3) ", \"exit_code\": " $4 ", \"errors\": " quote($5) "}")
    }
    FILENAME !~ /jsonl$/ || !/^{.*}$/ { next }
    { is_peer = FILENAME ~ /peer.jsonl$/; add(is_peer ? "peer" : "bench", $0); point = field("model") " " field("batch") }
    field("part") == "versions" {
      versions = versions (is_peer ? ", PyTorch " field("pytorch") " with CUDA " field("cuda") : ", " field("device") ", driver " field("driver") ", runtime " field("runtime") ", cuBLASLt " field("cublaslt") ", NCCL " field("nccl"))
      add("versions", $0)
      next
    }
    field("part") == "peak" { versions = versions ", " field("precision") " peak " field("tflops") " TFLOP/s" }
    field("part") == "copies" { versions = versions ", copies " field("gb_per_s") " GB/s, " field("to_device_gb_per_s") " to it, " field("to_host_gb_per_s") " from it" }
    field("model") == "" { next }
    is_peer {
      for (i = 1; i <= 2; ++i) {
        ms = number(i == 1 ? "compute_ms" : "ms")
        if (ms > 0 && (!((i, point) in best) || ms < best[i, point])) { best[i, point] = ms; way[i, point] = field("peer") }
      }
      next
    }
    field("part") == "step" { own[1, point] = number("compute_ms"); own[2, point] = number("ms"); share[point] = number("peak_percent"); names[++count] = point; next }
    number("tflops") > 0 && (!(point in lowest) || number("peak_percent") < lowest[point]) { lowest[point] = number("peak_percent"); product[point] = field("part") }
    field("fused") == "false" { add("not_fused", quote(point " " field("part"))); plans = plans "\n  " point " " field("part") }
    END {
      print versions
      printf "\n%-10s %-8s %7s\n%s", "part", "verdict", "seconds", rows
      if (cases != "") printf "\n%-10s %-8s %-8s %-8s %s\n%s", "together", "alone", "eager", "blocking", "failed case", cases
      if (count > 0) printf "\n%-12s %9s %9s %6s %-15s  %11s %9s %6s %-15s %6s  %s\n", "point", "ms", "PyTorch", "ratio", "best way", "with copies", "PyTorch", "ratio", "best way", "% peak", "lowest product"
      for (i = 1; i <= count; ++i) {
        point = names[i]
        printf "%-12s %9s %9s %6s %-15s  %11s %9s %6s %-15s %6s  %s\n", point, own[1, point], best[1, point], ratio(best[1, point], own[1, point]), way[1, point], own[2, point], best[2, point], ratio(best[2, point], own[2, point]), way[2, point], share[point], point in lowest ? product[point] ": " lowest[point] " %" : ""
        split(point, parts, " ")
        add("ratios", "{\"model\": \"" parts[1] "\", \"batch\": " parts[2] ", \"compute\": " ratio(best[1, point], own[1, point]) ", \"with_copies\": " ratio(best[2, point], own[2, point]) ", \"peak_percent\": " share[point] "}")
      }
      if (count > 0) print "\nproducts that are not fused:" (plans == "" ? " none" : plans)
      printf "{\n" >json
      listed = split("versions parts tests sanitizers ratios not_fused bench peer", order, " ")
      for (i = 1; i <= listed; ++i) write(order[i], i < listed ? "," : "")
      print "}" >json
    }' "$out/results.tsv" "$out/bench.jsonl" "$out/peer.jsonl"
  echo
  echo "written to $out"
}

no_device=''
# What parts leave of their time is added to the next one's.
part tests 25 run_tests
part bench 42 logged "$out/bench.jsonl" 3600 "$bench" --json "${points[@]}"
part peer 67 run_peer
part plans 75 run_plans
part memcheck 84 run_sanitizer memcheck kernels products trainings
part initcheck 93 run_sanitizer initcheck kernels products trainings
part racecheck 96 run_sanitizer racecheck kernels
part synccheck 98 run_sanitizer synccheck kernels
part training 95 run_training
part hosted 100 run_hosted
report
! $failed || exit 1
$ran || exit 77
