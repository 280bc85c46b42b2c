"""A real adbd on this machine with an adb server of its own, in namespaces in which /run is empty and nobody is disturbed."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

from support.service import BUILD, SOURCE, wait_for

PORT = 15037  # of the adb server
CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")  # of the network namespace
HERE, THERE = "10.0.0.1", "10.0.0.2"  # the ends of a link


def fetch_adbd():
    """Why there can be no real adbd; None when it is there."""
    if os.geteuid() != 0 or not shutil.which("adb") or not shutil.which("unshare"):
        return "root, adb and unshare are needed"
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    fetched = subprocess.run([SOURCE / "tests/vm/adbd.sh", BUILD / "adbd", architecture.strip()], capture_output=True, check=False)
    return "adbd could not be fetched from Debian's backports" if fetched.returncode else None


def run_inside(*words, **options):
    """Runs a program in new namespaces; there it makes an AdbBoard."""
    return subprocess.run(["unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", *map(str, words)],
                          check=False, **options).returncode


def adb(*words):
    return subprocess.run(["adb", *words], capture_output=True, text=True, check=False).stdout


def lay_link(mbit):
    """A network namespace "board" at the end of a link of this rate each way. As on a cable nothing is lost, and idle time is lost time."""
    burst = max(20 * mbit, 4000)  # bytes of 160 µs: what a late timer may make up for
    part = f"gso_max_size {burst // 2}"
    run("ip netns add board")
    run(f"ip link add near {part} type veth peer name far {part} netns board")
    run("ip -n board link set lo up")
    for place, end, address in ("", "near", HERE), ("-n board", "far", THERE):
        run(f"tc {place} qdisc add dev {end} root tbf rate {mbit}mbit burst {burst} limit 16mb")
        run(f"ip {place} address add {address}/24 dev {end}")
        run(f"ip {place} link set {end} up")


def run(command):
    subprocess.run(command.split(), check=True)


def enter(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
        raise OSError(ctypes.get_errno(), "setns")


class AdbBoard:
    """adbd and adb server; this process's environment says where that is. They talk over loopback, or a link of so many Mbit/s."""

    def __init__(self, link=None):
        run("ip link set lo up")
        run("mount -t tmpfs run /run")
        os.mkdir("/run/rknnd")
        if link:
            lay_link(link)
        self.network = "/run/netns/board" if link else "/proc/self/ns/net"
        self.name = f"{THERE if link else '127.0.0.1'}:5555"
        self.uri = f"adb:{self.name}"  # the server now and then finds the board a second time, as an emulator
        self.home = tempfile.TemporaryDirectory()
        os.environ.update(HOME=self.home.name, ANDROID_ADB_SERVER_PORT=str(PORT), ADB_LOCAL_TRANSPORT_MAX_PORT="5553")
        root = BUILD / "adbd/root/usr/lib"
        libraries, = root.glob("*/android")
        control = CONTROL.read_text()
        with self.there():
            if link:
                CONTROL.write_text(control)  # a new namespace has the system's
            self.adbd = subprocess.Popen([root / "android-sdk/platform-tools/adbd"], stderr=subprocess.DEVNULL,
                                         env=dict(os.environ, LD_LIBRARY_PATH=str(libraries)))
        adb("start-server")
        wait_for("adbd", lambda: adb("connect", self.name).startswith("connected"))
        wait_for("the board", lambda: f"{self.name}\tdevice" in adb("devices"))

    @contextlib.contextmanager
    def there(self):
        """Sockets that this thread makes meanwhile, and programs that it starts, are in the board's network."""
        with open("/proc/self/ns/net", "rb") as before, open(self.network, "rb") as board:
            enter(board)
            try:
                yield
            finally:
                enter(before)

    def stop(self):
        adb("kill-server")
        self.adbd.kill()
        self.adbd.wait()
        self.home.cleanup()
