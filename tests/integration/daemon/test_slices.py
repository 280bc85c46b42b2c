#!/usr/bin/python3
"""A run of low priority lends its core to one of high priority in its middle, and computes the same."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import rknnd

from rknnwriter import Model, Quant, ops
from support.service import BUILD, DIGITS, PATIENCE, Daemon, rknnctl, wait_for

PRODUCTS = BUILD / "tests/integration/matmul_client"
LAYERS = 40
CORE = 1  # the first one, which both want
PICTURE = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1) * 4


def write_chain(path, chip="rk3588", layers=LAYERS):
    """Convolutions, one behind the other."""
    rng, m, q = np.random.default_rng(3), Model(chip, "chain"), Quant.of_range(-4, 4)
    x = m.input("image", (1, 3, 32, 32), Quant.of_range(-1, 1))
    x = ops.conv(m, x, rng.normal(size=(32, 3, 1, 1)), rng.normal(size=32), out=q)
    for _ in range(layers):
        x = ops.conv(m, x, rng.normal(size=(32, 32, 3, 3)) * 0.1, rng.normal(size=32), pad=1, act="relu", out=q)
    m.output(x, "out")
    m.save(path)


class Low:
    """A run of the chain in a thread of its own."""

    def __init__(self, session, numbers):
        self.result, self.error = None, None
        self.thread = threading.Thread(target=self.run, args=(session, numbers))
        self.thread.start()

    def run(self, session, numbers):
        try:
            self.result, = session.run(numbers, pass_through=True, raw=True)
        except rknnd.Error as error:
            self.error = error

    def is_done(self):
        return not self.thread.is_alive()

    def finish(self):
        self.thread.join()
        assert self.error is None, self.error
        return self.result


class Slices(unittest.TestCase):
    BACKEND = "sim:rk3588,paced,speed=0.001"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="rknnd-slices-")
        cls.chain = pathlib.Path(cls.folder.name) / "chain.rknn"
        write_chain(cls.chain)
        cls.numbers = np.random.default_rng(4).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, *options):
        daemon = Daemon("--backend", self.BACKEND, *options)
        self.addCleanup(daemon.stop)
        low = rknnd.Session(self.chain, daemon.uri, priority="low", core_mask=CORE)
        self.addCleanup(low.close)
        high = rknnd.Session(DIGITS, daemon.uri, priority="high", core_mask=CORE)
        self.addCleanup(high.close)
        high.run(PICTURE)
        return daemon, low, high

    def times_started(self, daemon):
        """Of each run that the server has recorded: how often it was given cores."""
        said = daemon.rknnctl("trace", "-o", "-")
        self.assertEqual(said.returncode, 0, said.stderr)
        return collections.Counter(e["id"] for e in json.loads(said.stdout)["traceEvents"]
                                   if e["ph"] == "b" and e["name"] == "run")

    def runs_at_once(self, daemon, low, high):
        """The chain's result, and whether it was still at work when the urgent run had ended."""
        before = daemon.status()["jobs_done"]
        run = Low(low, self.numbers)
        wait_for("the chain to run", lambda: daemon.status()["jobs_running"] == 1 or run.is_done())
        for _ in range(3):
            high.run(PICTURE)
        overtaken = not run.is_done()
        result = run.finish()
        self.assertEqual(daemon.status()["jobs_done"], before + 4)
        return result, overtaken

    def lends_its_core(self, *options):
        daemon, low, high = self.start(*options)
        alone, = low.run(self.numbers, pass_through=True, raw=True)
        self.assertGreater(len(np.unique(alone)), 20)

        def overtakes():  # on a busy machine the chain may end before anybody has asked for its core
            result, overtaken = self.runs_at_once(daemon, low, high)
            np.testing.assert_array_equal(result, alone)
            return overtaken

        wait_for("urgent runs that end before the chain does", overtakes)
        self.assertEqual(max(self.times_started(daemon).values()), 4)
        self.assertEqual(daemon.held()["jobs_running"], 0)

    def test_in_a_process(self):
        self.lends_its_core()

    def test_in_a_thread(self):
        self.lends_its_core("--isolation", "thread")

    def test_not_without_slices(self):
        daemon, low, high = self.start("--slice-us", "0")
        result, overtaken = self.runs_at_once(daemon, low, high)
        self.assertFalse(overtaken)
        self.assertEqual(set(self.times_started(daemon).values()), {1})
        self.assertEqual(len(result.shape), 4)

    def test_not_for_equals(self):
        daemon, _, high = self.start()
        with rknnd.Session(self.chain, daemon.uri, priority="high", core_mask=CORE) as low:
            _, overtaken = self.runs_at_once(daemon, low, high)
        self.assertFalse(overtaken)

    def test_one_that_is_interrupted_can_be_ended(self):
        for options in ([], ["--isolation", "thread"]):
            with self.subTest(options):
                daemon, low, high = self.start(*options)
                low.limit_runs(0.05)
                run = Low(low, self.numbers)
                while not run.is_done():  # it is interrupted, or at work, when its limit comes
                    high.run(PICTURE)
                self.assertIsInstance(run.error, rknnd.TimeoutExpired)
                wait_for("its core to be free", lambda d=daemon: d.status()["jobs_running"] == 0)
                self.assertEqual(daemon.status()["worker_deaths"], 0)
                low.limit_runs(0)
                Low(low, self.numbers).finish()


