#!/usr/bin/python3
"""Workers that a model has broken, and that say what they like: between a model's worker and the daemon its answers are changed, to
extremes of every field and by chance (RKNND_SEED repeats it). The daemon lives, keeps no one waiting, and gives back all that the
worker was good for; a polite program beside it loses nothing. By hand: --rounds N."""
import hashlib
import os
import random
import socket
import sys
import tempfile
import threading
import unittest

from support.daemon import stalls
from integration.client.liar import Liar
from support.seed import seed
from support.service import BUILD, DIGITS, SANITIZED, Daemon, wait_for
from support.wire import (CHUNK, CLOSE, Client, DESCRIBE, DUMP, DUMP_NEXT, DUP, ERROR, HEAD, INFER, MAGIC, METRICS, MORE, OFFER, OPEN, PROFILE, REPLY, STATS,
                          check_turns, fields_of, message, one)

W_START, W_LOAD, W_DESCRIBE, W_OPEN, W_CLOSE, W_BUFFER, W_BUFFER_FREE, W_RUN, W_PROFILE, W_DUMP = range(128, 138)
NAMED = {W_LOAD: 2, W_DESCRIBE: 2}  # requests with the model's name, and its field
INPUT = bytes(64)
LIAR = b"liar"
MOST = (1 << 64) - 1
ROUNDS = 8 if SANITIZED else 20
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Between:
    """Whoever the workers of a daemon have stepped aside for."""

    def __init__(self, folder):
        self.path = f"{folder}/between"
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(self.path)
        os.chmod(self.path, 0o777)
        self.door.listen(64)
        self.says = lambda head, body, payload: head + body + payload
        self.environment = {"RKNND_BETWEEN": self.path, "LD_PRELOAD": str(BUILD / "tests/integration/libbetween.so")}
        if SANITIZED:
            self.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            worker, _ = self.door.accept()
            with worker:
                _, fds, _, _ = socket.recv_fds(worker, 1, 2)
            if fds:  # else it was killed
                threading.Thread(target=Pair(self, *(socket.socket(fileno=fd) for fd in fds)).live, daemon=True).start()


class Pair:
    """One worker, and its daemon."""

    def __init__(self, between, daemon, worker):
        self.between, self.daemon, self.worker = between, daemon, worker
        self.lies = False  # this is the model's

    def live(self):
        other = threading.Thread(target=self.to_worker, daemon=True)
        other.start()
        self.to_daemon()
        other.join()
        self.daemon.close()
        self.worker.close()

    @staticmethod
    def take(source, n, fds):
        data = bytearray()
        while len(data) < n:
            part, more, _, _ = socket.recv_fds(source, n - len(data), 4)
            fds += more
            if not part:
                raise ConnectionError
            data += part
        return bytes(data)

    def frames(self, source):
        fds = []
        while True:
            head = self.take(source, HEAD.size, fds)
            *_, n_message, n_payload = HEAD.unpack(head)
            yield head, self.take(source, n_message, fds), self.take(source, n_payload, fds), fds
            for fd in fds:
                os.close(fd)
            fds.clear()

    def over(self):
        for s in self.daemon, self.worker:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def to_worker(self):
        try:
            for head, body, payload, fds in self.frames(self.daemon):
                kind = HEAD.unpack(head)[1]
                if kind in NAMED:
                    self.lies = one(fields_of(body), NAMED[kind], b"") == LIAR
                self.pass_on(self.worker, head + body + payload, fds)
        except OSError:
            self.over()

    def to_daemon(self):
        try:
            for head, body, payload, fds in self.frames(self.worker):
                kind = HEAD.unpack(head)[1]
                said = [head + body + payload]
                if self.lies and kind != W_START:
                    said = self.between.says(head, body, payload)
                    said = [said] if isinstance(said, bytes) else said
                if said is None:
                    break
                for s in said:
                    self.pass_on(self.daemon, s, fds)
        except OSError:
            pass
        self.over()

    @staticmethod
    def pass_on(to, data, fds):
        if fds:
            sent = socket.send_fds(to, [data], fds)
            data = data[sent:]
        to.sendall(data)


