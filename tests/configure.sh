#!/usr/bin/env bash
# usage: configure.sh PRESET FOLDER
# Configures build/FOLDER. One that cannot be used any more (it was made in another place, or with a
# compiler that is gone) is begun anew. ccache is used if it was there when the folder was begun:
# changing that would compile everything again.
set -eu
cd "$(dirname "$0")/.."
if [ -e "build/$2/CMakeCache.txt" ]; then
    unset CMAKE_C_COMPILER_LAUNCHER
    cmake --preset "$1" && exit
    exec cmake --preset "$1" --fresh
fi
[ -n "${CMAKE_C_COMPILER_LAUNCHER:-}" ] || ! command -v ccache >/dev/null || export CMAKE_C_COMPILER_LAUNCHER=ccache
exec cmake --preset "$1"
