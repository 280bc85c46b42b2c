#!/usr/bin/env bash
# usage: sysroot.sh ARCHITECTURE [PACKAGE…]
# Unpacks Debian's packages of another architecture that rknnd is built with (debian/control), and
# PACKAGEs, into build/sysroot-ARCHITECTURE, unless they are there. Nothing is installed on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=$1
shift
root=build/sysroot-$architecture
packages=$(sed -n '/^Build-Depends:/,/^$/{s/^ \([^ ,]*\(-dev\|-headers\)\)\b.*/\1/p}' debian/control | grep -v '^libclang')
packages=$(printf '%s\n' $packages "$@" | sort -u)
[ -e "$root/packages" ] && [ -z "$(comm -23 - "$root/packages" <<<"$packages")" ] && exit

. /etc/os-release
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$VERSION_CODENAME" '$1 == suite { print $2; exit }')
mkdir -p build
new=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$new"' EXIT
mmdebstrap --variant=extract --architectures="$architecture" --include="${packages//$'\n'/,}" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr "$VERSION_CODENAME" "$new/root" "$mirror" \
    >"$new/log" 2>&1 || { cat "$new/log" >&2; exit 1; }
# Packages' links are absolute, and would lead out of the folder.
find "$new/root" -xdev -type l -lname '/*' | while read -r link; do
    ln -snfr "$new/root$(readlink "$link")" "$link"
done
echo "$packages" > "$new/root/packages"
rm -rf "$root"
mv "$new/root" "$root"
