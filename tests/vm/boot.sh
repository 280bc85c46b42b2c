#!/usr/bin/env bash
# usage: boot.sh MACHINE CACHE SCRIPT [SECONDS [QEMU_OPTION…]]
#    or: boot.sh --fetch CACHE
# Boots a stock Debian kernel in QEMU and runs SCRIPT there as root; prints the console; exits as the
# script did, or with 99 when the guest broke down or took too long. CACHE holds the initramfs, and the
# kernel of amd64, which are made when they are not there. A guest has two processors, which take turns on one of this
# machine's: on two of them it costs more than twice as much for the same work. With VM_COUNTED set, an instruction takes a nanosecond
# in the guest, whatever else this machine does: for measuring. The MACHINE's root and what runs there:
#   amd64    this machine's own root; SCRIPT alone
#   systemd  build/vm-systemd/root, with the same kernel; systemd, then SCRIPT
#   arm64    build/sysroot-arm64; SCRIPT alone
#   board    build/vm-board/root, with the same kernel; systemd, then SCRIPT
# On roots that are not this machine's the project is at the same path as here. --fetch has amd64's kernel there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
machine=$1 cache=$2 script=$(realpath "${3:-/dev/null}") seconds=${4:-120}
shift $(($# < 4 ? $# : 4))
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # guests may start at the same time

fetch_kernel() {
    "$here/../packages/debian.sh" bookworm-backports "$cache/kernel" amd64 'linux-image-6\.[0-9]+\.[0-9]+\+deb[0-9]+-amd64' >&2 ||
        { echo "skipped: no kernel could be fetched from Debian's backports"; exit 77; }
}

# share NAME FOLDER [OPTION]: a folder of this machine, for the guest to mount by its name.
share() {
    qemu+=(-fsdev "local,id=$1,path=$2,security_model=none${3:+,$3}" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

if [ "$machine" = --fetch ]; then
    compgen -G "$cache/kernel/root/boot/vmlinuz-*" >/dev/null || fetch_kernel
    exit 0
fi
project=$(cd "$here/../.." && pwd)
case $machine in
amd64) base=/ words= ;;
systemd) base=$project/build/vm-systemd/root words="project=$project systemd" ;;
arm64) base=$project/build/sysroot-arm64 words="project=$project" ;;
board) base=$project/build/vm-board/root words="project=$project systemd" ;;
esac
if [[ $machine = arm64 || $machine = board ]]; then
    kernel=$project/build/sysroot-arm64 console=ttyAMA0
    busybox=$kernel/bin/busybox
    qemu=(qemu-system-aarch64 -M virt -cpu cortex-a57)
else
    kernel=$cache/kernel/root busybox=$(command -v busybox) console=ttyS0
    qemu=(qemu-system-x86_64 -M q35 -cpu qemu64)
    compgen -G "$kernel/boot/vmlinuz-*" >/dev/null || fetch_kernel
fi
if [ ! "$cache/initramfs" -nt "$here/initramfs.sh" ]; then
    "$here/initramfs.sh" "$kernel" "$cache/initramfs.$$" "$busybox"
    mv "$cache/initramfs.$$" "$cache/initramfs"
fi
exec 9>&-
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
[ -z "$words" ] || share project "$project" readonly=on,multidevs=remap
share base "$base" readonly=on,multidevs=remap
share results "$results"
# norandmaps: where a program lies elsewhere each time, all of it is translated again.
speed=(-accel tcg,thread="${VM_THREAD:-single}" -smp 2)
[ -z "${VM_COUNTED:-}" ] || speed=(-accel tcg,thread=single -icount shift=0,sleep=off -smp 1)
boot() {
    timeout --foreground -k 5 "$seconds" "${qemu[@]}" "${speed[@]}" \
        -m 2048 -nographic -no-reboot -nodefaults -serial stdio "$@" \
        -kernel "$kernel"/boot/vmlinuz-* -initrd "$cache/initramfs" \
        -append "console=$console quiet nokaslr norandmaps no_timer_check mitigations=off oops=panic panic=-1 $words guest=$script" </dev/null || true
}
# Now and then the emulation trips over its own translated code while the kernel starts (an int3 that
# nobody set): such a guest, which never came to its script, is started again.
SECONDS=0
for _ in 1 2 3; do
    boot "$@"
    [ ! -e "$results/begun" ] && [ "$SECONDS" -lt "$seconds" ] || break
    echo "the guest did not start" >&2
done
[ -s "$results/rc" ] || { echo "the guest ended without a result" >&2; exit 99; }
exit "$(cat "$results/rc")"
