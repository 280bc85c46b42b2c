#!/usr/bin/env bash
# Installs what debian/control lists and this machine lacks. Argument: "all", or "build" (without
# what only the tests need).
set -eu
cd "$(dirname "$0")/.."
[ "${1:-all}" = all ] || export DEB_BUILD_PROFILES=nocheck

if command -v dpkg-checkbuilddeps >/dev/null && dpkg-checkbuilddeps 2>/dev/null; then
    exit
fi

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo --preserve-env=DEBIAN_FRONTEND,DEB_BUILD_PROFILES "$@"
    else
        echo "Packages of debian/control are missing: run this once as root, or install sudo." >&2
        exit 1
    fi
}

echo "== installing packages (from debian/control)"
export DEBIAN_FRONTEND=noninteractive
as_root apt-get update -qq
as_root apt-get build-dep -y -qq --no-install-recommends ./ >/dev/null
