#!/usr/bin/python3
"""TCP between two machines, which network namespaces are here: a stopped program is kept, a link that is cut is
found, in whatever both were doing."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support.service import BUILD, PATIENCE, wait_for

ADDRESS = "10.1.2.3"
TIMEOUT_MS = 2000
TIMEOUTS = 3  # for which a program is stopped, at least
NULL = "null:1228800:8568000,delay_us=5000"
WHERE = ("idle", "upload", "run", "reply", "dump", "anywhere")


def run(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, timeout=PATIENCE)


class Links(unittest.TestCase):
    """Inside of the namespaces: the board in one of its own, the programs and its cable here."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="links-"))
        run("mount", "-t", "tmpfs", "run", "/run")
        run("ip", "netns", "add", "board")
        run("ip", "link", "add", "toboard", "type", "veth", "peer", "name", "topc", "netns", "board")
        run("ip", "address", "add", "10.1.2.4/24", "dev", "toboard")
        run("ip", "link", "set", "toboard", "up")
        cls.on_board("ip", "address", "add", f"{ADDRESS}/24", "dev", "topc")
        cls.on_board("ip", "link", "set", "topc", "up")
        cls.on_board("ip", "link", "set", "lo", "up")
        with open(cls.folder / "model", "wb") as model:
            model.write(os.urandom(32 << 20))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def on_board(*words):
        return run("ip", "netns", "exec", "board", *words)

    def setUp(self):
        self.uri, self.log = f"tcp:{ADDRESS}:7788", self.folder / "log"
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(
                ["ip", "netns", "exec", "board", BUILD / "bin/rknnd", "--listen", self.uri, "--insecure", "--listen",
                 f"unix:{self.folder}/socket", "--backend", NULL, "--heartbeat-ms", "400", "--peer-timeout-ms",
                 str(TIMEOUT_MS), "--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0"],
                stdin=subprocess.DEVNULL, stderr=log)
        self.addCleanup(self.end)
        wait_for("rknnd", lambda: self.rknnctl("ping", "-n", "1").returncode == 0)
        wait_for("its first worker to end", lambda: self.held()["workers"] == 0)

    def end(self):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(PATIENCE), 0)

    def rknnctl(self, *words):
        """On the board."""
        return subprocess.run([BUILD / "bin/rknnctl", "--server", f"unix:{self.folder}/socket", *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def told(self, *words):
        answer = self.rknnctl(*words, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def held(self):
        status = self.told("status")
        return {name: status[name] for name in ("sessions", "connections", "contexts", "models", "workers", "uploads",
                                                "upload_bytes", "model_bytes", "buffer_bytes", "jobs_running")}

    def client(self, where):
        model = self.folder / "model"
        with open(model, "r+b") as file:  # one that the daemon does not know
            file.write(os.urandom(16))
        client = subprocess.Popen([BUILD / "tests/integration/stopping_client", model, where], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, env=dict(os.environ, RKNND_SERVER=self.uri))
        self.addCleanup(client.kill)
        wait_for(f"the stop in {where}", lambda: client.poll() is not None or self.is_stopped(client))
        self.assertIsNone(client.poll(), client.stderr.read() if client.poll() is not None else "")
        return client

    @staticmethod
    def is_stopped(client):
        stat = pathlib.Path(f"/proc/{client.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0] == "T"

    def let_timeouts_pass(self):
        """By the daemon's clock."""
        end = self.told("stats")["uptime_ms"] + TIMEOUTS * TIMEOUT_MS
        wait_for("several timeouts", lambda: self.told("stats")["uptime_ms"] >= end)

    def cut(self):
        """Nothing goes through any more, and nobody is told: frames go to a card that is not there."""
        run("ip", "neigh", "replace", ADDRESS, "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "toboard")
        self.on_board("ip", "neigh", "replace", "10.1.2.4", "lladdr", "02:00:00:00:00:98", "nud", "permanent", "dev", "topc")

    def mend(self):
        run("ip", "neigh", "del", ADDRESS, "dev", "toboard")
        self.on_board("ip", "neigh", "del", "10.1.2.4", "dev", "topc")

    def test_a_stopped_program_goes_on(self):
        for where in WHERE:
            with self.subTest(where=where):
                client = self.client(where)
                self.let_timeouts_pass()
                shown, = [c for c in self.told("stats")["clients"] if "stopping" in c["program"]]
                self.assertGreaterEqual(shown["silent_ms"], TIMEOUT_MS)
                client.send_signal(signal.SIGCONT)
                _, err = client.communicate(timeout=PATIENCE)
                self.assertEqual(client.returncode, 0, err)

    def test_a_cut_link_is_found(self):
        for stopped, places in ((True, ("idle", "reply")), (False, ("idle", "upload", "reply"))):
            for where in places:
                with self.subTest(where=where, stopped=stopped):
                    before = self.held()
                    client = self.client(where)
                    if stopped:
                        self.let_timeouts_pass()
                    self.cut()
                    try:
                        if not stopped:
                            client.send_signal(signal.SIGCONT)
                        wait_for(lambda b=before: f"{self.held()} to be {b}", lambda b=before: self.held() == b)
                        self.assertIn("its machine has not answered", self.log.read_text())
                        if not stopped and where != "upload":
                            _, err = client.communicate(timeout=PATIENCE)
                            self.assertEqual(client.returncode, 1, err)
                    finally:
                        self.mend()
                        client.kill()
                        client.communicate()


class Outside(unittest.TestCase):
    def test_links(self):
        if os.geteuid() != 0 or not all(shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
                                        for tool in ("unshare", "ip")):
            self.skipTest("root, unshare and ip are needed")
        enter = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        probe = subprocess.run([*enter, "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"], capture_output=True,
                               text=True, check=False)
        if probe.returncode:
            self.skipTest(f"no network can be made here: {probe.stderr.strip()}")
        subprocess.run([*enter, sys.executable, __file__, "Links"], check=True, timeout=230,
                       env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1:] or ["Outside"], argv=sys.argv[:1], verbosity=2)
