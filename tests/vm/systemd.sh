#!/usr/bin/env bash
# usage: systemd.sh
# Builds the Debian packages and runs guest/systemd.py, which installs, uses and purges them, in a guest
# whose init is systemd. Root is needed; a few minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "$here/../../build")
"$here/packages.sh" "$build/packages"
"$here/systemd_root.sh" "$build/packages" "$build/vm-systemd/root"
script=$build/vm-systemd/script # in the project: the guest sees nothing else of this machine
echo "LC_ALL=C.UTF-8 exec timeout -k 5 ${VM_SECONDS:-400} /usr/bin/python3 '$here/guest/systemd.py'" > "$script"
"$here/boot.sh" systemd "${RKNND_VM_CACHE:-$build/vm}" "$script" "${VM_SECONDS:-400}" 2>&1 | stdbuf -oL tr -d '\033\r'
exit "${PIPESTATUS[0]}"
