#!/usr/bin/env bash
# scripts/build.sh shows a build's progress and its errors, and keeps its exit code.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "build_progress: $*" >&2; exit 1; }
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
cat >"$fake/cmake" <<'EOT'
#!/usr/bin/env bash
[[ $1 == --build ]] || exit 0
echo '@0/2@ Re-checking globbed directories...'
for i in $(seq 20); do echo "@$i/40@ Building CXX object $i"; done
echo 'FAILED: x.o'
echo 'x.cc:1: error: 100 %s' >&2
exit 3
EOT
chmod +x "$fake/cmake"

code=0
PATH=$fake:$PATH scripts/build.sh no-such-preset target >"$fake/pipe" || code=$?
((code == 3)) || fail "exit code $code, expected 3"
[[ $(grep -c '^build: ' "$fake/pipe") == 6 ]] || fail "not one line every ten per cent: $(cat "$fake/pipe")"
grep -qx 'x.cc:1: error: 100 %s' "$fake/pipe" || fail "the compiler's error is missing"
grep -qE '^build: 50 % \(20 of 40 steps\), [0-9]+:[0-9]{2} elapsed, about [0-9]+:[0-9]{2} left$' "$fake/pipe" || fail "no estimate"
grep '^build: ' "$fake/pipe" | head -n 1 | grep -q ' of 40 steps' || fail "the first line has other steps"
! grep -q 'Building' "$fake/pipe" || fail "a status line remains"

code=0
PATH=$fake:$PATH script -qec 'scripts/build.sh no-such-preset' "$fake/terminal" >/dev/null || code=$?
((code == 3)) || fail "exit code $code on a terminal, expected 3"
[[ $(tr '\r' '\n' <"$fake/terminal" | grep -c 'build: ') == 20 ]] || fail "the terminal's line is not updated"
[[ $(grep -c 'build: ' "$fake/terminal") == 1 ]] || fail "more than one line on a terminal"
