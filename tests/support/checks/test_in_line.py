#!/usr/bin/python3
"""A command that takes long: because the server is silent, or because the machine has no processor for it."""
import os
import signal
import subprocess
import unittest

from support.daemon.in_line import Watched
from support.service import BUILD, PATIENCE, Daemon

COUNTS = ["/bin/sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done"]


class InLine(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--backend", "null")
        self.addCleanup(self.daemon.stop)

    def ask(self):
        return Watched(self.daemon.process.pid, [BUILD / "bin/rknnctl", "status"], PATIENCE, env=self.daemon.env)

    def test_a_server_that_is_silent(self):
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        asked = self.ask()
        os.kill(self.daemon.process.pid, signal.SIGCONT)
        self.assertNotEqual(asked.code, 0)
        self.assertFalse(asked.starved(), str(asked))
        self.assertRegex(str(asked), r"does not answer .*not the machine")

    def test_status_says_so(self):
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        with self.assertRaisesRegex(AssertionError, "does not answer .*not the machine"):
            self.daemon.status()
        os.kill(self.daemon.process.pid, signal.SIGCONT)

    def test_a_machine_without_a_processor(self):
        """A command of the lowest priority, on one processor with others who compute."""
        cpu = min(os.sched_getaffinity(0))

        def alone(nice):
            os.sched_setaffinity(0, {cpu})
            os.nice(nice)
        hogs = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], preexec_fn=lambda: alone(0)) for _ in range(3)]
        try:
            counted = Watched(self.daemon.process.pid, COUNTS, PATIENCE, preexec_fn=lambda: alone(19))
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        self.assertEqual(counted.code, 0)
        self.assertTrue(counted.starved(), str(counted))

    def test_what_is_said_in_time(self):
        asked = self.ask()
        self.assertEqual((asked.code, asked.err), (0, ""))
        self.assertIn("clients", asked.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
