#!/usr/bin/env bash
# usage: run.sh BUILD NAME [VARIABLE=VALUE…]
# Runs tests/vm/guest/NAME.py in a guest, with these variables; 77 (skipped) where there is no QEMU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1") name=$2
shift 2
command -v qemu-system-x86_64 >/dev/null || { echo "skipped: no qemu-system-x86_64"; exit 77; }
script=$(mktemp) said=$(mktemp)
trap 'rm -f "$script" "$said"' EXIT
{
    echo "export RKNND_BUILD='$build' LC_ALL=C.UTF-8"
    for variable in "$@"; do
        echo "export '${variable%%=*}'='${variable#*=}'"
    done
    echo "dmesg -n 1"
    echo "exec timeout -k 5 ${VM_SECONDS:-280} /usr/bin/python3 '$here/guest/$name.py'"
} > "$script"
boot() {
    "$here/boot.sh" amd64 "${RKNND_VM_CACHE:-$here/../../build/vm}" "$script" "${VM_SECONDS:-280}" 2>&1 | stdbuf -oL tr -d '\033\r' | tee "$said"
    return "${PIPESTATUS[0]}"
}
# Seldom the guest's kernel (6.12) falls over a transfer that is cancelled while dummy_hcd hands it
# back: __queue_work fails, called from dummy_timer. No program can bring that about by rights, so
# the guest runs once more; what else goes wrong counts.
status=0
boot || status=$?
if [ "$status" -ne 0 ] && grep -q __queue_work "$said" && grep -q dummy_timer "$said"; then
    echo "the guest's kernel broke down in dummy_timer: once more"
    status=0
    boot || status=$?
fi
exit "$status"
