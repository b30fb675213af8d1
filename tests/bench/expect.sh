# Sourced by the tests of this folder: requires jq and gnuplot, creates the folder $out and defines expect.

for tool in jq gnuplot; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: $tool is missing"; exit 77; }
done

out=$(mktemp --directory)
trap 'rm -r "$out"' EXIT
failures=0
expect() {  # expect WHAT ACTUAL EXPECTED
  [[ $2 == "$3" ]] && return
  echo "$1: got '$2', expected '$3'"
  failures=$((failures + 1))
}
