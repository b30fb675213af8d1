#!/usr/bin/env bash
# Checks that names declared in headers have a use outside tests

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev uncalled [FILE...]

Lists the types, functions, methods and constants that no file outside tests uses. Searches the headers of include,
src, services and rpc. A benchmark is not a use. It compares names without their scope. FILEs replace the files searched. scripts/dev.d/kept_names lists the exceptions, each with its reason.
TEXT
  exit 0
fi

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources 'include/*.h' 'src/*' 'services/*' 'rpc/*' 'config/plugins/*' |
  grep -E '\.(h|c|cc|cu|cuh)$')

awk '
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
  FILENAME ~ /kept_names$/ { used[substr($0, 1, index($0, ":") - 1)] = 1; next }
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
' scripts/dev.d/kept_names "${files[@]}" | sort
