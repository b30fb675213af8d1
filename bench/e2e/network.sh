# A slow network between daemons on this machine: other daemons reach each one through a proxy with a delay and a limited
# rate. Source it after bench/e2e/cluster.sh, under `set -euo pipefail`.

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
  if ((${#proxied[@]} > 0)); then
    echo "tcp://127.0.0.1:$(($(port_of "$1") + 100))"
  else
    echo "auto://127.0.0.1:$(port_of "$1")"
  fi
}

# make_network DELAY_MS GBIT NAME...: puts the daemons behind proxies with a one-way delay.
make_network() {
  local name pairs=() shape=(--delay-ms "$1" --gbit "$2")
  shift 2
  proxied=("$@")
  for name in "$@"; do pairs+=("$(address_of "$name")=$(own_address "$name")"); done
  coproc NETWORK { exec "$bin/slow_network" "${shape[@]}" "${pairs[@]}"; }
  network=$NETWORK_PID
  read -r -t 10 _ <&"${NETWORK[0]}" || { echo "${0##*/}: the slow network did not start within 10 s" >&2; return 1; }
}

# own_options NAME: sets the array `own` to the overrides of the daemon alone.
own_options() {
  own=()
  ((${#proxied[@]} > 0)) || return 0
  local program=${1%-*}
  own=(--set "${program//-/_}.instances.${1##*-}.address=$(own_address "$1")")
}

remove_network() {
  if [[ -n $network ]]; then
    kill "$network" 2>/dev/null || true
    wait "$network" 2>/dev/null || true
  fi
  proxied=() network=
}
