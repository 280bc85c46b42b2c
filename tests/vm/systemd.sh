#!/usr/bin/env bash
# usage: systemd.sh [TEST…]
# Builds the Debian packages and runs guest/systemd.py, which installs, uses and purges them, in a guest
# whose init is systemd. Root is needed; a few minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "$here/../../build")
"$here/packages.sh" "$build/packages"
"$here/systemd_root.sh" "$build/packages" "$build/vm-systemd/root"
seconds=${VM_SECONDS:-1200} # of which a step may take a third, an installation for one, where others use the processors
mkdir -p "$build/vm-systemd/bombs"
kind=0
for name in memory threads; do
    cc -shared -fPIC -D_GNU_SOURCE -DBOMB=$kind -I "$here/../.." -I "$here/../../client/include" \
        "$here/../integration/hostile/bomb.c" -o "$build/vm-systemd/bombs/librkcst_$name.so"
    kind=$((kind + 1))
done
PYTHONPATH="$here/..:$here/../../npu/write" /usr/bin/python3 -c \
    "from conformance import models; models.custom().save('$build/vm-systemd/bombs/custom.rknn')"
script=$build/vm-systemd/script # in the project: the guest sees nothing else of this machine
echo "LC_ALL=C.UTF-8 RKNND_PATIENCE=$((seconds / 3)) exec timeout -k 5 $seconds /usr/bin/python3 '$here/guest/systemd.py' ${*@Q}" > "$script"
"$here/boot.sh" systemd "${RKNND_VM_CACHE:-$build/vm}" "$script" "$seconds" 2>&1 | stdbuf -oL tr -d '\033\r'
exit "${PIPESTATUS[0]}"
