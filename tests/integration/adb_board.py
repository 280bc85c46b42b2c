"""A real adbd on this machine with an adb server of its own, in namespaces in which /run is empty and nobody is disturbed."""
import os
import shutil
import subprocess
import tempfile

from service import BUILD, SOURCE, wait_for

PORT = 15037  # of the adb server
BOARD = "127.0.0.1:5555"
URI = f"adb:{BOARD}"  # the server now and then finds the board a second time, as an emulator


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


class AdbBoard:
    """adbd and adb server; this process's environment says where that is."""

    def __init__(self):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "run", "/run"], check=True)
        os.mkdir("/run/rknnd")
        self.home = tempfile.TemporaryDirectory()
        os.environ.update(HOME=self.home.name, ANDROID_ADB_SERVER_PORT=str(PORT), ADB_LOCAL_TRANSPORT_MAX_PORT="5553")
        root = BUILD / "adbd/root/usr/lib"
        libraries, = root.glob("*/android")
        self.adbd = subprocess.Popen([root / "android-sdk/platform-tools/adbd"], stderr=subprocess.DEVNULL,
                                     env=dict(os.environ, LD_LIBRARY_PATH=str(libraries)))
        adb("start-server")
        wait_for("adbd", lambda: adb("connect", BOARD).startswith("connected"))
        wait_for("the board", lambda: f"{BOARD}\tdevice" in adb("devices"))

    def stop(self):
        adb("kill-server")
        self.adbd.kill()
        self.adbd.wait()
        self.home.cleanup()
