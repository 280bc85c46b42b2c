#!/usr/bin/env bash
# usage: boot.sh CACHE SCRIPT [SECONDS]
# Boots a stock Debian kernel in QEMU on this machine's own root and runs SCRIPT there as root;
# prints the console; exits as the script did, or with 99 when the guest broke down or took too
# long. CACHE holds kernel and initramfs; it is filled when it is empty.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$1 script=$(realpath "$2") seconds=${3:-120}
mkdir -p "$cache"
if [ ! -e "$cache/initramfs" ]; then
    "$here/backports.sh" "$cache/kernel" amd64 'linux-image-6\.[0-9]+\.[0-9]+\+deb[0-9]+-amd64' >&2 ||
        { echo "skipped: no kernel could be fetched from Debian's backports"; exit 77; }
    "$here/initramfs.sh" "$cache/kernel/root" "$cache/initramfs.new"
    mv "$cache/initramfs.new" "$cache/initramfs"
    rm -rf "$cache/kernel/apt"
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
timeout --foreground -k 5 "$seconds" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu qemu64 \
    -smp 2 -m 2048 -nographic -no-reboot -nodefaults -serial stdio \
    -kernel "$cache"/kernel/root/boot/vmlinuz-* -initrd "$cache/initramfs" \
    -append "console=ttyS0 quiet nokaslr mitigations=off oops=panic panic=-1 guest=$script" \
    -fsdev local,id=base,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=base,mount_tag=base \
    -fsdev local,id=results,path="$results",security_model=none \
    -device virtio-9p-pci,fsdev=results,mount_tag=results </dev/null || true
[ -s "$results/rc" ] || { echo "the guest ended without a result" >&2; exit 99; }
exit "$(cat "$results/rc")"
