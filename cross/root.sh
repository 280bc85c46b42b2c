#!/usr/bin/env bash
# usage: root.sh ARCHITECTURE VARIANT FOLDER PACKAGE…
# Unpacks (VARIANT: extract) or installs (minbase) packages of this machine's Debian release, and what
# they depend on, in FOLDER, unless they are there. What was asked for earlier stays; others who ask meanwhile wait.
set -euo pipefail
architecture=$1 variant=$2 folder=$3
shift 3
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
packages=$(printf '%s\n' "$@" | sort -u)
if [ -e "$folder/packages" ]; then
    [ -n "$(comm -23 - "$folder/packages" <<<"$packages")" ] || exit 0
    packages=$(sort -u - "$folder/packages" <<<"$packages")
fi

. /etc/os-release
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$VERSION_CODENAME" '$1 == suite { print $2; exit }')
new=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$new"' EXIT
# Who installs another architecture's sees to it that its programs run (emulate.sh).
mmdebstrap --variant="$variant" --architectures="$architecture" --skip=check/qemu --include="${packages//$'\n'/,}" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr "$VERSION_CODENAME" "$new/root" "$mirror" \
    >"$new/log" 2>&1 || { cat "$new/log" >&2; exit 1; }
# Packages' links are absolute, and would lead out of the folder.
find "$new/root" -xdev -type l -lname '/*' | while read -r link; do
    ln -snfr "$new/root$(readlink "$link")" "$link"
done
echo "$packages" > "$new/root/packages"
rm -rf "$folder"
mv "$new/root" "$folder"
