#!/usr/bin/env bash
# Trains while processes are killed and paused at random, and compares the models

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev chaos [SECONDS [SEED]]

Runs `simurgh train` in four shapes of cluster, in turn, until SECONDS (default 20) have passed. Kills or pauses a
random daemon, or kills the command, every second or two. Restarts the command after its end. In every other round
most rows are on disk. The model must equal that of an undisturbed training with all rows in memory. A seed
(default 1) gives the choices; their times are not exact. Files of a failure stay in build/chaos. Requires a build in
build/release. With models in a bucket: tests/support/with_bucket.sh scripts/dev chaos ...
TEXT
  exit 0
fi

exec python3 scripts/dev.d/chaos.py "${1-20}" "${2-1}"
