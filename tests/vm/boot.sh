#!/usr/bin/env bash
# usage: boot.sh ARCHITECTURE CACHE SCRIPT [SECONDS [QEMU_OPTION…]]
# Boots a stock Debian kernel in QEMU and runs SCRIPT there as root; prints the console; exits as the
# script did, or with 99 when the guest broke down or took too long. amd64: on this machine's own root.
# arm64: on build/sysroot-arm64, with the project at the same path as here. CACHE holds the initramfs,
# and the kernel of amd64; it is filled when it is empty. With VM_COUNTED set, an instruction takes a
# nanosecond in the guest, whatever else this machine does: for measuring.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
architecture=$1 cache=$2 script=$(realpath "$3") seconds=${4:-120}
shift $(($# < 4 ? $# : 4))
mkdir -p "$cache"

fetch_kernel() {
    "$here/backports.sh" "$cache/kernel" amd64 'linux-image-6\.[0-9]+\.[0-9]+\+deb[0-9]+-amd64' >&2 ||
        { echo "skipped: no kernel could be fetched from Debian's backports"; exit 77; }
    rm -rf "$cache/kernel/apt"
}

# share NAME FOLDER [OPTION]: a folder of this machine, for the guest to mount by its name.
share() {
    qemu+=(-fsdev "local,id=$1,path=$2,security_model=none${3:+,$3}" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

busybox=$(command -v busybox) words=
case $architecture in
amd64)
    base=/ kernel=$cache/kernel/root console=ttyS0 qemu=(qemu-system-x86_64 -M q35 -cpu qemu64)
    [ -e "$cache/initramfs" ] || fetch_kernel
    ;;
arm64)
    project=$(cd "$here/../.." && pwd)
    base=$project/build/sysroot-arm64 kernel=$base busybox=$base/bin/busybox words="project=$project"
    console=ttyAMA0 qemu=(qemu-system-aarch64 -M virt -cpu cortex-a57)
    share project "$project" readonly=on,multidevs=remap
    ;;
esac
if [ ! -e "$cache/initramfs" ]; then
    "$here/initramfs.sh" "$kernel" "$cache/initramfs.new" "$busybox"
    mv "$cache/initramfs.new" "$cache/initramfs"
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
share base "$base" readonly=on,multidevs=remap
share results "$results"
speed=(-accel tcg,thread=multi -smp 2)
[ -z "${VM_COUNTED:-}" ] || speed=(-accel tcg,thread=single -icount shift=0,sleep=off -smp 1)
timeout --foreground -k 5 "$seconds" "${qemu[@]}" "${speed[@]}" \
    -m 2048 -nographic -no-reboot -nodefaults -serial stdio "$@" \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$cache/initramfs" \
    -append "console=$console quiet nokaslr mitigations=off oops=panic panic=-1 $words guest=$script" </dev/null || true
[ -s "$results/rc" ] || { echo "the guest ended without a result" >&2; exit 99; }
exit "$(cat "$results/rc")"
