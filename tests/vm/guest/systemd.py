"""In a guest whose init is systemd: the Debian packages, from their installation to their removal."""
import grp
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time
import unittest
import urllib.request

PROJECT = pathlib.Path(__file__).resolve().parents[3]
PACKAGES = sorted(map(str, (PROJECT / "build/packages").glob("*.deb")))
DIGITS = PROJECT / "examples/digits/digits.rknn"
BOMBS = PROJECT / "build/vm-systemd/bombs"
PLUGINS = pathlib.Path("/usr/lib/rknnd-bombs")
SOCKET = pathlib.Path("/run/rknnd/rknnd.sock")
CONFIG = pathlib.Path("/etc/rknnd.conf")
PATIENCE = int(os.environ.get("RKNND_PATIENCE", "150"))  # seconds: the processor is emulated


def run(*words, **options):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, timeout=PATIENCE, **options)


def must(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}"
    return done.stdout


def prop(name, unit="rknnd.service"):
    return must("systemctl", "show", "--value", "-p", name, unit).strip()


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"still waiting for {what}\n{run('journalctl', '-n', '30', '--no-pager').stdout}"
        time.sleep(0.1)


def ping(*groups, uri=f"unix:{SOCKET}"):
    """A round trip by a user who is in these groups."""
    return run("rknnctl", "--server", uri, "ping", "-n", "1", user="nobody", group="nogroup", extra_groups=groups)


def answers(*groups, **options):
    return ping(*groups, **options).returncode == 0


def files():
    """All that a package could leave behind."""
    found = set()
    for top in "/etc", "/usr", "/run/rknnd", "/run/systemd/system", "/var/lib/systemd", "/var/cache":
        for folder, folders, names in os.walk(top):
            found.update(os.path.join(folder, name) for name in (*folders, *names))
    return {f for f in found if not f.endswith("-") and "ldconfig" not in f} | {top for top in ["/run/rknnd"] if os.path.exists(top)}


