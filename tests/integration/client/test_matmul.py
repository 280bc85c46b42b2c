#!/usr/bin/python3
"""Products of matrices: where the matrices lie, and what a worker's death costs."""
import os
import signal
import subprocess
import sys
import unittest

from support.service import BUILD, PATIENCE, Daemon, wait_for

CLIENT = BUILD / "tests/integration/matmul_client"
KILLS = 8
SLOW = ("--backend", "sim:rk3588,paced,speed=0.0005")  # a product takes some 300 ms
M, K, N = 256, 512, 1024  # A has 128 KB, B 512 KB, C 1 MB


class Matmul(unittest.TestCase):
    def start_daemon(self, transport, *options):
        daemon = Daemon(*options, transport=transport)
        self.addCleanup(daemon.stop)
        return daemon

    def start_client(self, daemon, *words, rows=M):
        client = subprocess.Popen([CLIENT, str(rows), str(K), str(N), *words], env=daemon.env,
                                  text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.addCleanup(client.kill)
        return client

    def start(self, transport, *options):
        daemon = self.start_daemon(transport, *options)
        client = self.start_client(daemon)
        self.assertEqual(client.stdout.readline(), "product\n", "no product came")
        return daemon, client

    def say_both(self, daemon, limit_ms=0, rows=M):
        """What became of a product with a limit, and of one without."""
        client = self.start_client(daemon, str(limit_ms), rows=rows)
        out, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, out + err)
        return out.splitlines()[:2]

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
                    deaths = daemon.status()["worker_deaths"]
                    os.kill(daemon.children()[0], signal.SIGKILL)
                    wait_for("a worker's death", lambda: daemon.status()["worker_deaths"] > deaths)
                    done = daemon.status()["jobs_done"]
                    wait_for("products after it", lambda: daemon.status()["jobs_done"] > done + 2)
                self.finish(client)

    def test_runs_have_limits(self):
        for transport in ("unix", "tcp"):
            with self.subTest(transport):
                first, second = self.say_both(self.start_daemon(transport, *SLOW), 50)
                self.assertRegex(first, "^-2 .*50 ms")
                self.assertEqual(second, "0 product")

    def test_quotas_of_requests(self):
        """While one program's product runs, no other program of the user gets one."""
        daemon, client = self.start("unix", *SLOW, "--quota", "*:in-flight=1")
        worker, = daemon.children()
        wait_for("a worker that is stopped at work", lambda: self.stop_at_work(daemon, worker))
        for line in self.say_both(daemon, rows=M // 2):  # which has a worker of its own
            self.assertRegex(line, "^-3 .*in flight.*quota")
        os.kill(worker, signal.SIGCONT)
        self.finish(client)

    @staticmethod
    def stop_at_work(daemon, worker):
        os.kill(worker, signal.SIGSTOP)
        if daemon.status()["jobs_running"] == 1:
            return True
        os.kill(worker, signal.SIGCONT)
        return False

    def test_quotas_of_bytes(self):
        """B is 512 KB, of requests where it is not in shared memory."""
        daemon = self.start_daemon("tcp", "--quota", "tcp:bytes=400K")
        for line in self.say_both(daemon):
            self.assertRegex(line, "^-4 .*bytes.*quota tcp")


if __name__ == "__main__":
    sys.exit(unittest.main())
