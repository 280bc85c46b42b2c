#!/usr/bin/env bash
# usage: sysroot.sh ARCHITECTURE [PACKAGE…]
# Unpacks what rknnd is built with (debian/control) for another architecture, and PACKAGEs, into
# build/sysroot-ARCHITECTURE, unless they are there. Nothing is installed on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=$1
shift
packages=$(sed -n '/\[.*\]/{/\b'"$architecture"'\b/!d;s/ \[.*\]//};/^Build-Depends:/,/^$/{s/^ \([^ ,]*\(-dev\|-headers\)\)\b.*/\1/p}' debian/control | grep -v '^libclang')
exec cross/root.sh "$architecture" extract "build/sysroot-$architecture" $packages "$@"
