#!/usr/bin/env bash
# Checks that includes follow the permitted dependencies between modules

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev layers [FILE...]

Checks the quoted and angled includes of the files, or of all C++ files:
  - a module includes only modules that it may depend on (the table is in this script);
  - headers under src/ are included only by their own module, and none of bench or by ../;
  - a daemon includes no other one, except nn-worker for --standalone, and simurgh;
  - include/simurgh includes no Boost, CUDA, FlatBuffers, Prometheus or spdlog. Only base/log.h includes spdlog.
Without FILE, each header in include/simurgh is included by another module, or by such a header.
data/plugin.h and data/arrow_module.h are for shared objects.
TEXT
  exit 0
fi

# module: the other modules that it may include.
ARROWS='
base:
tensor: base
config: base
telemetry: base
rpc: base
data: base tensor config telemetry
kafka: base config telemetry data
model: base tensor config telemetry
table: base tensor config telemetry data model
feature: base tensor config telemetry data
nn: base tensor config telemetry data
collective: base tensor config telemetry data
train: base tensor config telemetry data model table feature nn collective
serve: base tensor config telemetry data model table feature nn collective train
services: base tensor config telemetry data kafka model table feature nn collective train serve rpc
'

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources 'include/*.h' 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'rpc/*.h' 'rpc/*.cc' 'services/*.h' 'services/*.cc' 'tests/*.h' 'tests/*.cc')

awk -v arrows="$ARROWS" '
  function complain(what) {
    print FILENAME ":" FNR ": " what
    failed = 1
  }
  # Of a path from the repository root, or of an include: "simurgh/table/row.h", "table/arena.h", "rpc/client.h".
  function module_of(path,   parts) {
    sub(/^include\//, "", path)
    sub(/^(src|simurgh)\//, "", path)
    split(path, parts, "/")
    return parts[1]
  }
  BEGIN {
    count = split(arrows, lines, "\n")
    for (i = 1; i <= count; ++i) {
      if (lines[i] == "") continue
      words = split(lines[i], word, /[: ]+/)
      known[word[1]] = 1
      for (w = 1; w <= words; ++w) if (word[w] != "") allowed[word[1], word[w]] = 1
    }
  }
  FNR == 1 {
    here = module_of(FILENAME)
    is_public = FILENAME ~ /^include\//
    if (!(here in known) && here != "tests") complain("module " here " is not in the table of scripts/dev.d/layers.sh")
  }
  !/^[ \t]*#[ \t]*include[ \t]*[<"]/ { next }
  {
    included = $0
    sub(/^[^<"]*[<"]/, "", included)
    sub(/[>"].*/, "", included)
    there = module_of(included)
    if (included ~ /^(\.\.|bench)\// || (included ~ /^tests\// && here != "tests")) complain("must not include " included)
    if (here == "tests") next
    daemon = "^services/(datagen|embedding_ps|embedding_worker|feed|nn_worker|simurgh)/"
    if (FILENAME ~ daemon && match(included, daemon) && index(FILENAME, substr(included, 1, RLENGTH)) != 1 &&
        FILENAME included !~ /nn_worker.*embedding|services\/simurgh.*(embedding|nn_worker)/) complain("includes another daemon: " included)
    if (is_public && FILENAME !~ /base\/log.h$/ && included ~ /^(boost|cuda|cublas|nccl|flatbuffers|prometheus|spdlog)/) {
      complain("a public header shows " included)
    }
    if (!(there in known)) next
    if (!((here, there) in allowed)) {
      complain(here " must not include " there ": " included)
    } else if (here != there && included !~ /^(simurgh|rpc)\//) {
      complain(included " is private to " there)
    } else if (is_public && included !~ /^simurgh\//) {
      complain("a public header includes a private one: " included)
    }
  }
  END { exit failed }
' "${files[@]}" || { echo "layers: src/README.md lists what each module may include" >&2; exit 1; }

((${#@} == 0)) || exit 0
# Public headers that are included elsewhere; then the headers that these include.
needed=$(mktemp)
trap 'rm -f "$needed"' EXIT
includes() { grep -H -oE '^#include "simurgh/[^"]+' "$@" | sed 's/:#include "/ /'; }
mapfile -t product < <(sources 'include/*.h' 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'services/*.h' 'services/*.cc' 'rpc/*.h' 'rpc/*.cc')
includes "${product[@]}" | awk '
  function module_of(path) { sub(/^include\//, "", path); sub(/^(src|simurgh)\//, "", path); sub(/\/.*/, "", path); return path }
  { if ($1 ~ /^include\//) { shows[$1] = shows[$1] " include/" $2 } }
  module_of($1) != module_of($2) { needed["include/" $2] = 1 }
  END {
    do {
      grown = 0
      for (header in needed) {
        count = split(shows[header], shown, " ")
        for (i = 1; i <= count; ++i) if (!(shown[i] in needed)) { needed[shown[i]] = 1; grown = 1 }
      }
    } while (grown)
    for (header in needed) print header
  }' | sort >"$needed"
mapfile -t unneeded < <(sources 'include/*.h' | grep -v 'data/\(plugin\|arrow_module\).h$' | sort | comm -23 - "$needed")
((${#unneeded[@]} == 0)) || { printf '%s: no other module includes it; move it to src\n' "${unneeded[@]}"; exit 1; }
