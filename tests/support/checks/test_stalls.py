#!/usr/bin/python3
"""What a processor that stands still looks like: to its watch, as if nobody had it and yet the watch did not run."""
import os
import signal
import time
import unittest

from support.daemon import stalls
from support.service import wait_for

STALL = 0.3  # seconds


class Stalls(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("priorities of real time take root")
        stalls.watch()

    def test_is_noted(self):
        watch = stalls.watches()[0]
        wait_for("the watch to have its priority", lambda: os.sched_getscheduler(watch) == os.SCHED_FIFO)
        os.kill(watch, signal.SIGSTOP)
        time.sleep(STALL)  # this is the stall
        os.kill(watch, signal.SIGCONT)
        wait_for("the stall to be noted", lambda: stalls.longest_us() > STALL / 2 * 1e6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
