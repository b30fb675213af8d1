# A slow network between daemons on this machine: each has a host of its own, a network namespace. For scripts to source after
# scripts/cluster.sh, under `set -euo pipefail`; takes the rights of root.

hosts=()
network=

# make_network DELAY_MS GBIT NAME...: a host for each daemon, with this one-way delay between any two.
make_network() {
  local delay=$1 gbit=$2 name i
  shift 2
  [[ $(id -u) == 0 && -c /dev/net/tun ]] || { echo "${0##*/}: a slow network takes root and /dev/net/tun" >&2; return 2; }
  for name in "$@"; do
    ip netns add "simurgh-$$-$name"
    hosts+=("simurgh-$$-$name")
  done
  coproc NETWORK { exec "$bin/slow_network" --delay-ms "$delay" --gbit "$gbit" "${hosts[@]}"; }
  network=$NETWORK_PID
  read -r -t 10 _ <&"${NETWORK[0]}" || { echo "${0##*/}: the slow network does not come up" >&2; return 1; }
}

address_of() {
  local i
  for i in "${!hosts[@]}"; do
    if [[ ${hosts[$i]} == simurgh-$$-$1 ]]; then echo "10.77.0.$((i + 1))"; fi
  done
}

on_host() {
  launcher=()
  ((${#hosts[@]} == 0)) || launcher=(ip netns exec "simurgh-$$-$1")
}

remove_network() {
  local host
  if [[ -n $network ]]; then
    kill "$network" 2>/dev/null || true
    wait "$network" 2>/dev/null || true
  fi
  for host in ${hosts[@]+"${hosts[@]}"}; do ip netns del "$host" || true; done
  hosts=() network=
}
