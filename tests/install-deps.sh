#!/usr/bin/env bash
# Installs what debian/control lists, if any of it is missing. Argument: "all" or "build" (without
# what only the tests need).
set -eu
cd "$(dirname "$0")/.."

profile=()
[ "${1:-all}" = all ] || profile=(-P nocheck)

missing() {
    # dpkg-checkbuilddeps knows the profiles too; without it, ask apt for everything.
    command -v dpkg-checkbuilddeps >/dev/null || return 0
    ! dpkg-checkbuilddeps "${profile[@]/#-P/-P}" debian/control >/dev/null 2>&1
}

if missing; then
    root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            echo "Some packages of debian/control are missing: run this once as root, or with sudo installed." >&2
            exit 1
        }
        root=(sudo)
    fi
    echo "== installing packages (from debian/control)"
    export DEBIAN_FRONTEND=noninteractive
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get build-dep -y -qq --no-install-recommends "${profile[@]}" ./ >/dev/null
fi
