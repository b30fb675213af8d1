#!/usr/bin/env bash
# Checks the words, the sentences and the width of docs, help texts and error messages

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev prose [FILE...]

Checks Markdown files, string literals of C++ files, and the help texts of scripts (all of them without FILEs):
  - no phrase from the list in this script;
  - at most 30 words in a sentence;
  - at most 100 columns in a line of Markdown, except in tables, code and lines with a link.
TEXT
  exit 0
fi

# Phrases to avoid, as extended regular expressions in lower case.
PHRASES='so many|as many as|whoever|nobody|somebody|one behind the other|as (it|they) likes?|what comes|of (its|their) own
|may be had|again when|comes|goes|lies|(is|are|was|were|been|be) told|gives? up|given up|knows|asks'

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources '*.md' 'include/*.h' 'src/*.h' 'src/*.cc' 'src/*.cu' 'rpc/*.h' 'rpc/*.cc' \
  'services/*.h' 'services/*.cc' 'bench/*.cc' 'bench/*.h' '*.sh' 'bench/run' 'scripts/dev')

awk -v phrases="(^|[^a-z_-])(${PHRASES//$'\n'/})([^a-z_-]|\$)" '
  function complain(what) { print FILENAME ":" at ": " what; failed = 1 }
  function check(text,   count, sentences, i, words) {
    gsub(/`[^`]*`/, "CODE", text)
    gsub(/ +/, " ", text)
    if (match(tolower(text), phrases)) complain("\"" substr(text, RSTART, RLENGTH) "\" in: " substr(text, 1, 100))
    count = split(text, sentences, /[.!?:|][")*_]* +|\\n/)
    for (i = 1; i <= count; ++i) {
      words = split(sentences[i], ignored, /[ \n]+[^A-Za-z]*/)
      if (words > 30) complain(words " words in a sentence: " substr(sentences[i], 1, 70))
    }
  }
  # A paragraph ends: what was gathered of it is checked.
  function finish() { if (text != "") check(text); text = "" }
  function add(more) { if (text == "") at = FNR; text = text " " more }
  FNR == 1 { finish(); in_code = 0; is_markdown = FILENAME ~ /\.md$/; is_script = FILENAME !~ /\.(md|h|cc|cu|cuh)$/ }
  is_markdown && /^ *```/ { finish(); in_code = !in_code; next }
  is_markdown && in_code { next }
  is_markdown {
    if (length($0) > 100 && !/^ *\|/ && !/\]\(|https?:/) { at = FNR; complain("wider than 100 columns") }
    if (/^ *$|^#|^ *[-*|] |^ *[0-9]+\. |^ *\|/) finish()
    add($0)
    next
  }
  is_script && /<<.?(TEXT|EOT)/ { in_code = 1; next }
  is_script && /^(TEXT|EOT)/ { finish(); in_code = 0 }
  is_script && in_code { if (/^ *$|^ *-|^ +[^ ]+  /) finish(); add($0) }
  is_script || /^ *(\/\/|#)/ { next }
  {
    # Literals that follow one another are one text.
    rest = $0
    if (rest !~ /^ *"/) finish()
    while (match(rest, /"([^"\\]|\\.)*"/)) {
      first = RSTART
      bytes = RLENGTH
      if (substr(rest, 1, first - 1) !~ /^ *$/) finish()
      add(substr(rest, first + 1, bytes - 2))
      rest = substr(rest, first + bytes)
    }
    if (rest !~ /^ *$/) finish()
  }
  END { finish(); exit failed }
' "${files[@]}"
