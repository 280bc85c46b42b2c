#!/usr/bin/python3
"""Each message with each right missing, by TCP and by a local user: a refusal in words, and nothing of others in any byte."""
import contextlib
import hashlib
import os
import pwd
import re
import unittest

from support.paths import SOURCE
from support.service import Configured, free_port
from support.wire import (CHUNK, CREATE, Client, DEFAULT, FIND, HELLO, INFER, KILL, MANIFEST, OFFER, OPEN, PING, PULL, PUSH, REMOVE, STATS, message, one,
                          sequence)

RIGHTS = ["run", "see-own", "see-all", "kill", "debug", "push"]
MARKED, LOCAL = 10, 1002  # uucp on Debian, and one who has no rule but these
PROGRAM, FILE = b"markedprogram", "markedfile.rknn"
MARKS = (PROGRAM, FILE.encode(), pwd.getpwuid(MARKED).pw_name.encode())
DATA = os.urandom(700)
SHA = hashlib.sha256(DATA).digest()
PUSHED = message(f1=SHA, f2=b"net", f3=b"1")


def table():
    """Of each message: its number, the right that it needs ("": none), whether it is answered; from the server's own tables."""
    numbers = {name: int(n) for n, name in re.findall(r"X\((\d+), +(\w+),", (SOURCE / "protocol/message.h").read_text()) if int(n) < 128}
    rows = re.findall(r"X\((\w+), +\w+, +\w+, +(\w+), +(true|false),", (SOURCE / "server/handle/handle.h").read_text())
    assert {name for name, _, _ in rows} == set(numbers) and len(rows) > 30, "the tables of messages do not agree"
    found = [(numbers[name], "" if right == "ANYONE" else right.lower().replace("_", "-"), answered == "true")
             for name, right, answered in rows]
    assert {right for _, right, _ in found} == {"", *RIGHTS} - {"kill"}, "a right of which this test does not know"
    return sorted(found)


class Watched(Client):
    """Keeps all that comes."""

    def __init__(self, *where, program=b"watcher"):
        self.seen = bytearray()
        self.program = program
        super().__init__(*where)

    def greet(self):
        self.id, self.payload = 0, b""
        self.session = one(self.call(HELLO, message(f1=1, f2=1, f3=1, f4=b"test", f5=self.program))[1], 6)

    def take(self, size, fds=None):
        data = super().take(size, fds)
        self.seen += data
        return data

    def texts(self, fields):
        return b" ".join(v for values in fields.values() for v in values if isinstance(v, bytes)).decode(errors="replace")


