#!/usr/bin/env bash
# Installs missing packages, builds, runs the tests and prints the counts in the last line.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/test.sh [options]

Installs missing packages, builds the tests and runs them. Lists skipped cases with their reasons. The last line is
"N passed, N failed, N skipped". It counts the test programs that passed or failed, of each build; a program of many
cases counts once. It counts the skipped cases, most of them in programs that passed. The exit code is 0 only if nothing
failed.

  --preset NAME    test build/NAME (default: release); repeatable
  --avx2           run all numeric tests once more, as on a processor without AVX-512
  --sanitizers     same as --preset release --preset asan --preset tsan --avx2
  -L, --label RE   run only tests with a matching label: unit, property, concurrency, fuzz, bench, cluster,
                   acceptance, style, gpu
  --minutes N      skip a further build that would probably end later than N minutes from now, and report that
  --no-bootstrap   install no packages, neither of Debian nor of tests/requirements.txt
  --help           print this text

The asan build omits tests with the label no_asan, the tsan build those with no_tsan. Tests of arm64 run
by QEMU: those of the labels unit and property, or of --label, without those with no_arm64. Style tests run in the first
build only.
TEXT
}

presets=()
label=
avx2=false
bootstrap=true
minutes=
while (($# > 0)); do
  case "$1" in
    --preset) presets+=("${2:?--preset needs a name}"); shift ;;
    --sanitizers) presets+=(release asan tsan); avx2=true ;;
    --avx2) avx2=true ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    -L | --label) label=${2:?--label needs an expression}; shift ;;
    --no-bootstrap) bootstrap=false ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
((${#presets[@]} > 0)) || presets=(release)

passed=0
failed=0
skipped=0

# count_results PRESET JUNIT: lists what was skipped and adds up the counts.
count_results() {
  local report
  report=$(tests/support/results.sh "build/$1/Testing/Temporary/LastTest.log" "$2")
  sed "s/^/$1: /" <<<"$report"
  local p f s
  read -r p f s < <(tail -n 1 <<<"$report" | tr -cd '0-9 ')
  ((passed += p, failed += f, skipped += s)) || true
}

# names_of PRESET OPTION...: the tests that CTest selects with the options.
names_of() {
  ctest --test-dir "build/$1" --show-only "${@:2}" | sed -n 's/^ *Test *#[0-9]*: *//p'
}

# test_preset NAME IS_FIRST: fails if something went wrong that the counts do not show.
test_preset() {
  local preset=$1 first=$2
  local select=()
  local labels=$label
  [[ $preset != arm64 ]] || labels=${label:-'^(unit|property)$'}
  [[ -n $labels ]] && select+=(--label-regex "$labels")
  local leave_out=()
  $first || leave_out+=(style)
  case "$preset" in
    asan | tsan | arm64) leave_out+=("no_$preset") ;;
  esac
  ((${#leave_out[@]} > 0)) && select+=(--label-exclude "^($(IFS='|'; echo "${leave_out[*]}"))\$")

  # Also in a build folder of an older tree, whose tests may have other names.
  cmake --preset "$preset" || return 1
  local tests targets=()
  mapfile -t tests < <(names_of "$preset" "${select[@]}")
  if ((${#tests[@]} == 0)); then
    echo "$preset: no test is selected; labels:" $(ctest --test-dir "build/$preset" --print-labels | sed -n 's/^  //p')
    ! $first
    return
  fi
  # These builds are slow: only what runs. A test has the name of its program.
  case "$preset" in
    asan | tsan | arm64)
      mapfile -t targets < <(printf '%s\n' "${tests[@]}" | grep -v '^style_')
      echo "$preset: left out, label no_$preset:" $(names_of "$preset" --label-regex "^no_$preset\$")
      ;;
  esac
  scripts/build.sh "$preset" "${targets[@]}" || return 1

  run_tests "$preset" "${select[@]}"
}

# run_tests PRESET OPTION...: runs CTest with the options and adds up its results.
run_tests() {
  local preset=$1 results="build/$1/test-results.xml" outcome=0 on_arm64=()
  shift
  [[ $preset != arm64 ]] || on_arm64=(scripts/arm64.sh)
  rm -f "$results"
  # One more than there are cores: tests with daemons wait much of their time.
  "${on_arm64[@]}" ctest --test-dir "build/$preset" --no-tests=error --output-on-failure \
    --parallel "$(($(nproc) + 1))" --output-junit "$PWD/$results" "$@" || outcome=$?
  [[ -f $results ]] || return 1
  local failed_before=$failed
  count_results "$preset" "$results"
  # Some failures of CTest are not in its results.
  ((outcome == 0 || failed > failed_before))
}

# Programs with kernels of Highway or oneDNN.
NUMERIC_TESTS='^(table|embedding|vector_codec|nn|collective|device_sums|dense_training|precision)_test$'

# Makes build/python, which has the packages of tests/requirements.txt. Without it, cases that need them are skipped.
make_python() {
  local made=build/python/requirements.txt
  cmp --silent tests/requirements.txt "$made" && return
  /usr/bin/python3 -m venv --system-site-packages build/python &&
    build/python/bin/pip install --quiet --requirement tests/requirements.txt &&
    cp tests/requirements.txt "$made"
}

if $bootstrap; then
  for_arm64=()
  [[ " ${presets[*]} " != *' arm64 '* ]] || for_arm64=(--arm64)
  scripts/bootstrap.sh --tests "${for_arm64[@]}"
  scripts/bootstrap.sh --arrow || echo "build/arrow could not be made; tests that need it are skipped"
  make_python || echo "build/python could not be made; tests that need it are skipped"
fi
# Minutes of a build and its tests without a compiler cache, on two slow cores.
declare -A needed=([asan]=34 [tsan]=22 [avx2]=4)
# has_time NAME: whether it would end in time. Else reports it as skipped.
has_time() {
  local need=${needed[$1]-0} used=$((SECONDS / 60))
  if [[ -z $minutes ]] || ((used + need <= minutes)); then return; fi
  echo "$1: SKIPPED: it needs some $need minutes; $used of $minutes are used"
  ((skipped += 1))
  false
}
first=true
for preset in "${presets[@]}"; do
  $first || has_time "$preset" || continue
  if ! test_preset "$preset" "$first"; then
    echo "$preset: could not be built or tested" >&2
    ((failed += 1))
  fi
  first=false
done
if $avx2 && ! grep --quiet --word-regexp avx512f /proc/cpuinfo; then
  echo "${presets[0]}: this processor has no AVX-512, so the numeric tests have run with AVX2"
elif $avx2 && has_time avx2; then
  echo "${presets[0]}: numeric tests with AVX2"
  if ! ONEDNN_MAX_CPU_ISA=AVX2 run_tests "${presets[0]}" --tests-regex "$NUMERIC_TESTS"; then
    echo "${presets[0]}: could not be tested with AVX2" >&2
    ((failed += 1))
  fi
fi
echo "test programs passed and failed, and cases skipped:"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
