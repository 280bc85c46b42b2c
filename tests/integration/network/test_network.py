"""Servers that announce themselves: a board and a PC, each in a network of its own with a real Avahi, joined by a cable.

All of it lives in namespaces, so that nobody's network, D-Bus or Avahi is touched."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support.namespaces import run_inside
from support.service import BUILD, PATIENCE, processes, wait_for

PORT = 8910
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>unix:path={path}</listen><auth>EXTERNAL</auth><policy context="default"><allow user="*"/>
<allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/><allow send_type="method_return"/>
<allow send_type="error"/><allow receive_type="method_call"/><allow receive_type="signal"/>
<allow receive_type="method_return"/><allow receive_type="error"/></policy></busconfig>"""
SERVICE = """<?xml version="1.0" standalone='no'?><!DOCTYPE service-group SYSTEM "avahi-service.dtd">
<service-group><name>{name}</name><service><type>_rknnd._tcp</type><port>{port}</port>
<txt-record>chip=rk3588\u202e,=1+1</txt-record><txt-record>tls=no</txt-record></service></service-group>"""
SILENT = """import socket, time
all = [socket.create_server(("", 9000 + n)) for n in range(20)]
print("ready", flush=True)
time.sleep(3600)"""
AVAHI = """[server]
host-name={name}
enable-dbus=yes
use-ipv4=yes
use-ipv6=yes
[publish]
publish-workstation=no
[wide-area]
enable-wide-area=no
"""


