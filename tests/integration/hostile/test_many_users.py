#!/usr/bin/python3
"""One person who is many: subordinate users of a namespace, addresses of the loopback interface."""
import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

from support.service import BUILD, Daemon, free_port, wait_for
from support.wire import AsUser, CREATE, Client, LIMITS, LOG_LEVEL, message, sequence

PERSON, OTHER, FIRST, COUNT = 1002, 1003, 200000, 1000


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


class Namespace(unittest.TestCase):
    def test_whom_the_servers_namespace_does_not_have(self):
        """All of them are "nobody" to the kernel: not the service, where that is nobody, too."""
        if os.geteuid() != 0:
            self.skipTest("other users take root")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-users-")))
        os.chown(folder, PERSON, PERSON)
        os.chmod(folder, 0o755)
        as_nobody = ["setpriv", f"--reuid={PERSON}", f"--regid={PERSON}", "--clear-groups", "unshare", "--map-user=65534", "--map-group=65534"]
        if subprocess.run([*as_nobody, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no user namespace can be made here")
        daemon = subprocess.Popen([*as_nobody, BUILD / "bin/rknnd", "--backend", "null:64:64", "--listen", f"unix:{folder}/socket"])
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        wait_for("the socket", (folder / "socket").exists)
        os.chmod(folder / "socket", 0o777)

        class Where:
            uri = f"unix:{folder}/socket"
        for user in (PERSON, OTHER):  # who cannot be told from each other
            with contextlib.closing(AsUser(Where, user)) as c:
                self.assertTrue(c.call(LOG_LEVEL, message(f1=3))[0], f"user {user} is an operator")
                self.assertFalse(c.call(LIMITS)[0])


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
