#!/usr/bin/env bash
# usage: emulate.sh QEMU SYSROOT PROGRAM…
# Runs PROGRAM, of another architecture or one that starts such programs, under QEMU's user mode: in a user namespace with a
# binfmt_misc of its own (Linux 6.7 and later), so that the machine's stays as it is. 77: neither has an entry for QEMU.
set -euo pipefail
qemu=$1 sysroot=$2
shift 2
export QEMU_LD_PREFIX=$sysroot
interpreter=$(command -v "qemu-$qemu-static") || { echo "skipped: there is no qemu-$qemu-static (package qemu-user-static)"; exit 77; }
! grep -qsx enabled "/proc/sys/fs/binfmt_misc/qemu-$qemu" || exec "$@"

# An ELF file's first bytes and their mask: little-endian, an executable or a shared object, of that machine (/usr/include/elf.h).
case $qemu in
    arm) class=1 machine=28 ;;
    aarch64) class=2 machine=b7 ;;
    *) echo "emulate.sh: QEMU is arm or aarch64, not $qemu" >&2; exit 2 ;;
esac
magic="\\x7fELF\\x0$class\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x$machine\\x00"
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export RKNND_BINFMT=":qemu-$qemu:M::$magic:$mask:$interpreter:F"
# Root keeps all users that it has (tests become others), by a process that outlives nobody and is no child of PROGRAM's;
# anybody else is root there.
map=(--map-root-user)
if [ "$(id -u)" = 0 ]; then
    map=(--user)
    own=$(readlink /proc/self/ns/user)
    ( (
        while [ "$(readlink /proc/$$/ns/user || echo "$own")" = "$own" ] && [ -e /proc/$$ ]; do sleep 0.01; done
        for file in uid_map gid_map; do awk '{ print $1, $1, $3 }' /proc/self/$file >/proc/$$/$file; done
    ) & ) 2>/dev/null
fi
exec unshare "${map[@]}" --mount bash -c '
    until read -r _ </proc/self/gid_map; do sleep 0.01; done
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null && echo "$RKNND_BINFMT" >/proc/sys/fs/binfmt_misc/register ||
        { echo "skipped: this kernel has no binfmt_misc for namespaces (Linux 6.7), and the system runs no such programs"; exit 77; }
    unset RKNND_BINFMT
    exec "$@"' emulate.sh "$@"
