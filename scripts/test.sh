#!/usr/bin/env bash
# Installs what is missing, builds, tests, and says in its last line how it went.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
Usage: scripts/test.sh [options]

Builds and runs the tests. The last line is "N passed, N failed, N skipped", from CTest's results; the exit code
is 0 only if nothing failed.

  --preset NAME    tests build/NAME (default: release). May be repeated.
  --sanitizers     the same as --preset release --preset asan --preset tsan
  -L, --label RE   only tests with a label that matches: unit, property, concurrency, fuzz, cluster,
                   acceptance, style, gpu
  --no-bootstrap   does not install packages
  --help           prints this

A test with the label no_asan or no_tsan is left out of that build, and so is its program. The tests of the sources
themselves (label style) run in the first build only.
TEXT
}

presets=()
label=
bootstrap=true
while (($# > 0)); do
  case "$1" in
    --preset) presets+=("${2:?--preset needs a name}"); shift ;;
    --sanitizers) presets+=(release asan tsan) ;;
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

# test_preset NAME IS_FIRST: fails if something went wrong that the counts do not show.
test_preset() {
  local preset=$1 first=$2
  local select=()
  [[ -n $label ]] && select+=(--label-regex "$label")
  local leave_out=()
  $first || leave_out+=(style)
  case "$preset" in
    asan | tsan) leave_out+=("no_$preset") ;;
  esac
  ((${#leave_out[@]} > 0)) && select+=(--label-exclude "^($(IFS='|'; echo "${leave_out[*]}"))\$")

  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" || return 1
  local tests targets=()
  mapfile -t tests < <(ctest --test-dir "build/$preset" --show-only "${select[@]}" |
    sed -n 's/^ *Test *#[0-9]*: *//p')
  if ((${#tests[@]} == 0)); then
    echo "$preset: no test is selected"
    return 0
  fi
  # A sanitizer build is slow: only what runs. A test has the name of its program.
  case "$preset" in
    asan | tsan) mapfile -t targets < <(printf '%s\n' "${tests[@]}" | grep -v '^style_') ;;
  esac
  scripts/build.sh "$preset" "${targets[@]}" || return 1

  local results="build/$preset/test-results.xml" outcome=0
  rm -f "$results"
  ctest --test-dir "build/$preset" --no-tests=error --output-on-failure --parallel "$(nproc)" \
    --output-junit "$PWD/$results" "${select[@]}" || outcome=$?
  [[ -f $results ]] || return 1
  local failed_before=$failed
  count_results "$preset" "$results"
  # CTest knows of a failure that its results do not show.
  ((outcome == 0 || failed > failed_before))
}

if $bootstrap; then scripts/bootstrap.sh; fi
first=true
for preset in "${presets[@]}"; do
  if ! test_preset "$preset" "$first"; then
    echo "$preset: could not be built or tested" >&2
    ((failed += 1))
  fi
  first=false
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
