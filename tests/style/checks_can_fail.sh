#!/usr/bin/env bash
# Shows each check what it must refuse and what it must let pass.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r scripts "$folder"
cd "$folder"

failures=0
# expect OUTCOME TOOL FILE < text: writes the text to FILE and runs the tool on it.
expect() {
  local outcome=$1 tool=$2 file=$3 seen=pass
  mkdir -p "$(dirname "$file")"
  cat >"$file"
  scripts/dev "$tool" "$file" >output 2>&1 || seen=refuse
  if [[ $seen != "$outcome" ]]; then
    echo "$tool should $outcome this $file:"
    cat "$file" output
    failures=$((failures + 1))
  fi
}

expect pass layers src/nn/a.cc <<<'#include "data/batch/batch.h"'
expect pass layers src/table/a.cc <<<'#include "table/arena.h"'
expect pass layers src/train/trainer.h <<<'#include "embedding/batch_calls.h"'
expect pass layers include/simurgh/a.h <<<'#include "simurgh/plugin.h"'
expect pass layers services/nn_worker/a.cc <<<'#include "rpc/client.h"'
expect pass layers services/nn_worker/a.cc <<<'#include "services/runtime/daemon.h"'
expect refuse layers src/base/a.cc <<<'#include "tensor/matrix_view.h"'
expect refuse layers src/table/a.cc <<<'#include "nn/model.h"'
expect refuse layers src/table/a.cc <<<'#include "rpc/client.h"'
expect refuse layers rpc/a.h <<<'#include "config/cluster_config.h"'
expect refuse layers src/train/a.cc <<<'#include "services/runtime/daemon.h"'
expect refuse layers src/train/a.cc <<<'#include "table/arena.h"'
expect refuse layers src/train/a.cc <<<'#include "tests/support/a.h"'
expect refuse layers src/table/table.h <<<'#include "table/arena.h"'
expect refuse layers include/simurgh/a.h <<<'#include "base/status.h"'
expect refuse layers src/train/trainer.h <<<'#include <boost/asio/awaitable.hpp>'
expect refuse layers src/table/a.cc <<<'#include "../data/batch.h"'
expect pass layers tests/unit/a.cc <<<'#include "tests/support/a.h"'
expect refuse layers tests/unit/a.cc <<<'#include "bench/micro/a.h"'
expect pass layers tests/unit/a.cc <<<'#include "bench/datagen/generator.h"'
for module in src/table rpc services/api; do expect refuse layers $module/a.cc <<<'#include "bench/micro/a.h"'; done
expect pass layers services/nn_worker/a.cc <<<'#include "services/embedding_ps/a.h"'
expect refuse layers services/embedding_ps/a.cc <<<'#include "services/nn_worker/a.h"'
expect refuse layers services/nn_worker/a.cc <<<'#include "services/loader/a.h"'
expect pass layers services/simurgh/a.cc <<<'#include "services/embedding_ps/a.h"'
expect refuse layers services/embedding_ps/a.cc <<<'#include "services/simurgh/a.h"'
expect refuse layers src/unheard_of/a.cc <<<'// Not in the table.'

