#!/usr/bin/python3
"""SIGTERM while programs load, run and leave: the daemon ends with 0, each time, in each isolation.

RKNND_ROUNDS: how often, in each."""
import os
import random
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
