#!/usr/bin/env bash
# quoted_code.sh [FILE]: what rpc/README.md shows as C++ is the example's own code, word for word.
set -euo pipefail
cd "$(dirname "$0")/../.."

page=${1:-rpc/README.md}
code=$(cat rpc/examples/*.h rpc/examples/*.cc)
block='' inside=false blocks=0 failures=0
while IFS= read -r line; do
  if ! $inside; then
    [[ $line == '```cpp' ]] && inside=true block=''
  elif [[ $line == '```' ]]; then
    inside=false
    blocks=$((blocks + 1))
    if [[ $code != *"$block"* ]]; then
      printf '%s shows code that is not in rpc/examples:\n%s' "$page" "$block"
      failures=$((failures + 1))
    fi
  else
    block+=$line$'\n'
  fi
done <"$page"
echo "$blocks blocks, $failures differ"
((blocks > 0 && failures == 0))