expect pass coroutines a.h <<<'[[nodiscard]] awaitable<Status> Call(int x);'
expect pass coroutines a.h <<<'  [[nodiscard]] virtual awaitable<std::vector<int>> Call();'
expect pass coroutines a.h <<<'std::function<awaitable<Status>(Request)> handle;'
expect pass coroutines a.h <<<'void WhenAll(std::vector<awaitable<Status>> tasks);'
expect pass coroutines a.h <<<'// awaitable<void> Commented();'
expect refuse coroutines a.h <<<'awaitable<Status> Call(int x);'
expect refuse coroutines a.h <<<'class A { public: static asio::awaitable<void> Run(); };'
expect refuse coroutines a.h <<<'template <typename T> auto F(T t) -> awaitable<T>;'
expect refuse coroutines a.h <<'TEXT'
  awaitable<StatusOr<IncomingMessage>>
  Call(int method,
       int request) {
TEXT

used='void Call(); inline bool ready() { Call(); return kLimit > 0; }'
expect pass uncalled src/table/a.h <<<"$used inline constexpr int kLimit = 1; static_assert(ready());"
expect refuse uncalled src/table/a.h <<<"$used inline constexpr int kLimit = 1;  // ready() in a comment"
expect refuse uncalled src/table/a.h <<<'void Call();'
expect refuse uncalled rpc/a.h <<<'class Unused {};'
expect refuse uncalled src/table/b.h <<<'inline constexpr int kUnused = 1;'
long_sentence=$(printf 'word %.0s' {1..21})
wide_row="| $(printf 'cell | %.0s' {1..20})"
expect pass prose a.md <<<"The server evicts the oldest row. $(printf 'A word. %.0s' {1..5})"
expect pass prose a.md <<<"$wide_row"
expect pass prose a.md <<<$'```\nwhat comes\n```'
expect pass prose src/table/a.cc <<<'Error("rows: 3 is out of range; use 0 to 2");  // What comes'
expect refuse prose a.md <<<'This is what comes.'
expect refuse prose a.md <<<$'Rows of their\nown.'
expect refuse prose a.md <<<"$long_sentence."
expect refuse prose a.md <<<"${wide_row//|/ }"
expect refuse prose src/table/a.cc <<<'Error("a row that nobody needs");'
expect pass prose src/table/a.h <<<'int rows = 0;  // Number of rows. Of these, some are new.'
expect refuse prose src/table/a.h <<<'int rows = 0;  // Of all tables.'
expect refuse prose src/table/a.cc <<<$'Error("rows of their "\n      "own");'
expect pass prose src/table/a.cc <<<$'constexpr char kHelp[] =\n    R"(Usage: a "b"\n\n  --out DIR  the folder\n)";  // What comes'
expect pass prose src/table/a.cc <<<$'options("FOLDER")("one", R"(one)");\n// What comes'
expect refuse prose src/table/a.cc <<<$'constexpr char kHelp[] = R"(Rows of their\nown.\n)";'
expect refuse prose src/table/a.cc <<<'Error(R"x(what (as it says) "comes")x" + Name("what comes"));'
expect refuse prose src/table/a.cc <<<"R\"(${long_sentence/ /$'\n'}.)\""
expect pass prose a.sh <<<"fail 'rows: 3 is out of range'  # What comes"
expect refuse prose a.sh <<<$'cat <<TEXT\n  --out DIR   where it goes\nTEXT'
expect refuse prose a.sh <<<"fail 'a row that nobody needs'"
expect refuse prose a.bench <<<'summary="what comes of it"'
expect refuse prose a.py <<<'parser.add_argument("--out", help="where it goes")'

for block in '```cpp\nint nowhere;' '```cmake\nadd_subdirectory(nowhere)'; do
  printf "$block"'\n```\n' >page
  if "$root/tests/style/quoted_code.sh" "$PWD/page" >output 2>&1; then
    echo "quoted_code should refuse code that no example has:"
    cat page
    failures=$((failures + 1))
  fi
done

mkdir -p build/release bin
touch build/release/build.ninja
printf '#!/bin/sh\necho "Total Tests: 0"\n' >bin/ctest
chmod +x bin/ctest
if PATH=$PWD/bin:$PATH scripts/test.sh --no-bootstrap -L typo >output 2>&1; then
  echo "test.sh should refuse a label that no test has"
  failures=$((failures + 1))
fi
rm -r build

echo 'rpc::MessageOf<wire::UnheardOf>' >methods.h
if "$root/tests/style/fuzzed_schemas.sh" "$PWD/methods.h" >output 2>&1; then
  echo "fuzzed_schemas should refuse a table that no target reads"
  failures=$((failures + 1))
fi

if command -v clang-format-19 >/dev/null; then
  cp "$root/.clang-format" .
  echo 'int  f( ) ;' >a.cc
  cp a.cc a.c
  if scripts/dev format --check a.cc >output 2>&1 || (. scripts/dev.d/sources && ! sources | grep -qx a.c); then
    echo "format --check should refuse a.cc"
    failures=$((failures + 1))
  fi
  scripts/dev format a.cc
  scripts/dev format --check a.cc
else
  echo "SKIPPED: format --check: clang-format-19 is missing"
fi

if command -v clang-tidy-19 >/dev/null; then
  cp "$root/.clang-tidy" .
  mkdir build
  printf '[{"directory": "%s", "file": "a.cc", "command": "clang++-19 -c a.cc"}]\n' "$PWD" >build/compile_commands.json
  echo 'int* p = 0;' >a.cc
  if scripts/dev lint --build build a.cc >output 2>&1; then
    echo "lint should refuse a.cc"
    failures=$((failures + 1))
  fi
  echo 'int* p = nullptr;' >a.cc
  scripts/dev lint --build build a.cc
else
  echo "SKIPPED: lint: clang-tidy-19 is missing"
fi
((failures == 0))
