#!/usr/bin/env bash
# usage: arm64_build.sh TARGET…
# All that the arm64 guest needs, in build/: packages, adbd, and rknnd's own programs, cross-built. 77
# (skipped) where something cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
skip() {
    echo "skipped: $1"
    exit 77
}

for program in qemu-system-aarch64 aarch64-linux-gnu-gcc mmdebstrap adb unshare; do
    command -v $program >/dev/null || skip "no $program"
done
[ "$(id -u)" -eq 0 ] || skip "root is needed"
# Of the guest: its kernel and shell, and what adbd is linked with.
cross/sysroot.sh arm64 linux-image-arm64 bash busybox-static libbrotli1 libbsd0 liblz4-1 libprotobuf32 libstdc++6 \
    libsystemd0 libzstd1 || skip "packages of arm64 could not be fetched"
"$here/adbd.sh" build/vm-arm64/adbd arm64 || skip "adbd could not be fetched from Debian's backports"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/configure.sh arm64 arm64 >"$log" 2>&1 && cmake --build --preset arm64 --target "$@" >>"$log" 2>&1 ||
    { tail -n 50 "$log"; exit 1; }
