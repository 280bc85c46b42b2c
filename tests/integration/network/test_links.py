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

from support.namespaces import run_inside
from support.service import BUILD, PATIENCE, let_pass, wait_for

ADDRESS = "10.1.2.3"
TIMEOUT_MS = 2000
TIMEOUTS = 3  # for which a program is stopped, at least
NULL = "null:1228800:8568000,delay_us=5000"
# At rest only who asks is there. What was held before something happened may have been more: a tool that has just asked.
NOTHING = {"sessions": 1, "connections": 1, "contexts": 0, "models": 0, "workers": 0, "uploads": 0, "upload_bytes": 0,
           "model_bytes": 0, "buffer_bytes": 0, "jobs_running": 0}
FOUND = "its machine has not answered"
WHERE = ("idle", "upload", "run", "reply", "anywhere", "dump")


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
        cls.model = os.urandom(32 << 20)

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
        return {name: status[name] for name in NOTHING}

    def client(self, where):
        model = self.folder / f"model-{where}"
        model.write_bytes(os.urandom(16) + self.model[16:])  # one that the daemon does not know
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
        let_pass(TIMEOUTS * TIMEOUT_MS, lambda: self.told("stats")["uptime_ms"])

    def cut(self):
        """Nothing goes through any more, and nobody is told: frames go to a card that is not there."""
        run("ip", "neigh", "replace", ADDRESS, "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "toboard")
        self.on_board("ip", "neigh", "replace", "10.1.2.4", "lladdr", "02:00:00:00:00:98", "nud", "permanent", "dev", "topc")

    def mend(self):
        run("ip", "neigh", "del", ADDRESS, "dev", "toboard")
        self.on_board("ip", "neigh", "del", "10.1.2.4", "dev", "topc")

    def test_stopped_programs_go_on(self):
        clients = {where: self.client(where) for where in WHERE}  # all are stopped at the same time
        self.let_timeouts_pass()
        shown = [c["silent_ms"] for c in self.told("stats")["clients"] if "stopping" in c["program"]]
        self.assertEqual(len(shown), len(clients))
        self.assertGreaterEqual(min(shown), TIMEOUT_MS)
        for client in clients.values():  # soon: nobody waits longer than 30 s for a dump's parts to be taken
            client.send_signal(signal.SIGCONT)
        for where, client in clients.items():
            with self.subTest(where=where):
                _, err = client.communicate(timeout=PATIENCE)
                self.assertEqual(client.returncode, 0, err)

    def test_a_cut_link_is_found(self):
        for stopped, places in ((True, ("idle", "reply")), (False, ("idle", "upload", "reply"))):
            with self.subTest(stopped=stopped):
                clients = {where: self.client(where) for where in places}
                if stopped:
                    self.let_timeouts_pass()
                found = self.log.read_text().count(FOUND)
                self.cut()
                try:
                    if not stopped:
                        for client in clients.values():
                            client.send_signal(signal.SIGCONT)
                    wait_for(lambda: f"{self.held()} to be {NOTHING}", lambda: self.held() == NOTHING)
                    self.assertEqual(self.log.read_text().count(FOUND) - found, len(clients))
                    for where, client in clients.items():
                        if not stopped and where != "upload":
                            _, err = client.communicate(timeout=PATIENCE)
                            self.assertEqual(client.returncode, 1, f"{where}: {err}")
                finally:
                    self.mend()
                    for client in clients.values():
                        client.kill()
                        client.communicate()


class Outside(unittest.TestCase):
    def test_links(self):
        run_inside(self, __file__, "Links")


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1:] or ["Outside"], argv=sys.argv[:1], verbosity=2)
