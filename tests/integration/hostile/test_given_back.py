#!/usr/bin/python3
"""Memory that has ended: giving it back keeps nobody waiting, and until it has gone it is somebody's."""
import hashlib
import mmap
import os
import unittest

from support.daemon import stalls
from support.service import DIGITS, Daemon, wait_for
from support.wire import (BIND, CHUNK, CLOSE, CREATE, Client, FREE, INFER, LIMITS, OFFER, OPEN, PING, check_turns, message,
                          one, sequence)

MUCH = 640 << 20  # that takes a kernel 100 ms to take back
PART = 256 << 10
INT8 = 2  # tensor/tensor.h
setUpModule = stalls.watch  # pylint: disable=invalid-name


def sha(data):
    return hashlib.sha256(data).digest()


class GivenBack(unittest.TestCase):
    isolation = "process"

    def setUp(self):
        self.daemon = Daemon("--isolation", self.isolation, "--upload-ttl", "0", "--model-cache", "0", "--worker-idle", "0")
        self.addCleanup(self.daemon.stop)
        self.client, self.other = Client(self.daemon), Client(self.daemon)

    def tearDown(self):
        self.client.close()
        check_turns(self.other.status())
        self.other.close()

    def create(self, size):
        """A memory's handle, and its descriptor."""
        fds = []
        self.client.send(CREATE, message(f1=size))
        _, _, fields = self.client.receive(fds)
        self.assertTrue(fds, fields)
        return one(fields, 1), fds[0]

    def create_full(self, size):
        handle, fd = self.create(size)
        with mmap.mmap(fd, size) as memory:
            for at in range(0, size, 16 << 20):
                part = min(size - at, 16 << 20)
                memory[at:at + part] = b"\1" * part
        os.close(fd)
        return handle

    def open(self):
        data = DIGITS.read_bytes()
        self.client.call(OFFER, message(f1=sha(data), f2=len(data), f3=b"digits"))
        self.client.call(CHUNK, message(f1=sha(data), f2=0), payload=data)
        failed, fields = self.client.call(OPEN, message(f1=sha(data)))
        self.assertFalse(failed, fields)
        return one(fields, 1)

    def used(self, key=b"bytes"):
        """By all together."""
        self.other.call(LIMITS)
        return sum(one(f, 5) for f in sequence(self.other.payload) if not f[1] and one(f, 2) == key)

    def test_a_memory_that_ends(self):
        handle = self.create_full(MUCH)
        self.assertFalse(self.client.call(FREE, message(f1=handle))[0])
        self.assertFalse(self.other.call(PING)[0])
        wait_for("it to be given back", lambda: self.used() == 0)

    def test_a_program_that_ends(self):
        self.create_full(MUCH)
        self.client.close()
        wait_for("it to be given back", lambda: self.used() == 0)

    def test_a_program_that_ends_with_many(self):
        """None of them is large."""
        size = 3900000
        for _ in range(MUCH // size):
            self.create_full(size)
        self.client.close()
        wait_for("them to be given back", lambda: self.used() == 0)

    def upload(self, digest, size):
        """All of it but the last part."""
        part = bytes(PART)
        self.client.call(OFFER, message(f1=digest, f2=size, f3=b"large"))
        for at in range(0, size - PART, PART):
            self.client.send(CHUNK, message(f1=digest, f2=at), payload=part)
            if at % (16 * PART) == 0:
                self.client.call(PING)
        self.client.call(PING)

    def test_an_upload_that_ends(self):
        self.upload(sha(b"none"), MUCH)
        self.client.close()
        wait_for("it to be dropped", lambda: self.daemon.status()["uploads"] == 0)
        self.assertFalse(self.other.call(PING)[0])

    def test_an_upload_that_is_complete(self):
        """Is unmapped, so that it can be sealed, and sealed before anybody has it."""
        size = 3 * MUCH
        digest = hashlib.sha256()
        for _ in range(size // PART):
            digest.update(bytes(PART))
        self.upload(digest.digest(), size)
        failed, fields = self.client.call(CHUNK, message(f1=digest.digest(), f2=size - PART), payload=bytes(PART))
        self.assertEqual((failed, one(fields, 1), one(fields, 2)), (False, size, 1), fields)

    def test_what_a_binding_keeps_is_paid_for(self):
        """Its handle has been freed, and others could be had in its place, without end."""
        size, context = 16 << 20, self.open()
        handle, fd = self.create(size)
        os.close(fd)
        before = self.used()
        self.assertGreaterEqual(before, size)
        failed, fields = self.client.call(BIND, message(f1=context, f2=0, f3=0, f4=handle, f6=INT8, f7=1))
        self.assertFalse(failed, fields)
        self.assertFalse(self.client.call(FREE, message(f1=handle))[0])
        self.assertEqual(self.used(), before)
        failed, fields = self.client.call(INFER, message(f1=context, f6=b""))
        self.assertFalse(failed, fields)
        self.assertFalse(self.client.call(CLOSE, message(f1=context))[0])
        wait_for("it to be given back", lambda: self.used() == 0)

    def test_buffers_of_runs_that_have_ended(self):
        """Hundreds are in use at once, of a worker that stays: only some of them stay with it."""
        clients = [self.client] + [Client(self.daemon) for _ in range(15)]
        context = [self.open()]
        contexts = context + [one(c.call(OPEN, message(f1=sha(DIGITS.read_bytes())))[1], 1) for c in clients[1:]]
        for c, x in zip(clients, contexts):
            for _ in range(60):
                c.send(INFER, message(f1=x, f6=message(f1=64, f5=1)), payload=bytes(64))
        for c in clients:
            for _ in range(60):
                c.receive()
        self.assertLessEqual(self.daemon.status()["buffer_bytes"], 256 * 8192)
        for c in clients[1:]:
            c.close()


class GivenBackByThreads(GivenBack):
    isolation = "thread"
    test_an_upload_that_ends = test_an_upload_that_is_complete = None  # uploads know nothing of it


if __name__ == "__main__":
    unittest.main(verbosity=2)
