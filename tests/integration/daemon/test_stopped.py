#!/usr/bin/python3
"""Programs that are stopped, as by a debugger, go on where they were, and harm nobody meanwhile."""
import json
import os
import random
import signal
import subprocess
import tempfile
import unittest

from support.service import BUILD, DIGITS, PATIENCE, Daemon, finish_client, let_pass, wait_for

TIMEOUT_MS = 2000  # a daemon that has no processor for half a second is not gone
STOP_MS = int(os.environ.get("RKNND_STOP_MS", 2 * TIMEOUT_MS))  # for which a program is stopped, at least
QUICK = ("--heartbeat-ms", "100", "--peer-timeout-ms", str(TIMEOUT_MS))
NULL = "null:1228800:4284000,delay_us=5000"  # large pictures, larger outputs
WHERE = ("idle", "upload", "run", "reply", "dump", "anywhere")


def stopping_client(uri, model, *words):
    """Without a search for leaks: LeakSanitizer stops the program itself to look, and now and then never ends with one
    that has been stopped before."""
    env = dict(os.environ, RKNND_SERVER=uri, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    return subprocess.Popen([BUILD / "tests/integration/stopping_client", model, *words], stdin=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, env=env)


def state(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


class Stopped(unittest.TestCase):
    def daemon(self, *options, transport="unix"):
        daemon = Daemon(*options, transport=transport)
        self.addCleanup(daemon.process.kill)
        return daemon

    def client(self, uri, model, where, *words):
        client = stopping_client(uri, model, where, *words)
        self.addCleanup(client.kill)
        wait_for(f"the stop in {where}", lambda: client.poll() is not None or state(client) == "T")
        self.assertIsNone(client.poll(), client.stderr.read() if client.poll() is not None else "")
        return client

    def goes_on(self, client):
        client.send_signal(signal.SIGCONT)
        _, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, err)

    def top(self, daemon):
        answer = daemon.rknnctl("stats", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def shown(self, daemon, client):
        """What is shown of the client; None: it is not (any more)."""
        name = f"stopping_client {client.pid}"
        return next((c for c in self.top(daemon)["clients"] if c["program"] == name), None)

    def let_timeouts_pass(self, daemon):
        """By the daemon's clock."""
        let_pass(STOP_MS, lambda: self.top(daemon)["uptime_ms"])

    def large_model(self):
        file = tempfile.NamedTemporaryFile(suffix=".rknn")
        self.addCleanup(file.close)
        file.write(random.randbytes(8 << 20))
        file.flush()
        return file.name

    def test_in_the_middle_of_everything(self):
        for transport, isolation in (("unix", "process"), ("tcp", "thread")):
            daemon = self.daemon("--backend", NULL, "--isolation", isolation, *QUICK, "--rights", "tcp:run,see-own,see-all",
                                 transport=transport)
            other = daemon.client(DIGITS, 1)
            clients = {where: self.client(daemon.uri, self.large_model(), where) for where in WHERE}
            before = daemon.status()["jobs_done"]
            self.let_timeouts_pass(daemon)
            wait_for("others to go on", lambda d=daemon, b=before: d.status()["jobs_done"] > b + 3)
            for where, client in clients.items():
                with self.subTest(transport=transport, where=where):
                    shown = self.shown(daemon, client)
                    self.assertEqual(shown["stopped"], transport == "unix")
                    self.assertGreaterEqual(shown["silent_ms"], TIMEOUT_MS)
            for client in clients.values():
                client.send_signal(signal.SIGCONT)
            for where, client in clients.items():
                with self.subTest(transport=transport, where=where):
                    self.goes_on(client)
            finish_client(other)
            daemon.stop()

    def test_everything_at_once(self):
        """The daemon, its workers and the programs, as in a container that is frozen."""
        for isolation, places in (("process", ("idle", "run", "reply", "dump")), ("thread", ("upload", "run"))):
            with self.subTest(isolation=isolation):
                daemon = self.daemon("--backend", NULL, "--isolation", isolation, "--job-timeout-ms",
                                     str(TIMEOUT_MS * 3 // 2), *QUICK)
                witness = self.daemon("--backend", "null", *QUICK)
                clients = [self.client(daemon.uri, self.large_model(), where) for where in places]
                frozen = [daemon.process.pid, *daemon.children()]
                for pid in frozen:
                    os.kill(pid, signal.SIGSTOP)
                self.let_timeouts_pass(witness)
                for pid in [*(client.pid for client in clients), *frozen]:
                    os.kill(pid, signal.SIGCONT)
                for client in clients:
                    _, err = client.communicate(timeout=PATIENCE)
                    self.assertEqual(client.returncode, 0, err)
                self.assertEqual(daemon.status()["worker_deaths"], 0)
                daemon.stop()
                witness.stop()

    def test_a_private_daemon(self):
        witness = self.daemon("--backend", "null", *QUICK)
        clients = {where: self.client("sim:", DIGITS, where, "same") for where in ("idle", "run", "reply")}
        self.let_timeouts_pass(witness)
        for where, client in clients.items():
            with self.subTest(where=where):
                self.goes_on(client)
        witness.stop()

    def test_kill(self):
        for where in ("idle", "upload", "run", "reply", "dump"):
            with self.subTest(where=where):
                daemon = self.daemon("--backend", NULL, *QUICK, "--model-cache", "0", "--upload-ttl", "0",
                                     "--worker-idle", "0")
                before = daemon.held()
                client = self.client(daemon.uri, self.large_model(), where)
                wait_for("it to be shown as stopped", lambda d=daemon, c=client: self.shown(d, c)["stopped"])
                killed = daemon.rknnctl("kill", str(self.shown(daemon, client)["client"]))
                self.assertEqual(killed.returncode, 0, killed.stderr)
                self.assertIsNone(self.shown(daemon, client))
                wait_for(lambda d=daemon, b=before: f"{d.held()} to be {b}", lambda d=daemon, b=before: d.held() == b)
                client.send_signal(signal.SIGCONT)
                _, err = client.communicate(timeout=PATIENCE)
                self.assertEqual(client.returncode, int(where != "upload"), err)  # that is begun again
                daemon.stop()

    def test_an_upload_that_others_wait_for(self):
        daemon = self.daemon("--backend", NULL, *QUICK)
        model = self.large_model()
        first = self.client(daemon.uri, model, "upload")
        second = daemon.client(model, 1)
        wait_for("the other to go on with it", lambda: daemon.status()["jobs_done"] > 3)
        self.goes_on(first)
        finish_client(second)
        daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
