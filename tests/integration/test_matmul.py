#!/usr/bin/python3
"""Products of matrices: where the matrices lie, and what a worker's death costs."""
import os
import signal
import subprocess
import sys
import unittest

from service import BUILD, PATIENCE, Daemon, wait_for

CLIENT = BUILD / "tests/integration/matmul_client"
KILLS = 8
M, K, N = 256, 512, 1024  # A has 128 KB, B 512 KB, C 1 MB


class Matmul(unittest.TestCase):
    def start(self, transport, *options):
        daemon = Daemon(*options, transport=transport)
        self.addCleanup(daemon.stop)
        client = subprocess.Popen([CLIENT, str(M), str(K), str(N)], env=daemon.env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.addCleanup(client.kill)
        self.assertEqual(client.stdout.readline(), "product\n", "no product came")
        return daemon, client

    def finish(self, client):
        out, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, f"{out}{err}")

    def test_matrices_are_not_copied(self):
        """Over a Unix socket no buffer of the server has room for one; over TCP there must be."""
        for transport, copied in (("unix", False), ("tcp", True)):
            with self.subTest(transport):
                daemon, client = self.start(transport)
                self.assertEqual(daemon.status()["buffer_bytes"] >= M * N * 4, copied)
                if not copied:
                    self.assertLess(daemon.status()["buffer_bytes"], M * K)
                self.finish(client)

    def test_a_killed_worker_is_not_noticed(self):
        for transport in ("unix", "tcp"):
            with self.subTest(transport):
                daemon, client = self.start(transport)
                for _ in range(KILLS):
                    before = daemon.status()
                    os.kill(daemon.children()[0], signal.SIGKILL)
                    wait_for("products after a worker's death", lambda: self.went_on(daemon, before))
                self.finish(client)

    @staticmethod
    def went_on(daemon, before):
        now = daemon.status()
        return (now["worker_deaths"] > before["worker_deaths"]
                and now["jobs_done"] > before["jobs_done"] + 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
