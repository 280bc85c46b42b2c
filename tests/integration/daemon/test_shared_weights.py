#!/usr/bin/python3
"""Contexts of one model, whoever owns them, share its weights: measured in the worker's memory."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support.service import SOURCE, Daemon, finish_client, wait_for

WEIGHTS_MB = 12
CLIENTS = 6


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


class SharedWeights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = folder.name + "/large.rknn"
        subprocess.run([sys.executable, SOURCE / "tests/bench/sim/large_model.py", self.model,
                        str(WEIGHTS_MB)], check=True)
        # Answers to equal inputs are remembered: what is measured is memory, not the CPU.
        self.daemon = Daemon("--backend", "sim:rk3588,speed=1000")
        self.clients = []

    def add_client(self):
        before = self.daemon.status()["jobs_done"]
        self.clients.append(self.daemon.client(self.model, 1))
        wait_for("a client more at work", lambda: self.daemon.status()["contexts"]
                 == len(self.clients) and self.daemon.status()["jobs_done"] > before + 20)

    def test_weights_are_there_once(self):
        self.add_client()
        worker, = self.daemon.children()
        first = resident_mb(worker)
        self.assertGreater(first, WEIGHTS_MB)
        for _ in range(CLIENTS - 1):
            self.add_client()
        self.assertEqual(self.daemon.children(), [worker])
        each = (resident_mb(worker) - first) / (CLIENTS - 1)
        print(f"weights {WEIGHTS_MB} MB, worker {first:.1f} MB, each client more {each:.2f} MB")
        self.assertLess(each, WEIGHTS_MB / 4)

    def tearDown(self):
        for client in self.clients:
            finish_client(client)
        self.daemon.stop()


if __name__ == "__main__":
    sys.exit(unittest.main())
