#!/usr/bin/env bash
# Checks that names declared in headers have a use outside tests

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev uncalled [FILE...]

Lists the types, functions, methods and constants that headers of include, src, services and rpc declare and that no
file outside tests uses. It compares names without their scope. FILEs replace the files searched.
TEXT
  exit 0
fi

# Names to keep, each with its reason.
KEPT='
counted_samples: tests check which samples a meter counts
idle_bytes: tests bound the memory that pools keep
result_type: the standard library asks random generators for it
SetClock: tests of eviction.idle_time replace the clock
segment_count: tests check the planned size of an index
growth_steps: tests bound the growth of an index
'

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources 'include/*.h' 'src/*' 'services/*' 'rpc/*' 'bench/*' 'config/plugins/*' |
  grep -E '\.(h|c|cc|cu|cuh)$' | grep -v '^rpc/testing/')

awk -v kept="$KEPT" '
  # Whether the text around the name declares or defines it.
  function is_declaration(name, before, after,   is_definition, word) {
    is_definition = FILENAME ~ /\.(cc|cu)$/ && before !~ /^ /
    word = before
    sub(/ +$/, "", word)
    sub(/.*[^A-Za-z0-9_]/, "", word)
    if (word ~ /^(class|struct|enum|union|using|concept|define)$/ || before ~ /~$/) return 1
    if (name ~ /^k[A-Z]/) return after ~ /^ *(=[^=]|[{\[])/ || before ~ /^ *$/ || before ~ /enum/
    if (after !~ /^\(/) return is_definition && after ~ /^::.*\(/ && before !~ /\(/
    if (before ~ /^ *((explicit|constexpr|inline) )*$/) return name in types || previous ~ /([A-Za-z0-9_>*]|[^&]&)$/
    if (before ~ /::$/) return is_definition
    if (word ~ /^(return|co_return|co_await|co_yield|new|else|throw|case|and|or|not)$/) return 0
    return before ~ /([A-Za-z0-9_]|[^ ][>*&]|\]\]) +$/ && before !~ /&& +$/
  }
  BEGIN {
    count = split(kept, lines, "\n")
    for (i = 1; i <= count; ++i) if (split(lines[i], word, ":") > 1) used[word[1]] = 1
  }
  /^ *(\/?\*|\/\/)/ { next }
  {
    line = $0
    gsub(/\\./, "", line)
    gsub(/"[^"]*"|\047.\047/, "\"\"", line)
    sub(/ *\/\/.*/, "", line)
    is_header = FILENAME ~ /^(include|src|services|rpc)\/.*\.(h|cuh)$/
    for (start = 1; match(substr(line, start), /[A-Za-z_][A-Za-z0-9_]*/); start = at + RLENGTH) {
      at = start + RSTART - 1
      name = substr(line, at, RLENGTH)
      before = substr(line, 1, at - 1)
      after = substr(line, at + RLENGTH)
      is_lower = name ~ /^[a-jl-z]/ || name ~ /^k[^A-Z]/
      if (is_declaration(name, before, after)) {
        if (before ~ /(class|struct|enum|union|using) $/) types[name] = 1
        # Lower-case functions are accessors; other lower-case names are variables.
        if (is_header && after !~ /^;/ && name !~ /^(_|[A-Z_]+$)/ && (!is_lower || after ~ /^(\(\)| =)/))
          where[name] = FILENAME ":" FNR
      } else if (!is_lower || after ~ /^(<.*>)?\(/ || before ~ /::$/ || after ~ /^(::|[>&*]* [a-z])/) {
        used[name] = 1
      }
    }
    if (line != "") previous = line
  }
  END {
    for (name in where) if (!(name in used)) { print where[name] ": " name; failed = 1 }
    exit failed
  }
' "${files[@]}" | sort
