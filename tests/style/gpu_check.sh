#!/usr/bin/env bash
# scripts/gpu_check.sh with fake programs: it selects and repeats cases, keeps to its time, and reports what it found.
set -euo pipefail
cd "$(dirname "$0")/../.."

failures=0
# expect WHAT ACTUAL EXPECTED
expect() {
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\ngot\n%s\n' "$1" "$3" "$2"
  failures=$((failures + 1))
}
# expect_line WHAT PATTERN: a line of the output matches.
expect_line() {
  grep -qE "$2" output && return
  printf '%s: no line matches %s in\n%s\n' "$1" "$2" "$(cat output)"
  failures=$((failures + 1))
}

fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
mkdir -p "$fake"/{scripts,path,build/cuda/tests,build/cuda/bin,bench/peers,libraries}
cp scripts/gpu_check.sh "$fake/scripts"
cd "$fake"
echo v1-2-gabc >commit
programs=build/cuda/tests/nn_cuda_test

# program FILE < BODY: writes a program that logs its arguments and environment.
program() {
  { printf '#!/usr/bin/env bash\necho "%s $* graphs=${SIMURGH_TEST_GRAPHS-} poison=${SIMURGH_TEST_POISON-} ' "${1##*/}"
    printf 'blocking=${CUDA_LAUNCH_BLOCKING-} libraries=${SIMURGH_CUDA_LIBRARIES-}" >>"%s/calls"\n' "$fake"
    cat; } >"$1"
  chmod +x "$1"
}
# check: runs the script; sets `code`.
check() {
  code=0
  : >calls
  PATH=$fake/path:$PATH PYTHON=$fake/path/python scripts/gpu_check.sh "$@" >output 2>&1 || code=$?
}
json() { jq --raw-output "$1" build/gpu_check/gpu_check.json; }

program path/python <<EOT
if [[ \$1 == - ]]; then echo $fake/libraries; exit; fi
if [[ -e no_device ]]; then echo 'SKIPPED: PyTorch finds no CUDA device'; exit 77; fi
echo '{"part": "versions", "pytorch": "9.1", "cuda": "13.0"}'
for way in eager graphs; do
  echo '{"model": "paper", "batch": 4096, "precision": "bf16", "part": "step", "peer": "'\$way'", "compute_ms": 12.0, "ms": 20.0}'
done
echo '{"model": "paper", "batch": 4096, "precision": "bf16", "part": "step", "peer": "compiled", "compute_ms": 9.6, "ms": 30.0}'
echo '{"model": "paper", "batch": 4096, "precision": "bf16", "part": "step", "peer": "compiled graphs", "error": "none"}'
EOT
program build/cuda/bin/bench_nn_cuda <<'EOT'
if [[ -e no_device ]]; then echo 'SKIPPED: no CUDA device'; exit 77; fi
if [[ $* == *--choose* ]]; then printf '[Fake; 1]\n'; [[ -e none_faster ]] || printf '# 0.1 ms instead of 0.2\nbf16 4096 fused 3\n'; exit; fi
echo '{"part":"versions","device":"Fake \"9\"","driver":13000,"runtime":13000,"cublaslt":130002,"nccl":22805}'
echo '{"part":"copies","gb_per_s":4000.0,"to_device_gb_per_s":55.0,"to_host_gb_per_s":54.0}'
echo '{"part":"peak","precision":"bf16","tflops":700.00}'
line='{"model":"paper","batch":4096,"precision":"bf16","part":"%s","ms":%s,"compute_ms":%s,"tflops":300,"peak_percent":%s,"fused":%s}\n'
printf "$line" step 25.0 8.0 42.5 true
printf "$line" '429x4096 forward' 0.1 0.1 61 true
printf "$line" '429x4096 weight' 0.1 0.1 9 false
EOT
program path/compute-sanitizer <<'EOT'
[[ ! -e broken || $* != *initcheck*product_runs* ]] || { echo '========= ERROR SUMMARY: 3 errors'; exit 99; }
echo '========= ERROR SUMMARY: 0 errors'
EOT
# Case B fails with graphs, C crashes, D is not reached; E, first of all, is skipped.
program $programs <<'EOT'
xml() {
  echo "    <TestCase name=\"$1\" filename=\"a.cc\" line=\"1\">"
  echo "      <OverallResult success=\"$2\" durationInSeconds=\"0.5\">${3-}"
  echo '    </TestCase>'
}
if [[ -e no_device ]]; then echo 'SKIPPED: no CUDA device'; exit 77; fi
case "$*" in
  *--list-test-names-only*) printf '%s\n' E A 'B, "b"' C D; [[ ! -e hangs ]] || printf '%s\n' H I ;;
  *xml*)
    xml E true 'SKIPPED: E: one device'
    xml A true
    [[ ! -e broken ]] || xml 'B, &quot;b&quot;' false
    [[ -e broken ]] || xml 'B, &quot;b&quot;' true
    echo '    <TestCase name="C" filename="a.cc" line="1">'
    [[ ! -e broken ]] || kill -SEGV $$
    echo '      <OverallResult success="true" durationInSeconds="0.5"/>'
    echo '    </TestCase>'
    xml D true
    [[ ! -e ends_badly ]] || { echo 'driver shutting down' >&2; exit 3; }
    [[ ! -e hangs ]] || echo '    <TestCase name="H" filename="a.cc" line="1">' ;;
  'B\, "b"') [[ ${SIMURGH_TEST_GRAPHS-} == 0 ]] || { echo 'B: expected 1'; exit 1; } ;;
  C) kill -SEGV $$ ;;
  D) ;;
  H) kill -KILL $$ ;;
  *) echo "No test cases matched '$*'" ;;
esac
EOT

