#!/usr/bin/env bash
# Writes the generated tables of config/README.md

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev reference [PROGRAM]

Replaces the generated tables of config/README.md by the output of PROGRAM --describe-config (default:
build/release/bin/nn-worker).
TEXT
  exit 0
fi
program=${1:-build/release/bin/nn-worker}
page=config/README.md
new=$(mktemp)
trap 'rm -f "$new"' EXIT
sed '/^<!-- begin of generated keys/q' "$page" >"$new"
"$program" --describe-config >>"$new"
echo '<!-- end of generated keys -->' >>"$new"
cat "$new" >"$page"
