#!/usr/bin/env bash
# usage: module.sh CACHE OUT
# Builds tests/vm/module for the kernel of the guests (CACHE/kernel, fetched by boot.sh) as OUT/rknnd_npu.ko, with the
# headers of the same version, which are fetched where they are not there. 77: they cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath -m "$1") out=$(realpath -m "$2")
mkdir -p "$cache" "$out"
"$here/boot.sh" --fetch "$cache" 2>"$out/log" || { cat "$out/log"; exit 77; }
exec 9>"$cache/lock"
flock 9 # guests may start at the same time
version=$(ls "$cache/kernel/root/lib/modules")
headers=$cache/headers/root/usr/src/linux-headers-$version
name() { sed 's/[+.]/\\&/g' <<<"$1"; }
if [ ! -e "$headers/Makefile" ]; then
    "$here/../packages/debian.sh" bookworm-backports "$cache/headers" amd64 "linux-headers-$(name "$version")" \
        "linux-headers-$(name "${version%-amd64}")-common" "linux-kbuild-$(name "${version%-amd64}")" >&2 ||
        { echo "skipped: no headers of Linux $version could be fetched from Debian's backports"; exit 77; }
    # They name each other below /, and type information would need a tool that is not here.
    sed -i "s|/usr/src|$cache/headers/root/usr/src|" "$headers/Makefile"
    rm -f "$headers/vmlinux"
fi
exec 9>&-
cp -u "$here"/module/* "$out/"
make -s -C "$headers" M="$out" modules >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
