#!/usr/bin/python3
"""Numbers at the ends of what a field can hold, alone and in pairs, in every message that has some: each request is answered,
others are served, no worker dies, and nothing is left."""
import hashlib
import itertools
import os
import unittest

from support.daemon import stalls
from support.service import DIGITS, Daemon, wait_for
from support.wire import (BIND, CANCEL, CHUNK, CLOSE, CREATE, CUSTOM_LIST, Client, DESCRIBE, DUMP, DUP, FREE, IMPORT, INFER, INTERNAL, KILL,
                          LOG, LOG_LEVEL, OFFER, OPEN, PING, PROFILE, PULL, TRACE, check_turns, message, one)

ENDS = [0, 1, 63, 65, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 64, (1 << 63) - 1, 1 << 63, (1 << 64) - 64, (1 << 64) - 1]
FEW = [0, 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 64, (1 << 64) - 1]
INPUT = bytes(64)
DATA = DIGITS.read_bytes()
SHA = hashlib.sha256(DATA).digest()
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Extremes(unittest.TestCase):
    isolation = "process"

    def setUp(self):
        self.daemon = Daemon("--isolation", self.isolation, "--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")
        self.addCleanup(self.daemon.stop)
        self.before = self.daemon.held()
        self.other = Client(self.daemon)
        self.begin()

    def begin(self):
        self.client = Client(self.daemon)
        self.client.call(OFFER, message(f1=SHA, f2=len(DATA), f3=b"digits"))
        self.client.call(CHUNK, message(f1=SHA, f2=0), payload=DATA)
        self.context = one(self.client.call(OPEN, message(f1=SHA))[1], 1)
        fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 4096)
        self.memory = one(self.client.call(IMPORT, fds=[fd])[1], 1)
        os.close(fd)
        self.assertTrue(self.context and self.memory)

    def tearDown(self):
        self.assertFalse(self.other.call(PING, message(f1=7))[0])
        check_turns(self.other.status())
        self.assertEqual(self.daemon.status()["worker_deaths"], 0)
        self.other.close()
        self.client.close()
        wait_for(lambda: f"{self.daemon.held()} to be {self.before}",
                 lambda: {**self.daemon.held(), "fds": min(self.daemon.held()["fds"], self.before["fds"])} == self.before)

    def say(self, kind, body, payload=b""):
        """It is answered, or ends the connection, and then another one goes on."""
        try:
            self.client.call(kind, body, payload=payload)
        except (AssertionError, ConnectionError) as e:
            if "the server has closed" not in str(e) and not isinstance(e, ConnectionError):
                raise
            self.client.close()
            self.begin()

    def sweep(self, kind, fields, wrap=lambda m: m, payload=b"", **good):
        """Each field with each end, and each pair of them with a few. `good`: what the others are."""
        for name in fields:
            for value in ENDS:
                self.say(kind, wrap(message(**{**good, name: value})), payload)
        for a, b in itertools.combinations(fields, 2):
            for x, y in itertools.product(FEW, FEW):
                self.say(kind, wrap(message(**{**good, a: x, b: y})), payload)

    def test_models(self):
        self.sweep(OFFER, ["f2"], f1=hashlib.sha256(b"other").digest(), f3=b"other")
        self.sweep(CHUNK, ["f2"], f1=SHA, payload=b"xyz")
        self.sweep(PULL, ["f2"], f1=SHA)
        self.sweep(OPEN, ["f2"], f1=SHA)
        for kind in (DESCRIBE, OPEN):
            for words in (b"\xff" * 4000, b"=\n" * 2000, b"\x1b[2J\0" * 600):
                self.say(kind, message(f1=SHA, f3=words, f2=words))

    def test_contexts(self):
        for kind in (DUP, CLOSE, PROFILE, CUSTOM_LIST, FREE, KILL, CANCEL):
            if kind != CANCEL:  # which has no answer
                self.sweep(kind, ["f1"])
        self.say(DUP, message(f1=self.context ^ 1 << 32))
        self.say(CLOSE, message(f1=self.context + (1 << 32)))

    def test_bindings(self):
        fields = ["f2", "f3", "f5", "f6", "f7", "f8", "f9", "f10", "f11"]
        for output in 0, 1:
            self.sweep(BIND, fields, f1=self.context, f2=output, f4=self.memory, f6=2, f7=1 - output)
            self.say(INFER, message(f1=self.context, f6=message(f1=64, f5=1)), INPUT)
        self.sweep(INTERNAL, ["f3"], f1=self.context, f2=self.memory)
        self.say(INFER, message(f1=self.context, f6=message(f1=64, f5=1)), INPUT)

    def test_memories(self):
        self.sweep(CREATE, ["f1", "f2"])

    def test_lists(self):
        for kind, fields in ((LOG, ["f1", "f2"]), (TRACE, ["f1"]), (LOG_LEVEL, ["f1"])):
            self.sweep(kind, fields)

    def test_runs(self):
        good = {"f1": self.context, "f6": message(f1=64, f5=1)}
        fields = ["f2", "f3", "f8", "f10", "f12", "f13", "f14"]
        self.sweep(INFER, fields, payload=INPUT, **good)
        for field in ("f1", "f2", "f3"):
            for value in ENDS:
                self.say(INFER, message(f1=self.context, f6=message(**{"f1": 64, "f5": 1, field: value})), INPUT)
        self.assertFalse(self.client.call(BIND, message(f1=self.context, f4=self.memory, f6=2, f7=1))[0])
        for a, b, c in itertools.product(FEW, FEW, FEW):  # what was written where into which
            self.say(INFER, message(f1=self.context, f6=b"", f9=message(f1=a, f2=b, f3=c)), INPUT)
            self.say(INFER, message(f1=self.context, f6=b"", f9=[message(f1=0, f2=b, f3=c), message(f1=0, f2=c, f3=b)]), INPUT)

    def test_dumps(self):
        """Of one that goes on the first part is looked at."""
        for name, value in itertools.product(("f2", "f3", "f8", "f10", "f12", "f13"), ENDS):
            run = message(**{"f1": self.context, "f6": message(f1=64, f5=1), name: value})
            for replace in 0, 1:
                self.say(DUMP, message(f1=run, f3=replace), INPUT)
                self.client.send(CANCEL, message(f1=self.client.id))


class ExtremesOfThreads(Extremes):
    isolation = "thread"


if __name__ == "__main__":
    unittest.main(verbosity=2)
