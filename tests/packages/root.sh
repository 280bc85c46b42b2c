#!/usr/bin/env bash
# usage: root.sh FOLDER PACKAGE.deb…
# FOLDER/mirror: an empty Debian of this machine's release and what the PACKAGEs depend on, as a source for
# apt (what is there already is not fetched again); FOLDER/base: the empty Debian, made from it. Root is
# needed.
set -euo pipefail
mkdir -p "$1/mirror/partial"
folder=$(realpath "$1")
shift
work=$(mktemp -d) # apt's sources have no spaces
trap 'rm -rf "$work"' EXIT
ln -s "$folder/mirror" "$work/mirror"
touch "$work/status"
mkdir -p "$work/lists/partial"

options=(-qq -y -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work/mirror" -o Debug::NoLocking=1
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root -o APT::Install-Recommends=no
    -o APT::Keep-Downloaded-Packages=yes -o APT::Update::Post-Invoke::= -o DPkg::Post-Invoke::=)
get() {
    local name
    # What this machine has in its cache.
    apt-get "${options[@]}" "$@" install --print-uris '?essential' apt usr-is-merged "${packages[@]}" >"$work/uris" || return
    awk '{ print $2 }' "$work/uris" | while read -r name; do
        [ -e "$work/mirror/$name" ] || cp "/var/cache/apt/archives/$name" "$work/mirror/" 2>/dev/null || true
    done
    apt-get "${options[@]}" "$@" install --download-only '?essential' apt usr-is-merged "${packages[@]}" >/dev/null
}
packages=()
for package in "$@"; do
    packages+=("$(realpath "$package")")
done
# With the lists that this machine has; they may be old, or none.
get 2>"$work/log" || {
    fresh=(-o Dir::State::lists="$work/lists")
    apt-get "${options[@]}" "${fresh[@]}" update && get "${fresh[@]}"
} 2>>"$work/log" || { cat "$work/log" >&2; exit 1; }
(cd "$folder/mirror" && dpkg-scanpackages -m . >Packages 2>/dev/null)

[ ! -e "$folder/base" ] || exit 0
mmdebstrap --variant=apt --dpkgopt=force-unsafe-io --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr '' "$work/root" \
    "deb [trusted=yes] copy:$work/mirror ./" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cp -a "$work/root" "$folder/base.new"
mv "$folder/base.new" "$folder/base"
