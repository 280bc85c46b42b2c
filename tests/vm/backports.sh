#!/usr/bin/env bash
# usage: backports.sh FOLDER ARCHITECTURE PACKAGE…
# Each package (a name, or a pattern of which the newest is taken) is unpacked into FOLDER. The
# package sources are the machine's own, with "-backports" added to the suite; the machine's lists
# are left alone.
set -euo pipefail
folder=$(realpath -m "$1") architecture=$2
shift 2
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/root"

# Only the mirror of the first source: security and updates have no backports.
awk '/^Signed-By:/ && !s { s = $2 } /^URIs:/ && !u { u = $2 } /^Suites:/ && !v { v = $2 }
     END { printf "deb [signed-by=%s] %s %s-backports main\n", s, u, v }' \
    /etc/apt/sources.list.d/debian.sources > "$folder/apt/sources.list"

options=(-o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache::archives="$folder/apt/archives"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Architecture="$architecture"
    -o APT::Architectures="$architecture" -o APT::Sandbox::User=root)
apt-get "${options[@]}" -qq update

for pattern in "$@"; do
    name=$(apt-cache "${options[@]}" pkgnames | grep -xE "$pattern" | sort -V | tail -n 1 || true)
    [ -n "$name" ] || { echo "no package $pattern in backports" >&2; exit 1; }
    (cd "$folder/apt/archives" && apt-get "${options[@]}" -qq download "$name")
    dpkg-deb -x "$folder"/apt/archives/"${name}"_*.deb "$folder/root"
done
