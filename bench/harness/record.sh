# Lists, describes and builds benches; records the machine.

all_benches() {
  local file
  for file in bench/*.bench; do basename "$file" .bench; done
}

# Sets the variables of a bench's description.
describe() {
  summary= program= subject= own= plot_x=
  targets=() arguments=() quick_arguments=() peer_arguments=() lone_arguments=()
  keys=() values=() ratios=() rivals=() against=() plot_y=() plot_pages=()
  rounds_of_bench=5 quick_rounds=3
  local rounds=5
  # shellcheck source=/dev/null
  . "bench/$1.bench"
  rounds_of_bench=$rounds
}

list_benches() {
  local name
  for name in $(all_benches); do
    describe "$name"
    printf '%-14s %s\n' "$name" "$summary"
  done
}

build_benches() {
  local name wanted=()
  for name in "$@"; do
    describe "$name"
    wanted+=("${targets[@]}")
  done
  # A peer may have been installed since the last configure.
  cmake --preset release >/dev/null
  scripts/build.sh release "${wanted[@]}" >&2
}

record_machine() {
  local commit
  commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
  [[ -z $(git status --porcelain 2>/dev/null) ]] || commit+=" with changes"
  jq -n \
    --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
    --argjson cores "$(nproc)" \
    --arg kernel "$(uname -sr)" \
    --argjson memory_gb "$(awk '/^MemTotal:/ { printf "%.1f", $2 * 1024 / 1e9 }' /proc/meminfo)" \
    --arg compiler "$(clang++-19 --version 2>/dev/null | head -n 1)" \
    --arg commit "$commit" --arg command "$1" --arg time "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    '{cpu: $cpu, cores: $cores, memory_gb: $memory_gb, kernel: $kernel, compiler: $compiler,
      commit: $commit, command: $command, time: $time}'
}

warn_if_busy() {
  awk '$1 > 0.5 { print "bench/run: the load average is " $1 "; stop other programs" }' /proc/loadavg >&2
}
