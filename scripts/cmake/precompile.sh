#!/usr/bin/env bash
# Runs a compiler's command. If it writes a precompiled header, also writes its digest to HEADER.sum: of the preprocessed
# text and the options, without names of folders. ccache compares the digest in place of the header itself, which names
# the folder that it was compiled in. So clones in different folders share compiled files.
set -euo pipefail
"$@"
output=
preprocess=()
options=()
while (($# > 0)); do
  case "$1" in
    -o) output=$2; shift ;;
    -MF | -MT) shift ;;
    -MD | -emit-pch) [[ $1 == -MD ]] || unset 'preprocess[-1]' ;;
    *) preprocess+=("$1"); [[ $1 == */* ]] || options+=("$1") ;;
  esac
  shift
done
[[ $output == *.pch ]] || exit 0
{ "${preprocess[@]}" -E -P -o -; echo "${options[*]}"; } | sha256sum >"$output.sum"
