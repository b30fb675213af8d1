#!/usr/bin/env bash
# Writes the list of metrics in config/monitoring/README.md

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev metrics [--check]

Replaces the generated list of metrics in config/monitoring/README.md by what the programs of
build/release/bin print with --describe-metrics. --check changes nothing and fails if the list differs.

Environment:
  SIMURGH_BIN_DIR  folder of the programs
TEXT
  exit 0
fi

exec python3 scripts/dev.d/metrics.py "$@"