class Packages(unittest.TestCase):
    def test_1_installed(self):
        Packages.before = files()
        must("dpkg", "-i", *PACKAGES)
        self.assertEqual(must("systemctl", "is-enabled", "rknnd.socket", "rknnd.service").split(), ["enabled", "enabled"])
        self.assertEqual(run("systemctl", "is-enabled", "rknnd-gadget.service").stdout.strip(), "disabled")
        self.assertEqual(must("systemctl", "--failed", "--no-legend", "--plain"), "")
        self.assertEqual((prop("ActiveState", "rknnd.socket"), prop("ActiveState")), ("active", "active"))

    def test_2_devices(self):
        """Its own are open to it; those that are not there are no matter for a warning."""
        heap = pathlib.Path("/dev/dma_heap/system").stat()
        self.assertEqual((grp.getgrgid(heap.st_gid).gr_name, stat.S_IMODE(heap.st_mode)), ("video", 0o660))
        self.assertFalse(os.path.exists("/dev/rknpu"))
        good = CONFIG.read_text()
        CONFIG.write_text(good + "buffers = dma_heap\n")
        must("systemctl", "restart", "rknnd.service")
        self.assertIn("dma_heap system", must("rknnctl", "--server", f"unix:{SOCKET}", "info"))
        CONFIG.write_text(good)
        must("systemctl", "restart", "rknnd.service")
        warned = must("journalctl", "-b", "_PID=1", "-p", "warning", "--no-pager", "-o", "cat").splitlines()
        self.assertEqual([line for line in warned if "device" in line], [])

    def test_2_little_to_attack(self):
        for unit in "rknnd.service", "rknnd-gadget.service", "rknnd-gadget-bind.service", "rknnd-relay@1.service", "rknnd-kserve.service":
            must("systemd-analyze", "security", "--offline=yes", "--threshold=25", unit)

    def test_2_socket_belongs_to_the_group(self):
        s = SOCKET.stat()
        self.assertEqual((s.st_uid, grp.getgrgid(s.st_gid).gr_name, stat.S_IMODE(s.st_mode)), (0, "rknnd", 0o660))
        self.assertTrue(answers("rknnd"))
        refused = ping()
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("permission denied; make nobody a member of group rknnd", refused.stderr)

    def test_3_started_by_a_connection(self):
        must("systemctl", "stop", "rknnd.service")
        self.assertEqual(prop("ActiveState"), "inactive")
        done = ping("rknnd")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for("it to have said that it serves", lambda: prop("ActiveState") == "active")

    def test_4_runs_models_in_its_sandbox(self):
        must("rknnctl", "bench", DIGITS, "-n", "3", user="nobody", group="nogroup", extra_groups=["rknnd"])

    def program(self):
        """One that runs a model until it is told to end, through all that happens meanwhile."""
        client = subprocess.Popen(["rknnctl", "bench", DIGITS, "--duration", "600", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, user="nobody", group="nogroup", extra_groups=["rknnd"])
        self.addCleanup(client.kill)
        wait_for("it to run", lambda: client.poll() is not None or "jobs" in run("rknnctl", "stats").stdout)
        return client

    def ends_well(self, client):
        self.assertIsNone(client.poll(), client.poll() is not None and client.communicate())
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=PATIENCE)
        self.assertNotIn("rknn_", errors)
        self.assertIn(client.returncode, (0, 130, -signal.SIGINT), errors)

    def test_4_reloaded(self):
        """Each kind of option that can change while the service runs; a program that is there notices nothing."""
        good, pid = CONFIG.read_text(), prop("MainPID")
        self.addCleanup(CONFIG.write_text, good)
        client = self.program()
        keys, mine = pathlib.Path("/etc/rknnd.keys"), pathlib.Path("/tmp/keys")
        for file in keys, mine:
            self.addCleanup(file.unlink, missing_ok=True)
        for key in "11" * 32, "22" * 32:
            keys.write_text(f"anna:{key}\n")
            os.chown(keys, -1, grp.getgrnam("rknnd").gr_gid)
            keys.chmod(0o640)
            CONFIG.write_text(f"{good}\nlimit = uploads=33\nquota = *:contexts=7\nlog-level = debug\nplugin-dir = /usr/lib/rknnd-plugins\n"
                              f"listen = tcp:127.0.0.1:8910\nlisten = tls:127.0.0.1:8911\ntls-psk-file = {keys}\n")
            must("systemctl", "reload", "rknnd")
            mine.write_text(f"anna:{key}\n")
            mine.chmod(0o600)  # one that others may read is refused
            wait_for("the address and the key", lambda m=mine: run("rknnctl", "--server", "tls:127.0.0.1:8911", "ping", "-n", "1",
                                                                   env=dict(os.environ, RKNND_TLS_PSK_FILE=str(m))).returncode == 0)
        self.assertTrue(answers(uri="tcp:127.0.0.1:8910"))
        limits = must("rknnctl", "status", "--limits")
        self.assertRegex(limits, r"uploads +\S+ +33")
        self.assertRegex(limits, r"contexts +\d+ +7 +quota")
        said = must("journalctl", "-u", "rknnd.service", "--no-pager", "-o", "cat")
        for name in "limit", "quota", "log-level", "plugin-dir", "listen", "tls-psk-file":
            self.assertRegex(said, rf"changed: .*\b{name}\b", name)
        CONFIG.write_text(good + "\nnonsense = 3\n")
        self.assertNotEqual(run("systemctl", "reload", "rknnd").returncode, 0)
        self.assertTrue(answers(uri="tcp:127.0.0.1:8910"))
        CONFIG.write_text(good)
        must("systemctl", "reload", "rknnd")
        wait_for("the addresses to go", lambda: not answers(uri="tcp:127.0.0.1:8910"))
        self.assertEqual((prop("MainPID"), prop("ActiveState")), (pid, "active"))
        self.ends_well(client)

    def test_4_taken_over(self):
        """SIGUSR2: systemd follows to the new one, and whoever runs goes on."""
        client, old = self.program(), prop("MainPID")
        must("systemctl", "kill", "--kill-who=main", "-s", "USR2", "rknnd")
        wait_for("another process", lambda: prop("MainPID") not in (old, "0"))
        self.assertTrue(answers("rknnd"))
        self.assertTrue(pathlib.Path(f"/proc/{old}").exists(), "it has a program, which goes on")
        self.ends_well(client)
        wait_for("the old one to end", lambda: not pathlib.Path(f"/proc/{old}").exists())
        self.assertEqual((prop("ActiveState"), prop("NRestarts"), prop("Result")), ("active", "0", "success"))

    def explosive(self, kind, *limits):
        """The service with a plugin that takes all of something (hostile/bomb.c), and limits of its own. Its process."""
        good, drop_in = CONFIG.read_text(), pathlib.Path("/run/systemd/system/rknnd.service.d/bomb.conf")

        def restore():
            CONFIG.write_text(good)
            shutil.rmtree(PLUGINS)
            shutil.rmtree(drop_in.parent)
            must("systemctl", "daemon-reload")
            must("systemctl", "restart", "rknnd.service")
        PLUGINS.mkdir()
        drop_in.parent.mkdir()
        self.addCleanup(restore)
        shutil.copy(BOMBS / f"librkcst_{kind}.so", PLUGINS)
        drop_in.write_text("\n".join(["[Service]", *limits, ""]))
        CONFIG.write_text(f"{good}\nplugin-dir = {PLUGINS}\njob-timeout-ms = 600000\n")
        must("systemctl", "daemon-reload")
        must("systemctl", "restart", "rknnd.service")
        return prop("MainPID")

    @staticmethod
    def workers(pid):
        """Those that are ready: a worker has that name once it has its score."""
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [p for p in children if pathlib.Path(f"/proc/{p}/comm").read_text() == "rknnd-worker\n"]

    @staticmethod
    def said(*options):
        return must("journalctl", "-b", "--no-pager", "-o", "cat", *options)

    def lives_on(self, pid):
        self.assertEqual((prop("MainPID"), prop("ActiveState"), prop("Result")), (pid, "active", "success"))

    def test_4_memory_ends(self):
        """Of all that the unit has the kernel takes the worker whose plugin wants it, and systemd goes on with the rest."""
        pid = self.explosive("memory", "MemoryMax=200M", "MemorySwapMax=0")
        client = self.program()
        wait_for("a worker", lambda: self.workers(pid))
        scores = [int(pathlib.Path(f"/proc/{p}/oom_score_adj").read_text()) for p in (pid, *self.workers(pid))]
        self.assertEqual(scores, [-500, 1000])
        failed = run("rknnctl", "bench", BOMBS / "custom.rknn", "-n", "1", user="nobody", group="nogroup", extra_groups=["rknnd"])
        self.assertIn("its worker died by signal 9", failed.stderr)
        self.assertIn("its worker died by signal 9", self.said("-u", "rknnd.service"))
        killed = re.findall(r"Memory cgroup out of memory: Killed process \d+ \((.*?)\)", self.said("-k"))
        self.assertEqual(set(killed), {"rknnd-worker"})
        self.lives_on(pid)
        self.ends_well(client)

    def test_4_threads_end(self):
        """Workers cannot be seen in /proc here, and yet it is known who has taken all threads."""
        pid = self.explosive("threads", "TasksMax=150")
        client = self.program()
        bomb = subprocess.Popen(["rknnctl", "bench", BOMBS / "custom.rknn", "-n", "1"], stderr=subprocess.PIPE, text=True,
                                user="nobody", group="nogroup", extra_groups=["rknnd"])
        self.addCleanup(bomb.kill)
        other = pathlib.Path("/tmp/other.rknn")
        for n in range(2):  # its run is tried twice
            wait_for("all threads to be taken", lambda n=n: bomb.poll() is not None or self.said("-u", "rknnd.service").count("bomb: has all") > n)
            other.write_bytes(DIGITS.read_bytes() + bytes([n]))
            must("rknnctl", "bench", other, "-n", "1", user="nobody", group="nogroup", extra_groups=["rknnd"])
        self.assertRegex(bomb.communicate(timeout=PATIENCE)[1], r"it had \d+ threads, where a model is counted as \d+")
        self.lives_on(pid)
        self.ends_well(client)

    def ask(self, path, method="GET"):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:8000/v2/{path}", method=method), timeout=PATIENCE) as answer:
            return answer.read().decode()

    def test_4_to_a_served_model(self):
        """docs/board.md, on the software NPU; and a model that the daemon keeps."""
        must("rknnctl", "doctor", DIGITS)
        must("install", "-D", "-m", "644", DIGITS, "/var/lib/rknnd-kserve/models/digits.rknn")
        must("systemctl", "enable", "--now", "rknnd-kserve")
        wait_for("the model", lambda: run("journalctl", "-u", "rknnd-kserve", "--no-pager").stdout.count("is loaded"))
        self.assertIn('"versions":["1"]', self.ask("models/digits"))
        must("rknnctl", "model", "push", DIGITS, "kept")
        must("systemctl", "reload", "rknnd-kserve")
        wait_for("the one that was pushed", lambda: '"kept","version":"1","state":"READY"' in self.ask("repository/index", "POST"))
        must("systemctl", "restart", "rknnd")
        self.assertIn('"versions":["1"]', self.ask("models/kept"))
        os.kill(int(prop("MainPID", "rknnd-kserve")), signal.SIGKILL)
        wait_for("another front", lambda: prop("ActiveState", "rknnd-kserve") == "active" and prop("NRestarts", "rknnd-kserve") == "1")
        self.assertTrue(answers("rknnd"))
        must("systemctl", "disable", "--now", "rknnd-kserve")

    def test_5_not_ready_is_not_started(self):
        good = CONFIG.read_text()
        CONFIG.write_text(good + "backend = nonsense\n")
        self.assertNotEqual(run("systemctl", "restart", "rknnd.service").returncode, 0)
        self.assertIn("nonsense", must("journalctl", "-u", "rknnd.service", "--no-pager"))
        CONFIG.write_text(good)
        must("systemctl", "reset-failed", "rknnd.service", "rknnd.socket")
        must("systemctl", "restart", "rknnd.socket", "rknnd.service")
        self.assertTrue(answers("rknnd"))

    def replaced_after(self, signal_number):
        pid, before = int(prop("MainPID")), int(prop("NRestarts"))
        self.assertGreater(pid, 0)
        os.kill(pid, signal_number)
        wait_for("another process", lambda: int(prop("NRestarts")) > before and prop("ActiveState") == "active")
        self.assertNotEqual(int(prop("MainPID")), pid)
        self.assertTrue(answers("rknnd"))

    def test_6_killed(self):
        self.replaced_after(signal.SIGKILL)

    def test_7_stuck(self):
        drop_in = pathlib.Path("/run/systemd/system/rknnd.service.d/watchdog.conf")
        drop_in.parent.mkdir()
        drop_in.write_text("[Service]\nWatchdogSec=3\n")
        must("systemctl", "daemon-reload")
        must("systemctl", "restart", "rknnd.service")
        self.replaced_after(signal.SIGSTOP)
        self.assertIn("Watchdog timeout", must("journalctl", "-u", "rknnd.service", "--no-pager"))
        drop_in.unlink()
        drop_in.parent.rmdir()
        must("systemctl", "daemon-reload")

    def test_7_upgraded(self):
        """The service is another; the socket is the same all the time, so that whoever connects meanwhile waits."""
        socket, pid = SOCKET.stat().st_ino, prop("MainPID")
        must("dpkg", "-i", *PACKAGES)
        self.assertNotEqual(prop("MainPID"), pid)
        self.assertEqual(SOCKET.stat().st_ino, socket)
        self.assertTrue(answers("rknnd"))

    def test_8_plugged_in(self):
        """Both ends of a cable on this machine: the gadget's services, and the relay that udev starts."""
        must("modprobe", "dummy_hcd")
        must("systemctl", "enable", "rknnd-gadget.service")
        CONFIG.write_text(CONFIG.read_text() + "listen = usb\n")
        must("systemctl", "restart", "rknnd.service")
        relays = ["systemctl", "list-units", "--no-legend", "--plain", "--state=active", "rknnd-relay@*"]
        wait_for("the relay", lambda: must(*relays))
        unit = must(*relays).split()[0]
        serial = unit.removeprefix("rknnd-relay@").removesuffix(".service")
        sock, = SOCKET.parent.glob("usb-*.sock")
        self.assertEqual((grp.getgrgid(sock.stat().st_gid).gr_name, stat.S_IMODE(sock.stat().st_mode)), ("plugdev", 0o660))
        wait_for("an answer", lambda: answers("plugdev", uri=f"usb:{serial}"))
        self.assertNotEqual(ping(uri=f"unix:{sock}").returncode, 0)
        must("systemctl", "stop", "rknnd-gadget.service")  # the function goes, its mount before it, and both come again
        self.assertFalse(os.path.ismount("/dev/usb-ffs/rknnd"))
        must("systemctl", "restart", "rknnd.service")
        wait_for("an answer", lambda: answers("plugdev", uri=f"usb:{serial}"))

    def test_9_purged(self):
        must("dpkg", "-P", "rknnd-kserve", "python3-rknnd", "rknnd-npu-sim", "rknnd", "rknnd-tools", "librknnrt-rknnd-dev", "librknnrt-rknnd")
        self.assertEqual([p for p in pathlib.Path("/proc").glob("[0-9]*/comm") if "rknnd" in p.read_text()], [])
        self.assertEqual(must("systemctl", "list-units", "--type=service,socket", "--all", "--no-legend", "--plain", "*rknnd*"), "")
        self.assertEqual(files() - Packages.before, set())


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)  # each goes on from where the one before it ended
