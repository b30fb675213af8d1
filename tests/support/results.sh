#!/usr/bin/env bash
# results.sh LOG [JUNIT]: lists the "SKIPPED: [case:] reason" lines in CTest's log (Testing/Temporary/LastTest.log),
# each with its program. Given CTest's JUnit file too, ends with "N passed, N failed, N skipped": programs that
# passed or failed, and skipped cases. A program that did not run without asking for it counts as failed.
set -euo pipefail
awk -v with_counts="$(($# == 2))" '
  function close_program() {
    if (status == "run") ++passed
    else if (status == "disabled" || (status == "notrun" && asked_to_skip)) {
      if (!(name in names_cases)) { ++skipped; print "SKIPPED: " name }
    } else if (status != "") ++failed
    status = ""; asked_to_skip = 0
  }
  function attribute(key) {
    return match($0, " " key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4) : ""
  }
  FNR == 1 { ++file }
  file == 1 && /^[0-9]+\/[0-9]+ Testing: / { program = $3 }
  file == 1 && /^SKIPPED: / {
    print "SKIPPED: " program ": " substr($0, 10)
    names_cases[program] = 1
    ++skipped
  }
  file == 2 && /<testcase / { close_program(); name = attribute("name"); status = attribute("status") }
  file == 2 && status == "notrun" && /<skipped message="SKIP_/ { asked_to_skip = 1 }
  END {
    close_program()
    if (with_counts) print passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"
    else if (skipped > 0) print skipped " skipped"
  }' "$@"
