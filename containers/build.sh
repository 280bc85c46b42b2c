#!/usr/bin/env bash
# usage: build.sh PACKAGES LAYOUT [ARCHITECTURE]
# Makes images of the daemon and of the client, of the Debian packages in the folder PACKAGES: LAYOUT becomes an OCI layout with
# the tags "daemon" and "client", which skopeo, podman and containerd import. Root is needed, mmdebstrap and umoci.
set -euo pipefail
packages=$(realpath "$1") layout=$(realpath -m "$2") architecture=${3:-$(dpkg --print-architecture)}
user=971 # rknnd's, in all images: volumes with sockets are shared by it
. /etc/os-release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$VERSION_CODENAME" '$1 == suite { print $2; exit }')

# root NAME PACKAGE…: a Debian with these of ours and what they depend on, in $work/NAME.
root() {
    local name=$1 files=() p
    shift
    for p in "$@"; do
        files+=("$packages/${p}"_*.deb)
    done
    mmdebstrap --variant=apt --architectures="$architecture" --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --customize-hook="chroot \"\$1\" groupadd -r -g $user rknnd" \
        --customize-hook="chroot \"\$1\" useradd -r -u $user -g $user -d / -s /usr/sbin/nologin rknnd" \
        --customize-hook="mkdir \"\$1/packages\" && cp ${files[*]} \"\$1/packages/\"" \
        --customize-hook='chroot "$1" sh -c "apt-get install -y -qq --no-install-recommends /packages/*.deb"' \
        --customize-hook='rm -rf "$1/packages" "$1/var/lib/apt/lists"/* "$1/var/cache/apt"/*' \
        "$VERSION_CODENAME" "$work/$name" "$mirror" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

# image TAG ROOT OPTION…: of umoci-config.
image() {
    local tag=$1 root=$2
    shift 2
    install -d -o "$user" -g "$user" "$root/run/rknnd" "$root/var/lib/rknnd" # mmdebstrap empties /run
    install -d -o "$user" -g "$user" -m 700 "$root/var/lib/rknnd/models"
    umoci new --image "$layout:$tag"
    umoci insert --image "$layout:$tag" "$root" /
    umoci config --image "$layout:$tag" --architecture "$architecture" --config.user "$user:$user" \
        --config.label "org.opencontainers.image.title=rknnd $tag" --clear=config.cmd "$@"
}

rm -rf "$layout"
umoci init --layout "$layout"
modules=(rknnd)
! ls "$packages"/rknnd-npu-sim_*.deb >/dev/null 2>&1 || modules+=(rknnd-npu-sim)
root daemon "${modules[@]}"
image daemon "$work/daemon" --config.volume /run/rknnd --config.entrypoint /usr/bin/rknnd \
    --config.cmd --config --config.cmd /etc/rknnd.conf --config.cmd --listen --config.cmd unix:/run/rknnd/rknnd.sock \
    --config.cmd --socket-group --config.cmd rknnd
root client librknnrt-rknnd rknnd-tools python3-rknnd
image client "$work/client" --config.entrypoint /usr/bin/rknnctl --config.cmd doctor \
    --config.env LD_LIBRARY_PATH="$(cd "$work/client" && echo /usr/lib/*/rknnd/client)" \
    --config.env PYTHONPATH="$(chroot "$work/client" python3 -m rknnd.compat --path)" \
    --config.env RKNND_SERVER=unix:/run/rknnd/rknnd.sock
umoci gc --layout "$layout"
umoci ls --layout "$layout"
