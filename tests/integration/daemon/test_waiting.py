#!/usr/bin/python3
"""A run that waits for its program gives its cores back: others do not wait with it.

Jobs have no time limit here that a test would live to see, so without that the others would never run."""
import os
import random
import signal
import tempfile
import unittest

from integration.daemon import test_orders as orders
from support.service import Daemon, wait_for
from support.wire import CANCEL, CLOSE, DUMP, DUMP_NEXT, INFER, OPEN, message

ALL_CORES = 7
SUSPENDED_MAX = 16  # server/jobs/job.h


class Waiting(unittest.TestCase):
    files = orders.Orders.files
    isolation = "process"
    hold_ms = 50

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="waiting-test-")
        self.addCleanup(folder.cleanup)
        self.daemon = Daemon("--isolation", self.isolation, "--hold-timeout-ms", str(self.hold_ms), "--job-timeout-ms", "3600000",
                             "--backend", "sim:rk3588")
        self.addCleanup(self.daemon.process.kill)
        self.world = orders.World(self.daemon, self.files(folder.name), random.Random(orders.SEED))
        self.world.first()
        self.one = self.world.clients[0]
        self.digits, self.custom = (self.of(self.one, i) for i in (0, 1))
        self.other = self.join()
        self.others = self.open(self.other, self.world.files[0])

    def of(self, client, i):
        return next(x for x in client.contexts if x.file is self.world.files[i])

    def join(self):
        c = orders.Client(self.world)
        self.world.clients.append(c)
        self.wait(lambda: c.session)
        return c

    def open(self, client, file):
        n = len(client.contexts)
        client.ask(OPEN, message(f1=file.sha256), file=file)
        self.wait(lambda: len(client.contexts) > n)
        return client.contexts[-1]

    def wait(self, condition):
        def look():
            for c in self.world.clients:
                c.held_back = 0
                c.flush()
            self.world.wait(0.02)
            return condition()
        wait_for("what others wait for", look)

    def run_of(self, x, **more):
        return message(f1=x.handle, f2=ALL_CORES, f6=message(f1=len(x.file.input), f5=1), **more)

    def dump(self, client, x):
        client.ask(DUMP, message(f1=self.run_of(x)), x.file.input, context=x)
        return client.requests[client.id]

    def expect_runs(self, client, x, n=3):
        """Runs of x, on all cores, one after the other, with the right results."""
        for _ in range(n):
            client.ask(INFER, self.run_of(x), x.file.input, context=x, plain=True)
            number = client.id
            self.wait(lambda: number not in client.requests)
        self.assertFalse(self.world.answers[INFER, True])

    def conclude(self, n):
        self.world.settle(self.world.clients)
        self.assertEqual(self.world.answers[DUMP, False], n)
        self.assertFalse(self.world.answers[DUMP, True])
        self.daemon.stop()

    def test_dump(self):
        dump = self.dump(self.one, self.digits)
        self.wait(lambda: dump.part is not None)
        self.expect_runs(self.other, self.others)
        self.assertIsNotNone(dump.part)
        self.conclude(1)

    def test_dumps_answered_just_in_time(self):
        """Each of its parts is answered, but it has had its time: others run between any two."""
        dump = self.dump(self.one, self.digits)
        parts = 0
        while dump in self.one.requests.values():
            self.wait(lambda: dump.part is not None or dump not in self.one.requests.values())
            if dump.part is None:
                break
            self.expect_runs(self.other, self.others, 1)
            parts += 1
            self.one.say(DUMP_NEXT, message(f1=next(n for n, r in self.one.requests.items() if r is dump)))
            dump.part = None
        self.assertGreater(parts, 5)
        self.conclude(1)

    def test_more_dumps_than_threads(self):
        file = self.world.files[0]
        dumps = [self.dump(self.one, self.open(self.one, file)) for _ in range(12)]
        self.wait(lambda: all(d.part is not None for d in dumps))
        self.expect_runs(self.other, self.others)
        self.conclude(12)

    def test_too_many(self):
        file = self.world.files[0]
        dumps = [self.dump(self.one, self.open(self.one, file)) for _ in range(SUSPENDED_MAX + 2)]
        self.wait(lambda: self.world.answers[DUMP, True] == 2)
        self.assertEqual(sum(d.part is not None for d in dumps if d in self.one.requests.values()), SUSPENDED_MAX)
        self.expect_runs(self.other, self.others)
        self.world.settle(self.world.clients)
        self.assertEqual(self.world.answers[DUMP, False], SUSPENDED_MAX)
        self.daemon.stop()

    def test_operator(self):
        x = self.custom
        self.one.ask(INFER, self.run_of(x, f7=bytes([1])), x.file.input, context=x)
        run = self.one.requests[self.one.id]
        self.wait(lambda: run.call is not None)
        self.expect_runs(self.other, self.others)
        self.assertIsNotNone(run.call)
        self.conclude(0)

    def test_ends_without_cores(self):
        """By CANCEL, by the end of its context, of its client and of its worker."""
        for end in ("cancel", "close", "client", "worker", "limit"):
            c = self.join()
            x = self.open(c, self.world.files[0])
            more = {"f3": 3000} if end == "limit" else {}
            c.ask(DUMP, message(f1=self.run_of(x, **more)), x.file.input, context=x)
            number = c.id
            self.wait(lambda: c.requests[number].part is not None)
            self.expect_runs(self.other, self.others)
            if end == "cancel":
                c.say(CANCEL, message(f1=number))
            elif end == "close":
                c.ask(CLOSE, message(f1=x.handle))
            elif end == "client":
                c.close()
                c.requests.clear()
            elif end == "worker" and self.isolation == "process":
                for pid in self.daemon.children():
                    os.kill(pid, signal.SIGKILL)
            elif end == "worker":
                continue
            self.wait(lambda: number not in c.requests)
            self.expect_runs(self.other, self.others)
        self.assertFalse(self.world.answers[DUMP, False])
        self.daemon.stop()


class WaitingThreads(Waiting):
    isolation = "thread"


class WaitingWhileOthersWant(Waiting):
    """It could have its cores for as long as it likes, if nobody else wanted them."""
    hold_ms = 3600000

    def test_too_many(self):
        """One user's: one run at a time ends, because others want its cores."""
        file = self.world.files[0]
        for _ in range(SUSPENDED_MAX + 2):
            self.dump(self.one, self.open(self.one, file))
        self.wait(lambda: self.world.answers[DUMP, True] == 1)
        self.other.ask(INFER, self.run_of(self.others), self.others.file.input, context=self.others, plain=True)
        self.wait(lambda: self.world.answers[DUMP, True] == 2)
        self.world.settle(self.world.clients)
        self.assertEqual(self.world.answers[DUMP, False], SUSPENDED_MAX)
        self.daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
