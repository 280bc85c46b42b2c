"""Daemons that take each other's place, and programs that run meanwhile."""
import json
import os
import re
import signal
import subprocess
import unittest

from support.service import BUILD, DIGITS, PATIENCE, Configured, ended, rknnctl, wait_for

TOOK_OVER = re.compile(r"process (\d+) serves from here on")


class Line:
    """Daemons, each of which took the place of the one before."""

    def __init__(self, lines, **options):
        self.first = Configured(lines, **options)
        self.path, self.uri, self.write = self.first.path, self.first.uri, self.first.write
        self.pids = [self.first.process.pid]

    def said(self):
        return self.first.log.read_text()

    def signal(self, number=signal.SIGUSR2):
        os.kill(self.pids[-1], number)

    def said_since(self, before, pattern):
        wait_for(lambda: f"{pattern} in: {self.said()[before:]}", lambda: re.search(pattern, self.said()[before:]))
        return re.search(pattern, self.said()[before:])

    def upgrade(self):
        before = len(self.said())
        self.signal()
        self.pids.append(int(self.said_since(before, TOOK_OVER.pattern)[1]))

    def stop(self):
        for pid in reversed(self.pids):
            if not ended(pid):
                os.kill(pid, signal.SIGTERM)
        code = self.first.process.wait(PATIENCE)
        wait_for("all daemons to end", lambda: all(map(ended, self.pids)))
        words = self.said()
        self.first.folder.cleanup()
        assert code in (0, -signal.SIGKILL), f"rknnd ended with {code}: {words}"


class Upgrading(unittest.TestCase):
    base = ["backend = null:784:40", "listen = unix:HERE/a"]

    def start(self, *lines, **options):
        line = Line(lines or self.base, **options)
        self.addCleanup(line.stop)
        return line

    def client(self, name, uri, *words):
        client = subprocess.Popen([BUILD / f"tests/integration/{name}", DIGITS, *words], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=dict(os.environ, RKNND_SERVER=uri))
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        return client

    def stay(self, uri):
        """A stay_client whose session is there."""
        client = self.client("stay_client", uri)
        self.assertEqual(client.stdout.readline(), "runs\n")
        return client

    def status(self, uri):
        answer = rknnctl(uri, "status", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def runs(self, uri, client):
        done = self.status(uri)["jobs_done"]
        wait_for("programs to run", lambda: self.status(uri)["jobs_done"] > done or client.poll() is not None)
        self.assertIsNone(client.poll())
