#!/usr/bin/env bash
# test.sh SERVER CLIENT: checks the example over each kind of socket.
set -euo pipefail
server=$1 client=$2
folder=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT

for address in tcp://127.0.0.1:0 "unix://$folder/echo" "shm://$folder/echo-shm"; do
  mkfifo "$folder/out"
  "$server" "$address" >"$folder/out" &
  pid=$!
  read -r listening <"$folder/out"
  answer=$("$client" "$listening")
  kill -TERM "$pid"
  wait "$pid"
  pid=
  rm "$folder/out"
  echo "$listening: $answer"
  [[ $answer == "hello yourself: 1000000 values, unchanged" ]]
done
