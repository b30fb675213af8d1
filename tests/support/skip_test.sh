#!/usr/bin/env bash
# skip_test.sh PROGRAM: skipped cases are reported and counted by a test program (skip_fixture), by CTest and by results.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
expect() {  # expect WHAT ACTUAL EXPECTED
  [[ $2 == "$3" ]] && return
  printf '%s: expected\n%s\ngot\n%s\n' "$1" "$3" "$2"
  failures=$((failures + 1))
}
code_of() { local code=0; "$@" >"$folder/output" || code=$?; echo "$code"; }

expect "exit code if some cases are skipped" "$(code_of "$program")" 0
expect "reasons" "$(grep SKIPPED "$folder/output")" "SKIPPED: lacks a device: there is no device
SKIPPED: skips each of its runs: run 1"
expect "exit code if all cases are skipped" "$(code_of "$program" '[skips]')" 77
expect "exit code if a case fails and skips" "$(code_of "$program" '[.fails],[skips]')" 1

cat >"$folder/CTestTestfile.cmake" <<FILE
add_test(some "$program")
add_test(all "$program" "[skips]")
set_tests_properties(all PROPERTIES SKIP_RETURN_CODE 77)
add_test(fails "$program" "[.fails],[skips]")
add_test(silent sh -c "exit 77")
set_tests_properties(silent PROPERTIES SKIP_RETURN_CODE 77)
add_test(absent "$folder/absent")
FILE
echo "set(CTEST_CUSTOM_POST_TEST \"$PWD/tests/support/results.sh $folder/Testing/Temporary/LastTest.log.tmp\")" \
  >"$folder/CTestCustom.cmake"
junit=$folder/results.xml
code=$(code_of ctest --test-dir "$folder" --output-junit "$junit")
expect "exit code of CTest" "$code" 8
expect "programs that CTest skips" "$(grep -c '(Skipped)' "$folder/output")" 2
expect "cases that CTest counts" "$(grep '^[0-9]* skipped' "$folder/output")" "7 skipped"
results=$(tests/support/results.sh "$folder/Testing/Temporary/LastTest.log" "$junit")
expect "the last line" "$(tail -n 1 <<<"$results")" "1 passed, 2 failed, 8 skipped"
expect "the programs of skipped cases" "$(grep -o '^SKIPPED: [a-z]*' <<<"$results" | sort | uniq -c | tr -s ' ' | paste -sd,)" \
  " 2 SKIPPED: all, 3 SKIPPED: fails, 1 SKIPPED: silent, 2 SKIPPED: some"
((failures == 0))
