#!/usr/bin/python3
"""rknnctl top, stats and kill against daemons with clients at work."""
import json
import re
import signal
import subprocess
import sys
import unittest

from support.rknnctl import on_terminal
from support.service import BUILD, DIGITS, PATIENCE, Daemon, wait_for

# A digit takes a millisecond on each of three cores, and hardly any CPU.
PACED = ("--backend", "sim:rk3588,paced,speed=0.002")


def stats(daemon):
    return json.loads(daemon.rknnctl("stats", "--json").stdout)


def start(daemon):
    """A program that repeats runs until it is interrupted."""
    return subprocess.Popen([BUILD / "bin/rknnctl", "bench", DIGITS, "--loop", "1000000"],
                            env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def finish(client):
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, err


def at_work(daemon):
    """The clients that have done a job."""
    return [c for c in stats(daemon)["clients"] if c["jobs_done"] > 0]


class Sharing(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(*PACED)
        self.clients = [start(self.daemon) for _ in range(2)]
        wait_for("two clients at work", lambda: len(at_work(self.daemon)) == 2)

    def tearDown(self):
        for client in self.clients:
            finish(client)
        self.daemon.stop()

    def number_of(self, client):
        return next(c["client"] for c in stats(self.daemon)["clients"]
                    if f"pid {client.pid}," in c["origin"])

    def test_counts_what_clients_do(self):
        before = stats(self.daemon)
        wait_for("twenty jobs more of each", lambda: all(
            now["jobs_done"] >= then["jobs_done"] + 20
            for now, then in zip(at_work(self.daemon), before["clients"])))
        after = stats(self.daemon)
        self.assertEqual(len(after["cores"]), 3)
        busy = sum(c["busy_us"] for c in after["cores"])
        had = sum(c["core_us"] for c in after["clients"])
        self.assertEqual(busy, had)
        for client in after["clients"][:2]:
            self.assertEqual(client["contexts"], 2)  # one asks, one runs
            self.assertEqual(client["jobs_failed"], 0)
            # No job is shorter than the chip's time for it, a thousandth of a second.
            self.assertGreaterEqual(client["core_us"], 1000 * client["jobs_done"])
        model, = after["models"]
        self.assertEqual(model["name"], "digits.rknn")
        self.assertEqual(model["contexts"], 4)
        self.assertIn(model["worker_pid"], self.daemon.children())
        self.assertGreaterEqual(model["jobs"], sum(c["jobs_done"] for c in before["clients"]) + 40)

    def test_top_in_a_pipe(self):
        done = self.daemon.rknnctl("top", "--interval", "100", "-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("CLIENT "), 2)
        self.assertIn(" digits.rknn ", " " + done.stdout.replace("\n", " "))

    def test_top_on_a_terminal_ends_with_q(self):
        text, code = on_terminal(["top", "--interval", "100"], env=self.daemon.env, until=rb"digits\.rknn", answer=b"q")
        self.assertEqual(code, 0)
        self.assertIn("\x1b[?1049l", text, "the terminal's own screen is back")

    def test_kill_ends_one_client(self):
        victim = self.clients.pop(0)
        done = self.daemon.rknnctl("kill", str(self.number_of(victim)))
        self.assertEqual(done.returncode, 0, done.stderr)
        _, err = victim.communicate(timeout=PATIENCE)
        self.assertNotEqual(victim.returncode, 0)
        self.assertIn("ended by rknnctl kill", err)
        wait_for("its contexts to be gone",
                 lambda: sum(c["contexts"] for c in stats(self.daemon)["clients"]) == 2)

    def test_kill_refuses(self):
        self.assertEqual(self.daemon.rknnctl("kill", "x").returncode, 2)
        self.assertEqual(self.daemon.rknnctl("kill").returncode, 2)
        done = self.daemon.rknnctl("kill", "123456")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no client 123456", done.stderr)


class FromTheNetwork(unittest.TestCase):
    def test_nobody_is_killed(self):
        daemon = Daemon(*PACED, "--rights", "tcp:run,see-own,see-all", transport="tcp")
        client = start(daemon)
        wait_for("a client at work", lambda: len(at_work(daemon)) == 1)
        done = daemon.rknnctl("kill", str(at_work(daemon)[0]["client"]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("on this machine", done.stderr)
        finish(client)
        daemon.stop()

    def test_addresses_tell_them_apart(self):
        daemon = Daemon(*PACED, "--rights", "tcp:run,see-own,see-all", transport="tcp")
        client = start(daemon)
        wait_for("a client at work", lambda: len(at_work(daemon)) == 1)
        self.assertIn(" tcp, 127.0.0.1 ", daemon.rknnctl("stats").stdout)
        self.assertEqual(at_work(daemon)[0]["user"], "tcp")  # as quotas name it
        finish(client)
        daemon.stop()


if __name__ == "__main__":
    sys.exit(unittest.main())
