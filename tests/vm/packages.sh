#!/usr/bin/env bash
# usage: packages.sh FOLDER
# Builds the Debian packages of this tree, from a copy of it in FOLDER/source, into FOLDER.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/source"
cd "$1"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf source/* ./*.deb
tar -C "$project" -c --exclude=./build --exclude=./.git . | tar -C source -x
cd source
CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 DEB_BUILD_OPTIONS="noautodbgsym nostrip" \
    dpkg-buildpackage -b -us -uc -Pnocheck >"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
