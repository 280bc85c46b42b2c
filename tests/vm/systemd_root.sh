#!/usr/bin/env bash
# usage: systemd_root.sh PACKAGES FOLDER [ARCHITECTURE PACKAGE…]
# A small Debian (of amd64) with systemd, what the packages in PACKAGES depend on, and further PACKAGEs, in FOLDER.
set -euo pipefail
depends=$(for package in "$1"/*.deb; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' |
    sed 's/[(|:].*//; s/ //g; /^\(librknnrt-\)\?rknnd\(-npu-sim\)\?$/d')
exec "$(dirname "$0")/../../cross/root.sh" "${3:-amd64}" minbase "$2" $depends systemd-sysv udev dbus kmod python3 "${@:4}"
