# Sourced by the tests of benches that are scripts: ends them where a tool is missing; a folder, and what is expected.

for tool in jq gnuplot; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: $tool is missing"; exit 77; }
done

out=$(mktemp --directory)
trap 'rm -r "$out"' EXIT
failures=0
expect() {  # expect WHAT ACTUAL EXPECTED
  [[ $2 == "$3" ]] && return
  echo "$1: '$2' and not '$3'"
  failures=$((failures + 1))
}
