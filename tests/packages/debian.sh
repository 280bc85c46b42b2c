#!/usr/bin/env bash
# usage: debian.sh [--depends] SUITE FOLDER ARCHITECTURE PACKAGE…
# Each package of Debian's SUITE (a name, or a pattern of which the newest is taken) is unpacked into FOLDER/root; with
# --depends names alone, and what they depend on, too. C's and C++'s libraries are left out where this machine's are
# newer. The mirror is the machine's own, of its first source; the machine's lists are left alone.
set -euo pipefail
depends=
[ "$1" != --depends ] || { depends=1 && shift; }
suite=$1 folder=$(realpath -m "$2") architecture=$3
shift 3
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/root"

awk -v suite="$suite" '/^Signed-By:/ && !s { s = $2 } /^URIs:/ && !u { u = $2 }
     END { printf "deb [signed-by=%s] %s %s main\n", s, u, suite }' \
    /etc/apt/sources.list.d/debian.sources > "$folder/apt/sources.list"

options=(-o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache::archives="$folder/apt/archives"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Architecture="$architecture"
    -o APT::Architectures="$architecture" -o APT::Sandbox::User=root)
apt-get "${options[@]}" -qq update

if [ "$depends" ]; then
    apt-get "${options[@]}" -o Dir::State::status=/dev/null -o Debug::NoLocking=1 -qq --yes --no-install-recommends \
        --download-only install "$@"
else
    for pattern in "$@"; do
        name=$(apt-cache "${options[@]}" pkgnames | grep -xE "$pattern" | sort -V | tail -n 1 || true)
        [ -n "$name" ] || { echo "no package $pattern in $suite" >&2; exit 1; }
        (cd "$folder/apt/archives" && apt-get "${options[@]}" -qq download "$name")
    done
fi

# Whether this machine's package of the name is newer.
is_older() {
    dpkg --compare-versions "$(dpkg-deb -f "$2" Version)" lt "$(dpkg-query -W -f '${Version}' "$1:$architecture" 2>/dev/null)"
}

for package in "$folder"/apt/archives/*.deb; do
    name=$(dpkg-deb -f "$package" Package)
    case $name in
    libc6 | libgcc-s1 | libstdc++6) is_older "$name" "$package" && continue ;;
    esac
    dpkg-deb -x "$package" "$folder/root"
done
rm -rf "$folder/apt"
