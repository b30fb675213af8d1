#!/usr/bin/env bash
# fuzzed_schemas.sh [FILE...]: every table that a method of services/api sends or receives is read by a fuzz target.
set -euo pipefail
cd "$(dirname "$0")/../.."

(($# > 0)) || set -- services/api/*methods.h
mapfile -t tables < <(grep -ho 'MessageOf<wire::[A-Za-z]*' "$@" | sed 's/.*:://' | sort -u)
missing=0
for table in "${tables[@]}"; do
  if ! grep -q "Received<api::wire::$table>" tests/fuzz/*.cc; then
    echo "no target in tests/fuzz reads $table"
    missing=$((missing + 1))
  fi
done
echo "${#tables[@]} tables, $missing not fuzzed"
((${#tables[@]} > 0 && missing == 0))
