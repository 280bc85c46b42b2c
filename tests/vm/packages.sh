#!/usr/bin/env bash
# usage: packages.sh FOLDER [COMMIT]
# Builds the Debian packages of this tree, or of a commit, from a copy in FOLDER/source, into FOLDER.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/source"
cd "$1"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf source/* ./*.deb
if [ -n "${2:-}" ]; then
    git -C "$project" archive "$2"
else
    tar -C "$project" -c --exclude=./build --exclude=./.git .
fi | tar -C source -x
cd source
if command -v ccache >/dev/null; then
    # By name, since debhelper builds with a HOME that is empty each time.
    CCACHE_DIR=$(ccache -k cache_dir) CCACHE_MAXSIZE=$(ccache -k max_size)
    export CCACHE_DIR CCACHE_MAXSIZE CMAKE_C_COMPILER_LAUNCHER=ccache
fi
CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 DEB_BUILD_OPTIONS=noautodbgsym \
    dpkg-buildpackage -b -us -uc -Pnocheck >"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
