#!/usr/bin/env bash
# Writes the list of metrics in config/monitoring/README.md

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev metrics [--check]

Replaces the generated list of metrics in config/monitoring/README.md. The names, types, labels and
help texts are those of the sources. --check changes nothing and fails if the list differs.
TEXT
  exit 0
fi

exec python3 scripts/dev.d/metrics.py "$@"