class Machine:
    """A host with a bus and Avahi: the processes of a network namespace."""

    def __init__(self, name, interface, address):
        self.name, self.folder = name, pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        bus = self.folder / "bus"
        self.env = {key: value for key, value in os.environ.items() if key not in ("RKNND_SERVER", "XDG_RUNTIME_DIR")}
        self.env["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={bus}"
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", address, "dev", interface)
        self.run("sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{interface}/accept_dad")
        self.run("ip", "link", "set", interface, "up")
        (self.folder / "bus.conf").write_text(BUS.format(path=bus))
        (self.folder / "avahi.conf").write_text(AVAHI.format(name=name))
        self.bus = self.start("dbus-daemon", f"--config-file={self.folder}/bus.conf", "--nofork", "--nopidfile")
        wait_for("the bus", bus.exists)
        self.start_avahi()

    def command(self, *words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words, check=True):
        return subprocess.run(self.command(*words), check=check, capture_output=True, text=True, timeout=PATIENCE,
                              env=self.env)

    def start(self, *words, **options):
        return subprocess.Popen(self.command(*words), env=self.env, stdin=subprocess.DEVNULL,
                                **{"stderr": subprocess.DEVNULL, **options})

    def start_avahi(self):
        """It wants a /run of its own, and announces what is in its folder."""
        script = "mkdir -p /run/avahi-daemon && mount -t tmpfs run /run/avahi-daemon && mount --bind \"$1\" /etc/avahi/services && shift && exec \"$@\""
        services = self.folder / "services"
        services.mkdir(exist_ok=True)
        self.avahi = self.start("unshare", "--mount", "sh", "-c", script, "-", services, "avahi-daemon", "--no-drop-root",
                                "--no-chroot", "--no-rlimits", "--file", self.folder / "avahi.conf",
                                stdout=subprocess.DEVNULL)
        wait_for("Avahi", lambda: subprocess.run(["dbus-send", "--system", "--print-reply", "--dest=org.freedesktop.Avahi",
                 "/", "org.freedesktop.Avahi.Server.GetState"], env=self.env, capture_output=True, check=False).returncode == 0)

    def stop_avahi(self):
        self.avahi.terminate()
        self.avahi.wait(PATIENCE)

    def stop(self):
        for process in (self.avahi, self.bus):
            process.terminate()
            process.wait(PATIENCE)
        shutil.rmtree(self.folder)

    def devices(self, *words):
        return self.run(BUILD / "bin/rknnctl", "devices", "--network", *words, check=False)

    def found(self):
        """What `rknnctl devices` finds on the network, by name."""
        done = self.devices("--json")
        return {d["name"]: d for d in json.loads(done.stdout or "[]") if "name" in d}


class Daemon:
    def __init__(self, machine, *words):
        self.log = machine.folder / "rknnd.log"
        with open(self.log, "wb") as log:
            self.process = machine.start(BUILD / "bin/rknnd", "--backend", "null:64:64", "--announce", *words, stderr=log)
        wait_for("rknnd", lambda: self.process.poll() is not None or "listening on" in self.said())

    def said(self):
        return self.log.read_text()

    def wait_for(self, words):
        wait_for(lambda: f"{words} in {self.said()}", lambda: words in self.said())

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def helpers():
    """Processes that announce, of any daemon in these namespaces."""
    return processes(lambda line: b"rknnd-announce" in line)


class Network(unittest.TestCase):
    """Inside of the namespaces."""

    @classmethod
    def setUpClass(cls):
        subprocess.run(["mount", "-t", "tmpfs", "run", "/run"], check=True)
        subprocess.run(["ip", "link", "add", "toboard", "type", "veth", "peer", "name", "topc"], check=True)
        for name, interface in (("board", "topc"), ("pc", "toboard")):
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "link", "set", interface, "netns", name], check=True)
        cls.board = Machine("board", "topc", "10.1.2.3/24")
        cls.pc = Machine("pc", "toboard", "10.1.2.4/24")

    @classmethod
    def tearDownClass(cls):
        cls.board.stop()
        cls.pc.stop()

    def announce(self, *words, established=True):
        daemon = Daemon(self.board, *words)
        self.addCleanup(daemon.stop)
        if established:
            daemon.wait_for("announced on the network as ")
        return daemon

    def watch(self):
        watcher = self.pc.start(BUILD / "bin/rknnctl", "devices", "--network", "--watch", stdout=subprocess.PIPE)
        self.addCleanup(watcher.communicate)
        self.addCleanup(watcher.terminate)
        return watcher

    def test_found_and_used(self):
        self.board.env["SERVICE_TOKEN"] = "secret"
        self.addCleanup(self.board.env.pop, "SERVICE_TOKEN")
        daemon = self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure")
        wait_for("the board to be found", lambda: "board" in self.pc.found())
        helper, = helpers()  # which hears the network: what the service was told is not for it
        self.assertNotIn(b"SERVICE_TOKEN", pathlib.Path(f"/proc/{helper}/environ").read_bytes())
        device = self.pc.found()["board"]
        self.assertEqual((device["uri"], device["state"], device["backend"]), (f"tcp:10.1.2.3:{PORT}", "up", "null"))
        self.assertIn("board", self.pc.devices().stdout)
        self.assertEqual(self.pc.run(BUILD / "bin/rknnctl", "--server", device["uri"], "ping").returncode, 0)
        self.assertNotIn("name", self.pc.run(BUILD / "bin/rknnctl", "--server", device["uri"], "devices", "--json").stdout)
        self.assertEqual(daemon.stop(), 0)
        wait_for("it to be gone", lambda: not self.pc.found())
        self.assertEqual(helpers(), [])

    def test_with_tls(self):
        keys = self.board.folder / "keys"
        keys.touch(0o600)
        keys.write_text("alice:" + "0f" * 16 + "\n")
        self.announce("--listen", f"tls:0.0.0.0:{PORT + 1}", "--tls-psk-file", keys)
        wait_for("the board", lambda: "board" in self.pc.found())
        device = self.pc.found()["board"]
        self.assertEqual((device["uri"], device["state"]), (f"tls:10.1.2.3:{PORT + 1}", "tls"))
        self.assertIn("rknnctl pair HOST makes one", device["reason"])
        self.assertIn("rknnctl pair HOST", self.pc.devices().stderr)
        self.pc.env["RKNND_TLS_PSK_FILE"] = str(keys)
        self.addCleanup(self.pc.env.pop, "RKNND_TLS_PSK_FILE")
        self.assertEqual(self.pc.found()["board"]["state"], "up")

    def test_what_is_said_before(self):
        self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure", "--backend", "sim:rk3566")
        wait_for("the board", lambda: "board" in self.pc.found())
        self.assertEqual(self.watch().stdout.readline(), b"+ tcp:10.1.2.3:8910  board  rk3566\n")

    def test_two_of_one_host(self):
        self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure")
        self.announce("--listen", f"tcp:0.0.0.0:{PORT + 1}", "--insecure")
        wait_for("both", lambda: {n: d["uri"] for n, d in self.pc.found().items()} ==
                 {"board": "tcp:10.1.2.3:8910", "board #2": "tcp:10.1.2.3:8911"})

    def test_ipv6(self):
        self.announce("--listen", f"tcp:[::]:{PORT}", "--insecure")
        wait_for("the board", lambda: "board" in self.pc.found())
        device = self.pc.found()["board"]
        self.assertRegex(device["uri"], r"^tcp:\[fe80::[0-9a-f:]+%toboard\]:8910$")
        self.assertEqual(device["state"], "up")

    def test_several_addresses_are_one_server(self):
        self.announce("--listen", f"tcp:10.1.2.3:{PORT}", "--listen", f"tcp:[::]:{PORT}", "--listen", "tcp:127.0.0.1:8911",
                      "--listen", f"tcp:0.0.0.0:{PORT + 2}", "--insecure")
        wait_for("the board", lambda: {n: d["uri"] for n, d in self.pc.found().items()} == {"board": "tcp:10.1.2.3:8912"})

    def test_neighbours_that_lie(self):
        """Twenty that are announced and never say a word, with names that are no names."""
        listening = self.board.start(sys.executable, "-c", SILENT, stdout=subprocess.PIPE)
        self.addCleanup(listening.communicate)
        self.addCleanup(listening.kill)
        self.assertEqual(listening.stdout.readline(), b"ready\n")
        names = ["\u202eevil", "\u202d\u2066x", "csv", "é" * 31, "a" * 62 + "x", "=1+1"] + [f"silent {i}" for i in range(14)]
        for n, name in enumerate(names):
            (self.board.folder / f"services/{n}.service").write_text(SERVICE.format(name=name, port=9000 + n), encoding="utf-8")
        self.addCleanup(self.board.start_avahi)
        self.addCleanup(self.board.stop_avahi)
        self.addCleanup(lambda: [p.unlink() for p in (self.board.folder / "services").iterdir()])
        self.board.stop_avahi()
        self.board.start_avahi()
        self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure")
        wait_for("the board", lambda: len(self.pc.found()) > len(names) // 2 and "board" in self.pc.found())
        found = self.pc.found()
        self.assertEqual(found["board"]["state"], "up")
        self.assertEqual({d["state"] for name, d in found.items() if name != "board"}, {"down"})
        self.assertFalse([name for name in found if any(c in "\u202e\u202d\u2066\ufffd" or ord(c) < 32 for c in name)])
        self.assertIn("?evil", found)

    def test_watching(self):
        watcher = self.watch()
        for number in (signal.SIGTERM, signal.SIGKILL):
            daemon = self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure")
            self.assertEqual(watcher.stdout.readline(), b"+ tcp:10.1.2.3:8910  board  null\n")
            daemon.stop(number)
            self.assertEqual(watcher.stdout.readline(), b"- tcp:10.1.2.3:8910\n")
        wait_for("the helper to end with its daemon", lambda: not helpers())

    def test_avahi_comes_and_goes(self):
        self.board.stop_avahi()
        daemon = self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure", established=False)
        daemon.wait_for("is avahi-daemon installed")
        self.board.start_avahi()
        daemon.wait_for("announced on the network as board")
        self.board.stop_avahi()
        daemon.wait_for("is avahi-daemon installed")
        self.board.start_avahi()
        wait_for("the board", lambda: "board" in self.pc.found())

    def test_avahi_that_hangs_holds_up_nobody(self):
        self.board.avahi.send_signal(signal.SIGSTOP)
        self.addCleanup(self.board.avahi.send_signal, signal.SIGCONT)
        daemon = self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure", established=False)
        self.assertEqual(self.board.run(BUILD / "bin/rknnctl", "--server", "tcp:127.0.0.1", "ping").returncode, 0)
        self.assertEqual(daemon.stop(), 0)

    def test_the_helper_dies(self):
        daemon = self.announce("--listen", f"tcp:0.0.0.0:{PORT}", "--insecure")
        helper, = helpers()
        os.kill(helper, signal.SIGKILL)
        daemon.wait_for("not announced any more")
        self.assertEqual(self.board.run(BUILD / "bin/rknnctl", "--server", "tcp:127.0.0.1", "ping").returncode, 0)
        wait_for("another helper to announce it", lambda: daemon.said().count("announced on the network as ") == 2)
        self.assertNotIn(helper, helpers())
        wait_for("the board to be found", lambda: "board" in self.pc.found())
        self.assertEqual(daemon.stop(), 0)

    def test_no_avahi_to_ask(self):
        self.pc.stop_avahi()
        done = self.pc.devices()
        self.pc.start_avahi()
        self.assertEqual(done.returncode, 3)
        self.assertIn("avahi-daemon", done.stderr)

    def test_nothing_to_announce(self):
        for words in (("--listen", f"tcp:127.0.0.1:{PORT}"), ("--listen", "unix:/run/x.sock")):
            daemon = self.announce(*words, established=False)
            self.assertEqual(daemon.stop(), 2)
            self.assertIn("other machines can reach none", daemon.said())


class Outside(unittest.TestCase):
    def test_network(self):
        run_inside(self, __file__, "Network", tools=("dbus-daemon", "dbus-send", "avahi-daemon"))


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1:] or ["Outside"], argv=sys.argv[:1], verbosity=2)
