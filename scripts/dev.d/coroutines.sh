#!/usr/bin/env bash
# Checks that functions in headers that return an awaitable are [[nodiscard]]

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev coroutines [FILE...]

Without [[nodiscard]], the compiler does not report a call whose result is not awaited. Such a call does nothing.
TEXT
  exit 0
fi

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources '*.h')

# Reads declarations as texts between ";", "{" and "}".
awk '
  function check(text,   plain) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    while (sub(/^(public|private|protected): /, "", text)) {}
    plain = text
    gsub(/\[\[[a-z_]*\]\] ?/, "", plain)
    sub(/^template ?<[^()]*> /, "", plain)
    while (sub(/^(static|virtual|inline|friend|constexpr|explicit) /, "", plain)) {}
    if (plain !~ /^([A-Za-z_0-9]+::)*awaitable<.*> ?[A-Za-z_0-9:]+ ?\(/ &&
        plain !~ /^auto [A-Za-z_0-9:]+ ?\(.*\).* -> ([A-Za-z_0-9]+::)*awaitable</) return
    if (text ~ /\[\[nodiscard\]\]/) return
    print FILENAME ":" FNR ": not [[nodiscard]]: " substr(plain, 1, 80)
    failed = 1
  }
  FNR == 1 { declaration = "" }
  /^[ \t]*#/ { next }
  {
    line = $0
    sub(/\/\/.*/, "", line)
    while (match(line, /[;{}]/)) {
      check(declaration " " substr(line, 1, RSTART - 1))
      declaration = ""
      line = substr(line, RSTART + 1)
    }
    declaration = declaration " " line
  }
  END { exit failed }
' "${files[@]}"
