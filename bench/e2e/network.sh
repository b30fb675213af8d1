# A slow network between daemons on this machine. Source it after bench/e2e/cluster.sh, under `set -euo pipefail`.
#
# With root rights, each daemon runs in its own network namespace. Otherwise other daemons reach it through a proxy.

hosts=()    # Names of namespaces.
proxied=()  # Daemons behind proxies.
network=

# port_of NAME: the daemon's port.
port_of() {
  case $1 in
    embedding-ps-*) echo $((7431 + ${1##*-})) ;;
    embedding-worker-*) echo $((7441 + ${1##*-})) ;;
    nn-worker-*) echo $((7451 + ${1##*-})) ;;
  esac
}

# own_address NAME: the address behind the daemon's proxy.
own_address() { echo "tcp://127.0.0.1:$(port_of "$1")"; }

# address_of NAME: the address for other daemons; auto:// without a slow network.
address_of() {
  local i port
  port=$(port_of "$1")
  if ((${#proxied[@]} > 0)); then
    echo "tcp://127.0.0.1:$((port + 100))"
  elif ((${#hosts[@]} == 0)); then
    echo "auto://127.0.0.1:$port"
  fi
  for i in "${!hosts[@]}"; do
    if [[ ${hosts[$i]} == simurgh-$$-$1 ]]; then echo "tcp://10.77.0.$((i + 1)):$port"; fi
  done
}

may_make_hosts() {
  [[ $(id -u) == 0 && -c /dev/net/tun ]] && ip netns add "simurgh-$$" 2>/dev/null && ip netns del "simurgh-$$"
}

# start_network ARGUMENT...: starts slow_network.
start_network() {
  coproc NETWORK { exec "$bin/slow_network" "$@"; }
  network=$NETWORK_PID
  read -r -t 10 _ <&"${NETWORK[0]}" || { echo "${0##*/}: the slow network did not start within 10 s" >&2; return 1; }
}

# make_network KIND DELAY_MS GBIT NAME...: connects the daemons with a one-way delay; KIND: hosts or proxies.
make_network() {
  local kind=$1 name pairs=() shape=(--delay-ms "$2" --gbit "$3")
  shift 3
  if [[ $kind == proxies ]]; then
    proxied=("$@")
    for name in "$@"; do pairs+=("$(address_of "$name")=$(own_address "$name")"); done
    start_network "${shape[@]}" --proxies "${pairs[@]}"
    return
  fi
  for name in "$@"; do
    ip netns add "simurgh-$$-$name"
    hosts+=("simurgh-$$-$name")
  done
  start_network "${shape[@]}" "${hosts[@]}"
}

# describe_network KIND DELAY_MS GBIT: prints a sentence.
describe_network() {
  case $1 in
    hosts) echo "Each daemon is in a network namespace, $2 ms one way from the others, and sends at most $3 Gbit/s." ;;
    proxies) echo "Each daemon is behind a proxy, $2 ms one way, with at most $3 Gbit/s per connection." ;;
  esac
}

# on_host NAME: sets the array `launcher` to what starts a daemon of this name in its place, and `own` to its own overrides.
on_host() {
  launcher=() own=()
  if ((${#hosts[@]} > 0)); then launcher=(ip netns exec "simurgh-$$-$1"); fi
  if ((${#proxied[@]} > 0)); then
    local program=${1%-*}
    own=(--set "${program//-/_}.instances.${1##*-}.address=$(own_address "$1")")
  fi
}

remove_network() {
  local host
  if [[ -n $network ]]; then
    kill "$network" 2>/dev/null || true
    wait "$network" 2>/dev/null || true
  fi
  for host in ${hosts[@]+"${hosts[@]}"}; do ip netns del "$host" || true; done
  hosts=() proxied=() network=
}