class Rights(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("other users take root")
        self.port = free_port()
        self.lines = ["listen = unix:HERE/a", f"listen = tcp:127.0.0.1:{self.port}", "backend = null:784:40", "model-store = HERE/models"]
        self.daemon = Configured([*self.lines, f"rights = {MARKED}:run,see-own,push"])
        self.addCleanup(self.daemon.stop)
        os.chmod(self.daemon.path, 0o755)
        os.chmod(self.daemon.path / "a", 0o777)
        self.open = self.enterContext(contextlib.ExitStack())
        self.marked = self.client(MARKED, PROGRAM)
        for kind, body, payload in ((OFFER, message(f1=SHA, f2=len(DATA), f3=FILE.encode()), b""), (CHUNK, message(f1=SHA, f2=0), DATA),
                                    (PUSH, PUSHED, b""), (OPEN, message(f1=SHA), b""), (CREATE, message(f1=4096), b"")):
            failed, fields = self.marked.call(kind, body, payload=payload)
            self.assertFalse(failed, self.marked.texts(fields))

    def client(self, user, program=b"watcher"):
        """`user` None: by TCP."""
        class Socket:
            uri = self.daemon.uri()
        os.seteuid(user or 0)
        try:
            return self.open.enter_context(contextlib.closing(Watched(Socket, None if user else self.port, program=program)))
        finally:
            os.seteuid(0)

    def body(self, kind, c, rights, mine):
        """What would show something of the marked user's, if it were not refused; and its payload."""
        name = message(f1=b"net")
        bodies = {OFFER: message(f1=SHA, f2=len(DATA), f3=b"mine"), PUSH: message(f1=SHA, f2=mine, f3=b"1") if mine else PUSHED, FIND: name, MANIFEST: name,
                  REMOVE: message(f1=b"net", f2=b"9"), DEFAULT: name, PULL: message(f1=SHA), OPEN: message(f1=SHA),
                  CHUNK: message(f1=SHA), KILL: message(f1=c.session + 1000 if "kill" in rights else self.marked.session)}
        return bodies.get(kind, b""), DATA if kind == CHUNK else b""

    def check_all(self, user, rights):
        c, refused, answered_well = self.client(user), 0, set()
        rows = table()
        for i, (kind, right, answered) in enumerate(rows * 2):  # again: with a context of the marked user's model, and stored as one's own
            d = c if right and answered else self.client(user)
            body, payload = self.body(kind, d, rights, b"of%d" % (user or 0) if i >= len(rows) else b"")
            before = len(d.seen) if d is c else 0
            with self.subTest(user=user, rights=rights, message=kind):
                if not answered or not right:
                    d.send(kind, body)
                    with contextlib.suppress(AssertionError, ConnectionError):  # or it is told why, and its connection ends
                        d.call(PING, message(f1=7))
                else:
                    failed, fields = d.call(kind, body, payload=payload)
                    if right not in rights:
                        self.assertTrue(failed)
                        self.assertIn(f'lacks the right "{right}"', d.texts(fields))
                        refused += 1
                    elif not failed:
                        answered_well.add(kind)
                    if kind == KILL and "kill" not in rights:
                        self.assertTrue(failed)
                if "see-all" not in rights:
                    for mark in MARKS:
                        self.assertNotIn(mark, bytes(d.seen[before:]))
        return c.seen, refused, answered_well

    def test_each_right_missing(self):
        for without in [{right} for right in RIGHTS] + [set(RIGHTS), {"see-all", "push"}]:
            rights = [right for right in RIGHTS if right not in without]
            words = ",".join(rights) or "none"
            self.daemon.reload([*self.lines, f"rights = tcp:{words}", f"rights = {LOCAL}:{words}", f"rights = {MARKED}:run,see-own,push"])
            for user in (None, LOCAL):
                seen, refused, well = self.check_all(user, rights)
                if without != {"kill"} and without != {"see-own"}:
                    self.assertEqual(refused, 2 * sum(right in without for _, right, answered in table() if answered))
                if without == {"see-all"}:
                    self.assertLessEqual({OFFER, PUSH, FIND, MANIFEST, DEFAULT, PULL}, well)
                if without == {"push"}:  # what is looked for can be found
                    for mark in MARKS:
                        self.assertIn(mark, seen)
        self.assertFalse(self.marked.call(PING, message(f1=7))[0])

    def runs(self, c, context, n):
        for _ in range(n):
            failed, fields = c.call(INFER, message(f1=context, f6=message(f1=784, f5=1)), payload=bytes(784))
            self.assertFalse(failed, c.texts(fields))

    def test_a_shared_models_use_is_ones_own(self):
        """Who may not see all does not see how many others use his model, and when they do."""
        self.daemon.reload([*self.lines, f"rights = {MARKED}:run,see-own,push", f"rights = {LOCAL}:run,see-own", "rights = 1003:run,see-own,see-all"])
        mine = self.client(LOCAL)
        mine.call(OFFER, message(f1=SHA, f2=len(DATA), f3=b"mine"))
        mine.call(CHUNK, message(f1=SHA, f2=0), payload=DATA)
        self.runs(mine, one(mine.call(OPEN, message(f1=SHA))[1], 1), 2)
        self.runs(self.marked, one(self.marked.call(OPEN, message(f1=SHA))[1], 1), 3)
        for c, contexts, jobs in ((mine, 1, 2), (self.marked, 2, 3), (self.client(1003), 3, 5)):
            counts = c.call(STATS)[1]
            lines = list(sequence(c.payload))[one(counts, 2) + one(counts, 3):]
            self.assertEqual([(one(m, 2), one(m, 3)) for m in lines], [(contexts, jobs)])


if __name__ == "__main__":
    unittest.main()
