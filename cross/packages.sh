#!/usr/bin/env bash
# usage: packages.sh ARCHITECTURE
# Builds the Debian packages that depend on it for another architecture (arm64) into build/packages-ARCHITECTURE. What it takes
# is installed in a layer over this machine's root, which is gone afterwards; what was installed is kept in
# build/packages-ARCHITECTURE/layer, for as long as this machine's packages and debian/control stay as they are.
# Root is needed. 77: Debian's packages are out of reach.
set -euo pipefail
if [ "${2:-}" != inside ]; then
    architecture=$1
    cd "$(dirname "$0")/.."
    mkdir -p "build/packages-$architecture/layer"
    exec unshare --mount --pid --fork --kill-child --mount-proc "cross/${0##*/}" "$architecture" inside "$PWD/build/packages-$architecture"
fi
architecture=$1 out=$3
project=$(cd "$(dirname "$0")/.." && pwd)
state=$({ cat /var/lib/dpkg/status "$project/debian/control" "$0" && dpkg --print-foreign-architectures; } | sha256sum)
kept=$out/layer/${state%% *}.tar
layer=$(mktemp -d)
mount -t tmpfs layer "$layer"
mkdir "$layer"/{upper,work,root}
root=$layer/root
# An overlay's own marks (what is deleted, what hides a folder below) are devices and attributes.
packed=(--xattrs --xattrs-include='*' --numeric-owner)
[ ! -e "$kept" ] || tar -C "$layer/upper" "${packed[@]}" -xf "$kept"
mount -t overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" root "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/build/source" "${CCACHE_DIR:-$HOME/.cache/ccache}"
mkdir -p "$root/ccache" && mount --bind "${CCACHE_DIR:-$HOME/.cache/ccache}" "$root/ccache"
tar -C "$project" -c --exclude=./build --exclude=./.git . | tar -C "$root/build/source" -x
export DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/ccache CCACHE_BASEDIR=/build/source CCACHE_NOHASHDIR=1
! command -v ccache >/dev/null || export CMAKE_C_COMPILER_LAUNCHER=ccache

# there COMMANDS: in the layer; what they say goes to the log, and is shown if they fail.
there() {
    chroot "$root" bash -euo pipefail -c "cd /build/source
        $1" >>"$out/log" 2>&1 || { code=$?; tail -n 50 "$out/log" >&2; exit $code; }
}

# A mirror may have security updates of one architecture and broken lists of another's, and libraries of both have to be
# of one version. So the layer goes back to what the release itself has.
as_released() {
    sed -i 's/^Suites: .*-security$/&\nEnabled: no/' /etc/apt/sources.list.d/debian.sources
    printf 'Package: *\nPin: release l=Debian\nPin-Priority: 1001\n' >/etc/apt/preferences.d/as-released
    apt-get -qq -o APT::Update::Error-Mode=any update && apt-get -y -qq --allow-downgrades dist-upgrade
}

rm -f "$out/log" "$out"/*.deb
if [ ! -e "$kept" ]; then
    there "$(declare -f as_released)
        echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/unsafe-io
        dpkg --add-architecture $architecture
        apt-get -qq -o APT::Update::Error-Mode=any update || as_released || exit 77
        dpkg --purge --force-depends libdnnl-dev # Debian has it for one architecture at a time
        apt-get -y -qq --no-install-recommends build-dep --arch-only -a$architecture -Pcross,nocheck ./
        apt-get clean"
    rm -f "$out"/layer/*
    tar -C "$layer/upper" "${packed[@]}" --exclude=./build --exclude=./ccache -cf "$kept.new" .
    mv "$kept.new" "$kept"
fi
there "RKNND_WERROR=${RKNND_WERROR:-OFF} DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -a$architecture -Pcross,nocheck -B -us -uc"
cp "$root"/build/*.deb "$out/"
ls "$out"/*.deb
