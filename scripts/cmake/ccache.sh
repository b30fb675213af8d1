#!/usr/bin/env bash
# ccache.sh COMPILER ARGUMENT...: compiles through ccache, which then shares results between clones.
# Without this sloppiness ccache does not cache sources with precompiled headers. CMake passes the absolute paths of
# these headers, which differ between clones. Only arguments that are a path become relative: a definition keeps its path.
set -eu
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${0%/scripts/cmake/ccache.sh}
exec ccache "${@/#"$PWD/"/}"
