#!/usr/bin/python3
"""One person who is many: subordinate users of a namespace, addresses of the loopback interface."""
import contextlib
import os
import pathlib
import socket
import tempfile
import unittest

from support.service import Daemon, free_port
from support.wire import CREATE, Client, LIMITS, message, sequence

PERSON, OTHER, FIRST, COUNT = 1002, 1003, 200000, 1000


class AsUser(Client):
    """The kernel's word for who it is is as of connect(), by the effective user."""

    def __init__(self, daemon, user):
        os.seteuid(user)
        try:
            super().__init__(daemon)
        finally:
            os.seteuid(0)


class Subordinate(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("other users take root")
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-users-"))
        self.file = pathlib.Path(folder) / "subuid"
        self.file.write_text(f"nobody at all\n{PERSON}:{FIRST}:{COUNT}\n0:300000:10\n:::\n5:x:1\n")
        self.clients = self.enterContext(contextlib.ExitStack())

    def start(self, *options):
        self.daemon = Daemon("--subuid", self.file, "--limit", "memories=64", *options)
        self.addCleanup(self.daemon.stop)
        os.chmod(self.daemon.folder.name, 0o755)
        os.chmod(self.daemon.uri[5:], 0o777)

    def client(self, user):
        return self.clients.enter_context(contextlib.closing(AsUser(self.daemon, user)))

    def take_all(self, user):
        """How many memories he gets."""
        c, n = self.client(user), 0
        while not c.call(CREATE, message(f1=4096))[0]:
            n += 1
        return n

    def test_all_of_them_have_what_one_has(self):
        self.start()
        first = self.take_all(OTHER)  # of 64, of which 8 are kept
        self.assertGreater(first, 10)
        took = [self.take_all(user) for user in (PERSON, *range(FIRST, FIRST + 20))]
        self.assertGreater(took[0], 1)
        self.assertLessEqual(sum(took), first)
        self.assertGreater(self.take_all(1004), 0, "nothing is left for others")

    def test_roots_and_nobodys_are_users_of_their_own(self):
        self.start()
        for user in (300001, FIRST + COUNT):
            self.assertGreater(self.take_all(user), 0)
        c = self.client(0)
        c.call(LIMITS)
        users = {f[1][0] for f in sequence(c.payload) if f[1]}
        self.assertLessEqual({b"300001", b"%d" % (FIRST + COUNT)}, users)

    def test_his_quota_is_for_all(self):
        for who in (str(PERSON), "*"):
            self.start("--quota", f"{who}:memories=5")
            took = [self.take_all(user) for user in (FIRST, FIRST + 1, PERSON, FIRST + 2)]
            self.assertGreater(took[0], 0)
            self.assertEqual(sum(took), 5)

    def test_the_file_changes(self):
        self.start("--quota", "*:memories=5")
        self.assertLess(self.take_all(FIRST), 5)
        self.file.write_text(f"{OTHER}:{FIRST + 1}:1\n")
        self.assertEqual(self.take_all(FIRST + 1) + self.take_all(OTHER), 5)
        self.file.unlink()
        self.assertEqual(self.take_all(FIRST + 2), 5)

    def test_names_stay_their_own(self):
        self.start()
        c = self.client(FIRST)
        c.call(LIMITS)
        users = {f[1][0] for f in sequence(c.payload) if f[1]}
        self.assertIn(b"%d" % FIRST, users)


class Addresses(unittest.TestCase):
    def test_the_loopback_addresses_are_one(self):
        port = free_port()
        daemon = Daemon("--listen", f"tcp:127.0.0.1:{port}", "--limit", "memories=64")
        self.addCleanup(daemon.stop)
        took = []
        with contextlib.ExitStack() as stack:
            for n in range(2, 12):
                s = socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.{n}.{n}", 0))
                c = stack.enter_context(contextlib.closing(Client.over(s)))
                took.append(0)
                while not c.call(CREATE, message(f1=4096))[0]:
                    took[-1] += 1
            other = stack.enter_context(contextlib.closing(Client(daemon)))
            other.call(LIMITS)
            users = {f[1][0] for f in sequence(other.payload) if f[1]}
        self.assertEqual({u for u in users if u.startswith(b"tcp")}, {b"tcp 127.0.0.1"})
        self.assertGreater(took[0], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
