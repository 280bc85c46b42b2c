#!/usr/bin/env bash
# usage: board.sh
# docs/board.md to the letter: its packages for arm64, built by its command, and guest/board_md.py, which runs the commands that the
# page names on a board: a stock Debian of arm64 under systemd, with a stand-in for the vendor's runtime (tests/standin), which
# boards' images have. What the packages depend on is there already, for the guest has no network. 77: something cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "$here/../../build")
board=$build/vm-board
mkdir -p "$board"
"$here/arm64_build.sh" standin_today
# Not once more what the test before has built from these sources.
newest=$(ls -t "$build"/packages-arm64/rknnd_*.deb 2>/dev/null || true)
if [ -z "$newest" ] || [ -n "$(find "$here/../.." -path "$build" -prune -o -path '*/.git' -prune -o -type f -newer "$newest" -print -quit)" ]; then
    "$here/../../cross/packages.sh" arm64 >"$board/log" || { code=$?; tail -n 20 "$board/log"; exit $code; }
fi
"$here/../../cross/emulate.sh" aarch64 / "$here/systemd_root.sh" "$build/packages-arm64" "$board/root" arm64 curl sudo libdnnl2
cp "$build/arm64/tests/standin/today/librknnrt.so" "$here/../../examples/digits/digits.rknn" "$board/"
seconds=${VM_SECONDS:-1500}
echo "LC_ALL=C.UTF-8 RKNND_PATIENCE=$((seconds / 3)) exec timeout -k 5 $seconds /usr/bin/python3 '$here/guest/board_md.py'" >"$board/script"
"$here/boot.sh" board "$build/vm-arm64" "$board/script" "$seconds" 2>&1 | stdbuf -oL tr -d '\033\r'
exit "${PIPESTATUS[0]}"
