#!/usr/bin/python3
"""Runs that the server expects to miss their limit are refused at once, where a program asks for that."""
import re
import sys
import threading
import unittest

import numpy as np
import rknnd

from support.service import DIGITS, Daemon, wait_for

PICTURE = np.zeros((1, 8, 8, 1), np.uint8)
CORE = 1
RUN_MS = 1000  # at least, at this speed: a busy machine takes its time to look at what waits
SLOW = ("--backend", "sim:rk3588,paced,speed=0.000002")


def numbers_of(error):
    """Of a refusal: what it would take, runs ahead, its own time, the limit, in milliseconds."""
    said = re.search(r"refused: the run would be done in about ([0-9.]+) ms \(([0-9.]+) ms of runs ahead, ([0-9.]+) ms "
                     r"of its own\), its limit is ([0-9]+) ms", str(error))
    assert said, error
    return [float(n) for n in said.groups()]


class Admission(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(*SLOW)
        self.addCleanup(self.daemon.stop)

    def open(self, **settings):
        session = rknnd.Session(DIGITS, self.daemon.uri, core_mask=CORE, **settings)
        self.addCleanup(session.close)
        return session

    def keep_busy(self, n, **settings):
        """n runs in the background, all of them known to the server when this returns."""
        session = self.open(contexts=n, **settings)
        threads = [threading.Thread(target=session.run, args=(PICTURE,)) for _ in range(n)]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)
        wait_for("all runs to be there", lambda: sum(self.daemon.status()[f"jobs_{s}"] for s in ("waiting", "running")) == n)

    def refused(self, session):
        with self.assertRaises(rknnd.TimeoutExpired) as caught:
            session.run(PICTURE)
        return numbers_of(caught.exception)

    def test_what_cannot_be_done_is_refused(self):
        session = self.open()
        session.limit_runs(600, refuse=True)
        session.run(PICTURE)
        done = self.daemon.status()
        session.limit_runs(0.05, refuse=True)
        whole, ahead, own, limit = self.refused(session)
        self.assertGreaterEqual(own, RUN_MS)
        self.assertEqual((ahead, limit), (0, 50))
        self.assertAlmostEqual(whole, own, delta=0.11)
        after = self.daemon.status()
        self.assertEqual((after["jobs_done"], after["jobs_failed"]), (done["jobs_done"], done["jobs_failed"] + 1))
        session.limit_runs(600, refuse=True)
        session.run(PICTURE)

    def test_nothing_is_refused_that_has_not_run(self):
        session = self.open()
        session.limit_runs(0.05, refuse=True)
        with self.assertRaisesRegex(rknnd.TimeoutExpired, "not done within 50 ms"):
            session.run(PICTURE)

    def test_nothing_is_refused_unasked(self):
        session = self.open()
        session.run(PICTURE)
        session.limit_runs(0.05)
        with self.assertRaisesRegex(rknnd.TimeoutExpired, "not done within 50 ms"):
            session.run(PICTURE)

    def test_what_is_ahead_counts(self):
        session = self.open()
        session.run(PICTURE)
        self.keep_busy(4)
        session.limit_runs(0.05, refuse=True)
        whole, ahead, own, _ = self.refused(session)
        self.assertGreater(ahead, 0)
        self.assertAlmostEqual(whole, ahead + own, delta=0.11)
        session.limit_runs(600, refuse=True)
        session.run(PICTURE)

    def test_what_gives_way_does_not_count(self):
        urgent = self.open()
        urgent.run(PICTURE)
        self.keep_busy(4, priority="low")
        urgent.limit_runs(0.05, refuse=True)
        _, ahead, _, _ = self.refused(urgent)
        self.assertEqual(ahead, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
