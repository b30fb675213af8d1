#!/usr/bin/env bash
# quoted_code.sh [FILE]: what rpc/README.md shows as C++ and CMake is the code of the consumer
# that consumer_build.sh builds, word for word.
set -euo pipefail
cd "$(dirname "$0")/../.."

page=${1:-rpc/README.md}
code=$(cat tests/style/consumer/CMakeLists.txt tests/style/consumer/my_program.cc)
block='' inside=false blocks=0 failures=0
while IFS= read -r line; do
  if ! $inside; then
    [[ $line == '```cpp' || $line == '```cmake' ]] && inside=true block=''
  elif [[ $line == '```' ]]; then
    inside=false
    blocks=$((blocks + 1))
    if [[ $code != *"$block"* ]]; then
      printf '%s shows code that is not in tests/style/consumer:\n%s' "$page" "$block"
      failures=$((failures + 1))
    fi
  else
    block+=$line$'\n'
  fi
done <"$page"
echo "$blocks blocks, $failures differ"
((blocks > 0 && failures == 0))
