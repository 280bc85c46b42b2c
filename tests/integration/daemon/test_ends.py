#!/usr/bin/python3
"""SIGTERM while programs load, run and leave: the daemon ends with 0, each time, in each isolation. And those that do not begin.

RKNND_ROUNDS: how often, in each."""
import os
import random
import socket
import subprocess
import tempfile
import unittest

from support.paths import DIGITS
from support.seed import seed
from support.service import BUILD, PATIENCE, Daemon

ROUNDS = int(os.environ.get("RKNND_ROUNDS", "4"))


class Ends(unittest.TestCase):
    def end_in_traffic(self, rng, *options):
        with tempfile.TemporaryFile() as said:
            daemon = Daemon(*options, stderr=said)
            clients = [subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, str(i)], env=daemon.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                       for i in range(3)]
            done = rng.randrange(1, 120)
            while daemon.status()["jobs_done"] < done:
                pass
            daemon.process.terminate()
            code = daemon.process.wait(PATIENCE)
            for client in clients:
                client.stdin.close()
                client.wait(PATIENCE)
            said.seek(0)
            self.assertEqual(code, 0, said.read().decode())
            daemon.folder.cleanup()

    def test_processes(self):
        rng = random.Random(seed())
        for _ in range(ROUNDS):
            self.end_in_traffic(rng, "--isolation", "process", "--drain-timeout-ms", str(rng.choice((0, 5000))))

    def test_threads(self):
        rng = random.Random(seed())
        for _ in range(ROUNDS):
            self.end_in_traffic(rng, "--isolation", "thread", "--drain-timeout-ms", str(rng.choice((0, 5000))))

    def test_an_address_that_cannot_be_had(self):
        """Who starts a second one is told what to do."""
        with socket.create_server(("127.0.0.1", 0)) as other, tempfile.TemporaryDirectory() as folder:
            port = other.getsockname()[1]
            for words, address in (("another program listens there: end it, or choose another port", f"tcp:127.0.0.1:{port}"),
                                   ("this machine has no such address", "tcp:192.0.2.1:8910")):
                for command in (["rknnd", "--backend", "null"], ["rknnd-kserve", "--models", folder]):
                    with self.subTest(address=address, program=command[0]):
                        done = subprocess.run([BUILD / "bin" / command[0], *command[1:], "--listen", address, "--insecure"],
                                              capture_output=True, text=True, timeout=PATIENCE, check=False)
                        self.assertNotEqual(done.returncode, 0)
                        self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
