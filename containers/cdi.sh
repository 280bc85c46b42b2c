#!/bin/sh
# usage: cdi.sh [ROOT] >/etc/cdi/rknnd.json
# The devices of this board's NPU and its vendor's library as a CDI device, rockchip.com/npu=all, for `podman run --device`,
# containerd and Kubernetes. What the board does not have is not in it: a runtime starts no container with a device that is not
# there. ROOT: of another board's files.
set -eu
root=${1:-}
nodes=
for file in "$root"/dev/rknpu "$root"/dev/dri/card* "$root"/dev/dri/renderD* "$root"/dev/accel/accel* "$root"/dev/dma_heap/*; do
    [ -e "$file" ] || continue
    path=${file#"$root"}
    nodes="$nodes${nodes:+,
        }{\"path\": \"$path\", \"permissions\": \"rw\"}"
done
[ -n "$nodes" ] || { echo "cdi.sh: no NPU's device here: /dev/rknpu, /dev/dri, /dev/accel, /dev/dma_heap" >&2; exit 1; }
mounts=
for path in /usr/lib/librknnrt.so /usr/lib/aarch64-linux-gnu/librknnrt.so /usr/lib64/librknnrt.so /usr/lib/librknnmrt.so; do
    [ -e "$root$path" ] || continue
    mounts="$mounts${mounts:+,
        }{\"hostPath\": \"$path\", \"containerPath\": \"$path\", \"options\": [\"ro\", \"nosuid\", \"nodev\", \"bind\"]}"
done
groups=
for name in video render; do
    group=$(sed -n "s/^$name:[^:]*:\([0-9]*\):.*/\1/p" "$root/etc/group" 2>/dev/null || true)
    [ -z "$group" ] || groups="$groups${groups:+, }$group"
done
cat <<END
{
  "cdiVersion": "0.7.0",
  "kind": "rockchip.com/npu",
  "devices": [
    {
      "name": "all",
      "containerEdits": {
        "additionalGids": [$groups],
        "deviceNodes": [
        $nodes
        ],
        "mounts": [
        $mounts
        ]
      }
    }
  ]
}
END
