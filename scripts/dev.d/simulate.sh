#!/usr/bin/env bash
# Simulates checkpoints and recovery for many seeds, on all processors

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev simulate [SEEDS [FIRST]]

Runs tests/simulation for SEEDS (default 10000) seeds from FIRST (default 1), in one process for each processor. A
process ends at its first seed that fails, and prints how to replay it. Requires a build in build/release.
TEXT
  exit 0
fi

seeds=${1-10000}
first=${2-1}
processes=$(nproc)
pids=()
for ((i = 0; i < processes; ++i)); do
  from=$((first + seeds * i / processes))
  count=$((first + seeds * (i + 1) / processes - from))
  ((count > 0)) || continue
  build/release/tests/checkpoint_simulation_test --first "$from" --seeds "$count" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
exit "$failed"
