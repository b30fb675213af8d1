#!/usr/bin/env bash
# ccache.sh COMPILER ARGUMENT...: compiles through ccache, which then shares results between clones.
# Without this sloppiness ccache does not cache sources with precompiled headers. CMake's absolute paths to these
# headers would differ between clones.
set -eu
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${0%/scripts/cmake/ccache.sh}
exec ccache "${@//"$PWD/"/}"
