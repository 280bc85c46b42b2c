#!/usr/bin/env bash
# usage: adbd.sh FOLDER ARCHITECTURE
# Debian's adbd and what it brings along, unpacked into FOLDER/root unless it is there.
set -euo pipefail
folder=$(realpath -m "$1")
[ ! -e "$folder/done" ] || exit 0
"$(dirname "$0")/../packages/debian.sh" bookworm-backports "$folder" "$2" \
    adbd android-libbase android-libcutils android-liblog android-libboringssl
touch "$folder/done"
