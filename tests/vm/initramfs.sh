#!/usr/bin/env bash
# usage: initramfs.sh KERNEL_ROOT OUT [BUSYBOX]
# The first root of a guest: busybox, the modules that the tests need, and an init that continues on
# the base that the host shares (read-only by 9p, under a tmpfs overlay) with the script that the
# kernel's command line names (guest=PATH). What the host shares as "project", if it does, is found at
# project=PATH. The script's exit code goes to /mnt/rc on the last, writable share.
set -euo pipefail
kernel_root=$1 out=$2 busybox=${3:-$(command -v busybox)}
version=$(ls "$kernel_root/lib/modules")
modules="virtio_pci 9pnet_virtio 9p overlay libcomposite usb_f_fs dummy_hcd vgem drm_shmem_helper udmabuf virtio_net"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/{bin,dev,proc,sys,new} "$root/lib/modules/$version"
cp "$busybox" "$root/bin/busybox"
depmod -b "$kernel_root" "$version"
for module in $modules; do
    modprobe -d "$kernel_root" -S "$version" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" { print $2 }' || true
done | sort -u | while read -r file; do
    to="$root/lib/modules/$version/kernel/${file#*/kernel/}"
    mkdir -p "$(dirname "$to")"
    case $file in
        *.xz) xz -dc "$file" > "${to%.xz}" ;;
        *) cp "$file" "$to" ;;
    esac
done
cp "$kernel_root/lib/modules/$version/"modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$version/"
depmod -b "$root" "$version"

cat > "$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in virtio_pci 9pnet_virtio 9p overlay; do modprobe $module; done
mkdir /base /upper
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=1048576,cache=loose base /base
mount -t tmpfs upper /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/base,upperdir=/upper/data,workdir=/upper/work root /new
project=$(sed -n 's/.*project=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -n "$project" ]; then
    mkdir -p "/new$project"
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=1048576,cache=loose project "/new$project"
fi
mkdir -p /new/dev /new/proc /new/sys /new/run
for folder in dev proc sys; do mount --move /$folder /new/$folder; done
mkdir -p /new/dev/shm /new/dev/pts /new/mnt /new/lib/modules
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576 results /new/mnt
cp -a /lib/modules/* /new/lib/modules/
mkdir -p /new/run/vm/bin
cp /bin/busybox /new/run/vm/
cat > /new/run/vm/init <<'SECOND'
#!/bin/bash
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/vm/bin
cd /
/run/vm/busybox --install -s /run/vm/bin
/run/vm/busybox ifconfig lo 127.0.0.1 up
: > /mnt/begun
bash "$(sed -n 's/.*guest=\([^ ]*\).*/\1/p' /proc/cmdline)"
echo $? > /mnt/rc
sync
/run/vm/busybox poweroff -f
SECOND
chmod +x /new/run/vm/init
if grep -q ' systemd ' /new/proc/cmdline; then
    mkdir -p /new/run/systemd/system/multi-user.target.wants
    cat > /new/run/systemd/system/guest.service <<'UNIT'
[Service]
ExecStart=/run/vm/init
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
UNIT
    ln -s ../guest.service /new/run/systemd/system/multi-user.target.wants/
    exec switch_root /new /lib/systemd/systemd
fi
exec switch_root /new /run/vm/init
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$out"