def frame(head, body=b"", payload=b"", flags=None):
    """With the header's type and number."""
    _, kind, had, zero, number, _, _ = HEAD.unpack(head)
    return HEAD.pack(MAGIC, kind, had if flags is None else flags, zero, number, len(body), len(payload)) + body + payload


class LyingWorker(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-test-"))
        os.chmod(folder, 0o755)
        self.between = Between(folder)
        self.daemon = Daemon("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0", "--job-timeout-ms", "1500", "--load-timeout-ms", "4000", "--log-level", "0",
                             environment=self.between.environment)
        self.addCleanup(self.daemon.stop)
        self.before = self.daemon.held()
        self.polite = Client(self.daemon)
        self.polite_context = self.open(self.polite, b"polite")
        self.assertFalse(self.run_of(self.polite, self.polite_context)[0])
        self.right = self.polite.payload
        self.assertTrue(self.right)

    def tearDown(self):
        self.check("the end")
        self.polite.close()
        wait_for(lambda: f"{self.daemon.held()} to be {self.before}", lambda: {**self.daemon.held(), "fds": 0} == {**self.before, "fds": 0})

    def check(self, what):
        failed, fields = self.run_of(self.polite, self.polite_context, f3=60000, f14=1)
        self.assertEqual((failed, self.polite.payload), (False, self.right), (what, fields))
        try:
            check_turns(self.polite.status())
        except AssertionError as e:
            raise AssertionError(f"{what}: {e}") from None

    @staticmethod
    def open(client, name, extra=b""):
        """Its context; 0: it was refused."""
        data = DIGITS.read_bytes() + name + extra
        sha = hashlib.sha256(data).digest()
        client.call(OFFER, message(f1=sha, f2=len(data), f3=name))
        client.call(CHUNK, message(f1=sha, f2=0), payload=data)
        client.sha = sha
        failed, fields = client.call(OPEN, message(f1=sha))
        client.words = fields
        return 0 if failed else one(fields, 1)

    @staticmethod
    def run_of(client, context, **more):
        return client.call(INFER, message(f1=context, f6=message(f1=len(INPUT), f5=1), **more), payload=INPUT)

    def live(self):
        """All that a worker can be asked, on its model; whatever comes of each."""
        c = Client(self.daemon)
        try:
            context = self.open(c, LIAR)
            for _ in range(2):
                self.run_of(c, context)
                self.run_of(c, context, f4=1)
                c.call(PROFILE, message(f1=context))
            c.call(DESCRIBE, message(f1=c.sha))
            c.call(DUP, message(f1=context))
            for kind in STATS, METRICS:
                c.call(kind)
            dump = c.send(DUMP, message(f1=message(f1=context, f6=message(f1=len(INPUT), f5=1))), payload=INPUT)
            for _ in range(100):  # a dump may go on for ever
                number, failed, fields = c.receive()
                if number == dump and (failed or not fields[2]):
                    break
                c.send(DUMP_NEXT, message(f1=dump))
            c.call(CLOSE, message(f1=context))
        finally:
            c.close()

    def lie(self, what, kind, said):
        """What is said in place of this message's right answers."""
        self.between.says = lambda head, body, payload: said(head, body, payload) if HEAD.unpack(head)[1] == kind else head + body + payload
        self.live()
        self.check(what)

    def test_each_number(self):
        """At its ends, behind the right ones, which it replaces."""
        numbers = {W_LOAD: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19), W_RUN: (1, 2, 3, 5, 6, 7), W_PROFILE: (1, 2), W_DUMP: (1, 5, 6, 7, 9), W_OPEN: (1,)}
        for kind, fields in numbers.items():
            for n in fields:
                for value in (0, 0x7fffffff, 1 << 62, MOST):
                    self.lie(f"{kind}.{n} = {value}", kind, lambda head, body, payload, n=n, value=value: frame(head, body + message(**{f"f{n}": value}), payload))

    def test_long_lists(self):
        """As many entries as a payload has room for."""
        much = (64 << 20) - 4096
        node = message(f1=b"n", f2=b"o", f4=0, f5=0, f6=256)
        nodes = b"".join(bytes([len(node)]) + node + bytes(256) for _ in range(1024))
        io = message(f1=message(f2=1))
        lists = {
            "layers": (W_PROFILE, lambda head, body, payload: frame(head, message(f1=much), bytes(much))),
            "layers, too few": (W_PROFILE, lambda head, body, payload: frame(head, message(f1=1), bytes(much))),
            "custom operators": (W_LOAD, lambda head, body, payload: frame(head, body + message(f12=1024), nodes + payload)),
            "tensors": (W_LOAD, lambda head, body, payload: frame(head, body + message(f2=128, f3=128, f13=16), (bytes([len(io)]) + io) * 4096)),
            "a description": (W_DESCRIBE, lambda head, body, payload: frame(head, b"", b"[" * much)),
        }
        for name, (kind, said) in lists.items():
            with self.subTest(name):
                self.lie(name, kind, said)

    def test_runs_that_took_for_ever(self):
        """Whoever says so keeps nobody else from what is to be in time."""
        hours = 10 * 3600 * 1000000
        self.between.says = lambda head, body, payload: frame(head, message(f1=hours)) if HEAD.unpack(head)[1] == W_RUN else head + body + payload
        c = Client(self.daemon)
        context = self.open(c, LIAR)
        for _ in range(3):
            self.assertFalse(self.run_of(c, context, f2=7)[0])
        self.between.says = lambda head, body, payload: [] if HEAD.unpack(head)[1] == W_RUN else head + body + payload
        c.send(INFER, message(f1=context, f2=7, f6=message(f1=len(INPUT), f5=1)), payload=INPUT)
        wait_for("it to run", lambda: self.daemon.status()["jobs_running"])
        self.check("runs that took for ever")
        stats = self.daemon.rknnctl("stats", "--json").stdout
        self.assertNotIn(str(hours)[:-6], stats)
        c.close()

    def test_answers_without_end(self):
        for what, said in (("twice", lambda head, body, payload: frame(head, body, payload) * 2),
                           ("for ever", lambda head, body, payload: frame(head, body, payload) * 2000),
                           ("more", lambda head, body, payload: frame(head, message(f7=1), b"", REPLY | MORE) * 2000),
                           ("calls", lambda head, body, payload: frame(head, message(f4=message(f1=0, f2=0)), b"", REPLY | MORE) * 2000),
                           ("failures", lambda head, body, payload: frame(head, message(f1=1, f2=b"\xff" * 479), b"", REPLY | ERROR))):
            for kind in W_LOAD, W_OPEN, W_RUN, W_DUMP, W_PROFILE, W_DESCRIBE:
                self.lie(f"{what}, {kind}", kind, said)

    def test_answers_that_do_not_come(self):
        """Whoever waits hears of it, also where its worker lives for long before it hangs again."""
        c = Client(self.daemon)
        for kind in W_OPEN, W_PROFILE:
            context = self.open(c, LIAR)
            self.assertTrue(context and not self.run_of(c, context, f4=1)[0], c.words)
            self.between.says = lambda head, body, payload, kind=kind: b"" if HEAD.unpack(head)[1] == kind else head + body + payload
            failed, fields = c.call(DUP if kind == W_OPEN else PROFILE, message(f1=context))
            self.assertTrue(failed)
            self.assertIn(b"tried in vain", fields[2][0])
            self.between.says = lambda head, body, payload: head + body + payload
            self.assertFalse(self.run_of(c, context)[0], "it is as it was")
            self.check(f"nothing, {kind}")
        c.close()

    def test_by_chance(self):
        rng = random.Random(seed())
        for n in range(ROUNDS):
            liar = Liar(random.Random(rng.random()))
            self.between.says = liar.frames
            self.live()
            self.check(f"round {n}")


if __name__ == "__main__":
    if "--rounds" in sys.argv:
        at = sys.argv.index("--rounds")
        ROUNDS = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    unittest.main(verbosity=2)
