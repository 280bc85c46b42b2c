#!/usr/bin/python3
"""A user database that answers late, or never: it holds nobody but who is looked up, and him for a bounded time."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import tempfile
import unittest

from support.daemon import stalls
from support.service import BUILD, Daemon, PATIENCE, wait_for
from support.wire import AsUser, CREATE, GOODBYE, HEAD, HELLO, LIMITS, STATUS, check_turns, fields_of, message, sequence

SLOW, OTHER, OWNER, FIRST = 1005, 1006, 1007, 200000
THREADS = 8  # IDENTITY_THREADS
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Silent(AsUser):
    """HELLO is sent, and its answer not waited for."""

    def greet(self):
        self.id = 0
        self.payload = b""
        with contextlib.suppress(OSError):  # it is refused already
            self.send(HELLO, message(f1=1, f2=1, f3=1, f4=b"slow"))

    def goodbye(self):
        _, kind, _, _, _, size, _ = HEAD.unpack(self.take(HEAD.size))
        assert kind == GOODBYE, kind
        return fields_of(self.take(size))[1][0]


class SlowNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("other users take root")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x00020000) < 0:  # CLONE_NEWNS: nsswitch.conf is this process's own
            raise unittest.SkipTest(f"no mount namespace can be made here: {os.strerror(ctypes.get_errno())}")
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="rknnd-nss-")))
        (folder / "nsswitch.conf").write_text("passwd: files slownames\ngroup: files\nhosts: files dns\n")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", folder / "nsswitch.conf", "/etc/nsswitch.conf"], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "/etc/nsswitch.conf"], check=True)

    def setUp(self):
        self.names = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-names-")))
        self.subuid = self.names / "subuid"
        self.subuid.write_text("")
        self.name("uid", OTHER, "bob")
        self.clients = self.enterContext(contextlib.ExitStack())

    def name(self, kind, key, text):
        (self.names / f"{kind}.{key}").write_text(text)

    def hang(self, kind, key):
        """Until the test ends, or answers."""
        path = self.names / f"{kind}.{key}"
        os.mkfifo(path)
        self.addCleanup(self.answer, path, "")

    def answer(self, path, text):
        """All who wait for it."""
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_suffix(".answered"))
            with contextlib.suppress(OSError):  # nobody waits
                fd = os.open(path.with_suffix(".answered"), os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, text.encode())
                os.close(fd)

    def start(self, *options):
        self.daemon = Daemon("--subuid", self.subuid, "--limit", "memories=64", *options,
                             environment={"RKNND_NAMES": str(self.names),
                                          "LD_LIBRARY_PATH": str(BUILD / "tests/integration/nss")})
        self.addCleanup(self.daemon.stop)
        os.chmod(self.daemon.folder.name, 0o755)
        os.chmod(self.daemon.uri[5:], 0o777)

    def client(self, user, kind=AsUser):
        return self.clients.enter_context(contextlib.closing(kind(self.daemon, user)))

    def users(self):
        """Who is there, as root sees it, who never waits; and nothing has kept the loop."""
        c = self.client(0)
        check_turns(c.call(STATUS)[1])
        c.call(LIMITS)
        return {f[1][0].decode() for f in sequence(c.payload) if f[1]}

    def test_others_are_served_meanwhile(self):
        self.start()
        self.hang("uid", SLOW)
        slow = self.client(SLOW, Silent)
        self.assertIn("root", self.users())
        self.client(OTHER)
        self.assertIn("bob", self.users())
        slow.receive()  # by his number
        self.assertIn(str(SLOW), self.users())
        self.client(SLOW)  # of whom it is known that his name does not come

    def test_he_is_renamed(self):
        self.start()
        self.hang("uid", SLOW)
        self.client(SLOW)
        self.answer(self.names / f"uid.{SLOW}", "carol")
        wait_for("the name", lambda: "carol" in self.users())
        self.assertNotIn(str(SLOW), self.users())

    def test_rights_and_quotas_are_his_before(self):
        self.name("name", "carol", str(SLOW))
        self.start("--rights", "carol:run", "--quota", "carol:memories=3")
        self.hang("uid", SLOW)
        c = self.client(SLOW)
        self.assertTrue(c.call(LIMITS)[0], "who may only run asks for limits")
        self.assertEqual([bool(c.call(CREATE, message(f1=4096))[0]) for _ in range(4)], [False] * 3 + [True])

    def test_more_hang_than_there_are_threads(self):
        self.start()
        for user in range(2000, 2000 + THREADS + 4):
            self.hang("uid", user)
        many = [self.client(user, Silent) for user in range(2000, 2000 + THREADS + 4)]
        self.users()
        self.client(OTHER)
        for c in many:
            c.receive()
        self.answer(self.names / "uid.2000", "first")
        wait_for("its name", lambda: "first" in self.users())

    def test_whose_he_is_must_be_known(self):
        self.subuid.write_text(f"dave:{FIRST}:1000\n")
        self.start("--quota", "*:memories=5")
        self.hang("name", "dave")
        c = self.client(FIRST + 1, Silent)
        self.users()
        self.client(OTHER)
        self.assertIn(b"dave", c.goodbye())
        self.answer(self.names / "name.dave", str(OWNER))
        self.name("name", "dave", str(OWNER))

        def known():
            with contextlib.suppress(AssertionError, OSError):
                return self.client(FIRST + 1)
        c, n = wait_for("the owner", known), 0
        while not c.call(CREATE, message(f1=4096))[0]:
            n += 1
        other = self.client(OWNER)
        while not other.call(CREATE, message(f1=4096))[0]:
            n += 1
        self.assertEqual(n, 5)

    def test_an_owner_who_cannot_be_asked_for(self):
        self.subuid.write_text(f"dave:{FIRST}:1000\neve:{FIRST + 1000}:1000\n{OWNER}:{FIRST + 2000}:1000\n")
        self.name("name", "dave", "fails")
        self.start()
        with self.assertRaises((AssertionError, OSError)):
            self.client(FIRST)
        self.client(FIRST + 1000)  # there is no eve
        self.hang("uid", OWNER)
        self.client(FIRST + 2000)  # the number says it
        self.assertIn(str(OWNER), self.users())

    def test_who_waits_pays(self):
        """Of 32 connections 4 are kept; others find as much as he leaves."""
        self.start("--max-connections", "32")
        self.hang("uid", SLOW)
        for _ in range(40):
            self.client(SLOW, Silent)
        self.client(OTHER)
        self.users()

    def test_the_daemon_ends(self):
        for lookup in (("uid", SLOW), ("name", "dave")):
            self.subuid.write_text(f"dave:{FIRST}:1000\n")
            self.start()
            self.hang(*lookup)
            self.client(SLOW if lookup[0] == "uid" else FIRST, Silent)
            self.users()
            self.daemon.process.terminate()
            self.assertEqual(self.daemon.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
