#!/usr/bin/env bash
# Checks the words, the sentences and the width of docs, help texts and error messages

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev prose [FILE...]

Checks Markdown files, string literals of C++ and Python files, help texts and messages of scripts (default: all):
  - no phrase of scripts/dev.d/phrases;
  - at most 20 words in a sentence;
  - no comment of the product that begins with Of, By, As, That, Those or Likewise: it names its subject;
  - at most 100 columns in a line of Markdown, except in tables, code and lines with a link.
TEXT
  exit 0
fi

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources '*.md' 'include/*.h' 'src/*.h' 'src/*.cc' 'src/*.cu' 'rpc/*.h' 'rpc/*.cc' \
  'services/*.h' 'services/*.cc' 'bench/*.cc' 'bench/*.h' 'bench/*.py' 'bench/*.bench' 'bench/e2e/bench_training' \
  bench/e2e/bench_recovery bench/e2e/bench_serving bench/e2e/compare_modes bench/e2e/time_shares bench/run '*.sh' scripts/dev | grep -v checks_can_fail)

awk -v phrases="(^|[^a-z_-])($(paste -sd '|' scripts/dev.d/phrases))([^a-z_-]|\$)" '
  function complain(what) { print at ": " what; failed = 1 }
  function check(text,   count, sentences, i, words) {
    gsub(/`[^`]*`/, "CODE", text)
    gsub(/CODE(([,;]| ‖) CODE)+/, "CODE", text)
    gsub(/ +/, " ", text)
    if (match(tolower(text), phrases)) complain("\"" substr(text, RSTART, RLENGTH) "\" in: " substr(text, 1, 100))
    # In Markdown a colon before a lower-case word does not end a sentence.
    while (is_markdown && match(text, /[a-z0-9)]: +[a-z]/)) text = substr(text, 1, RSTART) substr(text, RSTART + 2)
    count = split(text, sentences, /[.!?:|][")*_]* +|\\n/)
    for (i = 1; i <= count; ++i) {
      words = split(sentences[i], ignored, /[ \n]+[^A-Za-z]*/)
      if (words > 20) complain(words " words in a sentence: " substr(sentences[i], 1, 70))
    }
  }
  # A paragraph ends: what was gathered of it is checked.
  function finish() { if (text != "") check(text); text = "" }
  function add(more) { if (text == "") at = FILENAME ":" FNR; text = text " " more }
  # Adds the part of a line that is in a raw literal. Returns the rest of the line.
  function add_raw(line,   end, part) {
    end = index(line, raw_end)
    part = end ? substr(line, 1, end - 1) : line
    # A blank line ends a paragraph. A row of a table or an indented line is one by itself.
    if (part ~ /^( |$|[^ ]+  )/ || is_row) finish()
    is_row = part ~ /^( |[^ ]+  )/
    if (part != "") add(part)
    if (!end) return ""
    line = substr(line, end + length(raw_end))
    raw_end = ""
    return line
  }
  FNR == 1 {
    finish(); in_code = 0; raw_end = ""; is_markdown = FILENAME ~ /\.md$/; is_script = FILENAME !~ /\.(md|h|cc|cu|py)$/
    raw = FILENAME ~ /\.(h|cc|cu)$/ ? "(^|[^A-Za-z0-9_])R\"[A-Za-z_]*[(]" : "^\n"
    literal = "\"([^\"\\\\]|\\\\.)*\"" (is_script ? "|\047[^\047]*\047" : "")
  }
  FILENAME ~ /^(include|src|rpc|services)\// && /\/\/ (Of|By|As|That|Those|Likewise)([^A-Za-z0-9_]|$)/ {
    at = FILENAME ":" FNR
    complain("a comment without its subject: " substr($0, index($0, "// "), 70))
  }
  is_markdown && /^ *```/ { finish(); in_code = !in_code; next }
  is_markdown && in_code { next }
  is_markdown {
    if (length($0) > 100 && !/^ *\|/ && !/\]\(|https?:/) { at = FILENAME ":" FNR; complain("wider than 100 columns") }
    if (/^ *$|^#|^ *[-*|] |^ *[0-9]+\. |^ *\|/) finish()
    add($0)
    next
  }
  is_script && /<<.?(TEXT|EOT)/ { in_code = 1; next }
  is_script && /^(TEXT|EOT)/ { finish(); in_code = 0 }
  is_script && in_code { if (/^ *$|^ *-|^ +[^ ]+  /) finish(); add($0) }
  raw_end != "" { $0 = add_raw($0); if (raw_end != "") next }
  /^ *(\/\/|#)/ || is_script && !/(^|[ ({])(echo|printf|fail) |^summary=/ { next }
  {
    # Literals that follow one another are one text.
    rest = $0
    if (rest !~ /^ *R?"/) finish()
    while (1) {
      raw_first = match(rest, raw)
      raw_bytes = RLENGTH
      first = match(rest, literal)
      bytes = RLENGTH
      if (raw_first && (!first || raw_first < first)) {
        if (substr(rest, 1, raw_first) !~ /^ *R?$/) finish()
        raw_end = substr(rest, raw_first, raw_bytes)
        gsub(/^.*"|[(]$/, "", raw_end)
        raw_end = ")" raw_end "\""
        is_row = 0
        rest = add_raw(substr(rest, raw_first + raw_bytes))
        if (raw_end != "") next
        continue
      }
      if (!first) break
      if (substr(rest, 1, first - 1) !~ /^ *$/) finish()
      add(substr(rest, first + 1, bytes - 2))
      rest = substr(rest, first + bytes)
    }
    if (rest !~ /^ *$/) finish()
  }
  END { finish(); exit failed }
' "${files[@]}"
