#!/usr/bin/env bash
# usage: test.sh ARCHITECTURE [WORD…]
# Builds for a board (arm64, armhf) with the packages that cross/sysroot.sh unpacks, and runs the unit tests and the fuzz
# targets' corpora under QEMU (emulate.sh); WORDs are ctest's, in place of "-L unit|fuzz".
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=$1
shift
[ $# -gt 0 ] || set -- -L 'unit|fuzz'
cross/sysroot.sh "$architecture"
cmake --preset "$architecture"
cmake --build --preset "$architecture"
exec ctest --preset "$architecture" -j"$(nproc)" "$@"