class Products(unittest.TestCase):
    """A product of matrices lends the only core to urgent runs, if it may be less urgent itself."""

    BACKEND = "sim:rk3566,paced,speed=0.002"  # a product takes some hundred slices

    def test_lends_its_core(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-slices-") as folder:
            urgent = pathlib.Path(folder) / "urgent.rknn"
            write_chain(urgent, "rk3566", 1)
            for isolation in ("process", "thread"):
                for priority in ("high", "low"):
                    with self.subTest(isolation=isolation, priority=priority):
                        self.beside_products(urgent, isolation, priority)

    def test_an_unknown_priority_is_refused(self):
        daemon = Daemon()
        self.addCleanup(daemon.stop)
        ran = rknnctl(daemon.uri, "bench", DIGITS, "-n", "1", RKNND_PRIORITY="lowest")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn('RKNND_PRIORITY "lowest" is none of high, medium and low', ran.stderr)

    def beside_products(self, urgent, isolation, priority):
        """Those that are as urgent have their core to their end."""
        daemon = Daemon("--backend", self.BACKEND, "--isolation", isolation)
        self.addCleanup(daemon.stop)
        products = subprocess.Popen([PRODUCTS, "64", "512", "512"], env={**daemon.env, "RKNND_PRIORITY": priority},
                                    text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(products.kill)
        self.assertEqual(products.stdout.readline(), "product\n")
        numbers = np.random.default_rng(4).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
        with rknnd.Session(urgent, daemon.uri, priority="high") as high:
            first, = high.run(numbers, pass_through=True, raw=True)

            def most_times():
                np.testing.assert_array_equal(high.run(numbers, pass_through=True, raw=True)[0], first)
                return max(Slices.times_started(self, daemon).values())

            if priority == "low":
                wait_for("a product that is interrupted", lambda: most_times() > 1)
            else:
                self.assertEqual({most_times() for _ in range(4)}, {1})
        out, err = products.communicate(timeout=PATIENCE)  # it has looked at each of its products
        self.assertEqual(products.returncode, 0, out + err)
        self.assertEqual(daemon.held()["jobs_running"], 0)


class Emulated(unittest.TestCase):
    """The emulator's registers are another model's in between."""

    def test_computes_the_same(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-slices-") as folder:
            chain = pathlib.Path(folder) / "chain.rknn"
            write_chain(chain)
            numbers = np.random.default_rng(4).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
            for isolation in ("process", "thread"):
                with self.subTest(isolation):
                    self.beside_others(chain, numbers, isolation)

    def beside_others(self, chain, numbers, isolation):
        daemon = Daemon("--backend", "emu:rk3588", "--isolation", isolation, "--slice-us", "1")
        self.addCleanup(daemon.stop)
        with (rknnd.Session(chain, daemon.uri, priority="low", core_mask=CORE) as low,
              rknnd.Session(DIGITS, daemon.uri, priority="high", core_mask=CORE) as high):
            alone, = low.run(numbers, pass_through=True, raw=True)
            first, = high.run(PICTURE, raw=True)
            run, n_runs = Low(low, numbers), 0
            while not run.is_done():
                np.testing.assert_array_equal(high.run(PICTURE, raw=True)[0], first)
                n_runs += 1
            np.testing.assert_array_equal(run.finish(), alone)
            times = Slices.times_started(self, daemon)
            self.assertGreaterEqual(max(times.values()), 2)
            self.assertGreaterEqual(n_runs, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