touch no_device
check
expect "exit code without a device" "$code" 77
for part in tests bench peer plans memcheck initcheck racecheck synccheck training hosted; do expect_line "$part without a device" "^$part +SKIPPED +[0-9]+  ."; done
expect "verdicts without a device" "$(json '[.parts[].verdict] | unique | join(" ")')" SKIPPED
rm no_device

program build/cuda/tests/adult_cuda_test </dev/null
check
expect "exit code" "$code" 0
expect "verdicts" "$(json '[.parts[].verdict] | join(" ")')" "passed passed passed passed passed passed passed passed passed SKIPPED"
expect "processes of tests" "$(grep -c '^nn_cuda_test' calls)" 2
expect "a skipped case" "$(json '.tests[] | select(.case == "E").verdict')" skipped
expect "what each sanitizer runs" "$(json '[.sanitizers[].tool] | group_by(.) | map("\(length) \(.[0])") | join(" ")')" \
  "3 initcheck 3 memcheck 1 racecheck 1 synccheck"
expect "poison under a sanitizer" "$(grep '^compute-sanitizer' calls | grep -cv 'poison=0')" 0
expect "libraries of PyTorch" "$(grep -c "^bench_nn_cuda --json .*libraries=:$fake/libraries" calls)" 1
expect "faster ways of products" "$(json '.parts[] | select(.part == "plans").note')" "1 faster, see plans.txt"
expect_line "versions" '^commit v1-2-gabc, Fake \\"9\\".*cuBLASLt 130002, NCCL 22805.*PyTorch 9.1 with CUDA 13.0'
expect_line "a point" '^paper 4096 +8 +9.6 +1.200 compiled +25 +20 +0.800 eager +42.5  429x4096 weight: 9 %'
expect "ratios" "$(json '.ratios[] | "\(.compute) \(.with_copies) \(.peak_percent)"')" "1.2 0.8 42.5"
expect "products that are not fused" "$(json '.not_fused[]')" "paper 4096 429x4096 weight"
expect "lines of the programs" "$(json '(.bench | length) + (.peer | length)')" 11

touch broken
check
expect "exit code after a crash" "$code" 1
expect "verdicts after a crash" "$(json '[.parts[].verdict] | join(" ")')" "FAILED passed passed passed passed FAILED passed passed passed SKIPPED"
expect "counts" "$(json '.parts[0].note')" "2 passed, 2 failed, 1 skipped"
expect "a case that fails with graphs" "$(json '.tests[] | select(.case | startswith("B")) | "\(.together) \(.alone) \(.without_graphs) \(.blocking)"')" \
  "failed failed passed "
expect "a case that crashes" "$(json '.tests[] | select(.case == "C") | "\(.together) \(.alone) \(.without_graphs) \(.blocking)"')" \
  "unfinished crashed crashed crashed"
expect "a case that another kept from running" "$(json '.tests[] | select(.case == "D") | "\(.together) \(.alone) \(.verdict)"')" \
  "absent passed passed"
expect "cases that run alone" "$(grep -c '^nn_cuda_test [B-D]' calls)" 6
expect "cases that run again with what passed" "$(grep -c '^nn_cuda_test [AE]' calls)" 0
expect "blocking launches" "$(grep 'blocking=1' calls | cut -d ' ' -f 2)" C
expect_line "a failed case in the table" '^failed +failed +passed +B, "b"'
expect "errors of a sanitizer" "$(json '.sanitizers[] | select(.exit_code == 99) | "\(.tool) \(.cases) \(.errors)"')" "initcheck products 3"
rm broken

touch none_faster
check
expect "exit code if no way is faster" "$code" 0
expect "no faster way" "$(json '.parts[] | select(.part == "plans").note')" "0 faster, see plans.txt"
rm none_faster

touch ends_badly
check
expect "exit code after an error at the end" "$code" 1
expect "an error at the end" "$(json '.parts[0].note')" \
  "4 passed, 0 failed, 1 skipped; the process ended with 3: driver shutting down"
rm ends_badly

# A fake timeout stands for a program that hangs.
touch hangs
cat >path/timeout <<EOT
#!/usr/bin/env bash
echo "timeout \$2" >>$fake/limits
shift 2
"\$@" || exit
[[ \$* != *xml* || ! -e hangs ]] || exit 124
[[ \$* != *bench_nn_cuda\ --json* || -e hangs ]] || exit 124
EOT
chmod +x path/timeout
check --minutes 2
expect "exit code after a hang" "$code" 1
expect "a case that hangs, and one that is not found" "$(json '[.tests[] | select(.verdict == "failed").case] | join(" ")')" "H I"
expect "a case that is killed after its limit" "$(json '.tests[] | select(.case == "H") | "\(.together) \(.alone)"')" "unfinished late"
expect "parts after a hang" "$(json '[.parts[].verdict] | join(" ")')" "FAILED passed passed passed passed passed passed passed passed SKIPPED"
expect "the time of all tests" "$(awk 'NR == 1 && $2 > 18' limits)" ""
expect "limits beyond the whole time" "$(awk '$2 > 120' limits)" ""
rm hangs
check
expect "exit code if a part is late" "$code" 1
expect "a part that is late" "$(json '[.parts[].verdict] | join(" ")')" "passed late passed passed passed passed passed passed passed SKIPPED"
expect "what a late part measured" "$(json '.ratios[].compute')" 1.2
# A second before the end of the first part.
rm limits
SECONDS=14 check --minutes 1
expect "limits that timeout takes for none" "$(awk '$2 < 1' limits)" ""
rm path/timeout

for arguments in '--minutes 0' --minutes --out --bundle --unknown; do
  check $arguments
  expect "exit code of $arguments" "$code" 2
done
((failures == 0))
