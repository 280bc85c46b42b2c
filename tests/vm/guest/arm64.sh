# In the arm64 guest: a board with rknnd and adbd. It ends when adb tells it to power off.
project=$(cd "$(dirname "$0")/../../.." && pwd)
adb=$project/build/vm-arm64/adbd/root
echo root:x:0:0:root:/root:/bin/sh > /etc/passwd
ln -s /run/vm/busybox /bin/sh # for adbd
modprobe virtio_net
ifconfig eth0 10.0.2.15 netmask 255.255.255.0
mkdir -p /run/rknnd
"$project/build/arm64/bin/rknnd" --listen tcp:0.0.0.0:8910 --insecure --listen unix:/run/rknnd/rknnd.sock &
daemon=$!
LD_LIBRARY_PATH=$(echo "$adb"/usr/lib/*/android) "$adb/usr/lib/android-sdk/platform-tools/adbd" 2>/dev/null &
trap 'kill $daemon' USR1
echo $$ > /run/board.pid
until wait $daemon; code=$?; [ $code -lt 128 ]; do :; done
exit $code
