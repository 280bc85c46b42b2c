#!/usr/bin/env bash
# usage: run.sh BUILD NAME [VARIABLE=VALUE…]
# Runs tests/vm/guest/NAME.py in a guest, with these variables; 77 (skipped) where there is no QEMU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1") name=$2
shift 2
command -v qemu-system-x86_64 >/dev/null || { echo "skipped: no qemu-system-x86_64"; exit 77; }
script=$(mktemp)
trap 'rm -f "$script"' EXIT
{
    echo "export RKNND_BUILD='$build' PYTHONPATH='$here/..:$here/../../npu/write:$build/lib/python' LC_ALL=C.UTF-8"
    for variable in "$@"; do
        echo "export '${variable%%=*}'='${variable#*=}'"
    done
    echo "dmesg -n 1"
    echo "exec timeout -k 5 ${VM_SECONDS:-500} /usr/bin/python3 '$here/guest/$name.py'"
} > "$script"
"$here/boot.sh" amd64 "${RKNND_VM_CACHE:-$here/../../build/vm}" "$script" "${VM_SECONDS:-500}" 2>&1 | stdbuf -oL tr -d '\033\r'
exit "${PIPESTATUS[0]}"
