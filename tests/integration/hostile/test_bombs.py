#!/usr/bin/python3
"""Plugins that take all there is of something, and keep it: whose run it was is told so, and nobody else loses a run."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import tempfile
import threading
import unittest

from support.daemon import stalls
from support.service import BUILD, DIGITS, Daemon, wait_for
from support.wire import CHUNK, CLOSE, Client, INFER, OFFER, OPEN, message, one

from conformance import models as conformance

TASKS, MEMORY = 250, 600 << 20  # of the service's control group
USER = 64009
N_ELEMENTS = 3 * 6 * 5
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Group:
    """A control group of each of two controllers, which Daemon's process is put into."""

    def __init__(self):
        self.folders = []
        for controller, limits in ("pids", {"pids.max": TASKS}), ("memory", {"memory.limit_in_bytes": MEMORY, "memory.max": MEMORY}):
            folder = pathlib.Path(f"/sys/fs/cgroup/{controller}/rknnd-bombs-{os.getpid()}")
            folder.mkdir()
            self.folders.append(folder)
            for name, value in limits.items():
                if (folder / name).exists():
                    (folder / name).write_text(str(value))

    def take(self, pid):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def end(self):
        for folder in self.folders:
            with contextlib.suppress(FileNotFoundError):
                wait_for(f"{folder} to be empty", lambda folder=folder: not (folder / "cgroup.procs").read_text())
                folder.rmdir()


class Polite(threading.Thread):
    """Runs a small model again and again; what went wrong is in `error`."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.client, self.error, self.runs, self.over = Client(daemon), None, 0, False
        self.context = Bombs.open(self.client, DIGITS.read_bytes())

    def run(self):
        right = None
        try:
            while not self.over:
                failed, fields = self.client.call(INFER, message(f1=self.context, f6=message(f1=64, f5=1)), payload=bytes(64))
                assert not failed, fields
                right = right or self.client.payload
                assert right == self.client.payload, "a wrong answer"
                self.runs += 1
        except (OSError, AssertionError) as e:
            self.error = e


class Bombs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bombs-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        conformance.custom().save(self.folder / "custom.rknn")

    @staticmethod
    def open(client, data):
        digest = hashlib.sha256(data).digest()
        client.call(OFFER, message(f1=digest, f2=len(data), f3=b"model"))
        client.call(CHUNK, message(f1=digest, f2=0), payload=data)
        failed, fields = client.call(OPEN, message(f1=digest))
        assert not failed, fields
        return one(fields, 1)

    def group(self):
        if os.geteuid() != 0:
            self.skipTest("control groups take root")
        try:
            group = Group()
        except OSError as e:
            self.skipTest(f"no control group can be made: {e}")
        self.addCleanup(group.end)
        return group

    def daemon(self, kind, *options, **more):
        shutil.copy(BUILD / f"tests/integration/libplugin_bomb_{kind}.so", self.folder / "librkcst_bomb.so")
        with (self.folder / "log").open("wb") as said:
            daemon = Daemon("--plugin-dir", self.folder, "--job-timeout-ms", "3000", "--model-cache", "0", "--worker-idle", "0", *options, stderr=said, **more)
        self.addCleanup(daemon.stop)
        return daemon

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def explode(self, kind, *options):
        """Of the run whose plugin does it the answer, as words, and what the daemon had logged."""
        group = self.group()
        daemon = self.daemon(kind, *options)
        group.take(daemon.process.pid)
        before = daemon.held()
        polite = Polite(daemon)
        self.addCleanup(polite.client.close)
        polite.start()
        client = Client(daemon)
        context = self.open(client, (self.folder / "custom.rknn").read_bytes())
        size = 2 * N_ELEMENTS
        failed, fields = client.call(INFER, message(f1=context, f6=message(f1=size, f5=1)), payload=bytes(size))
        self.assertTrue(failed)
        runs = polite.runs
        wait_for("the polite program to go on", lambda: polite.runs > runs + 10 or polite.error)
        client.call(CLOSE, message(f1=context))
        client.close()
        with contextlib.closing(Client(daemon)) as later:  # a worker can be started
            self.open(later, DIGITS.read_bytes() + b"other")
        polite.over = True
        polite.join()
        polite.client.close()
        self.assertIsNone(polite.error)
        wait_for(lambda: f"{daemon.held()} to be {before}", lambda: daemon.held() == before)
        self.assertIn("bomb: begins", self.log())
        return one(fields, 2).decode(), self.log()

    def comes_in(self, daemon):
        """Somebody else, with a model that needs a worker."""
        with contextlib.closing(Client(daemon)) as other:
            return self.open(other, DIGITS.read_bytes() + os.urandom(8))

    def hoard(self, kind, daemon):
        """A worker that has all threads, for as long as it likes, has to give way to others."""
        polite = Polite(daemon)
        self.addCleanup(polite.client.close)
        polite.start()
        with contextlib.closing(Client(daemon)) as client:
            context = self.open(client, (self.folder / "custom.rknn").read_bytes())
            client.send(INFER, message(f1=context, f6=message(f1=2 * N_ELEMENTS, f5=1)), payload=bytes(2 * N_ELEMENTS))
            wait_for(f"{kind} to have all", lambda: "bomb: has all" in self.log())
            wait_for("its second try to end", lambda: self.comes_in(daemon) and "tried 2 times" in self.log())
            _, failed, fields = client.receive()
        self.assertTrue(failed)
        polite.over = True
        polite.join()
        self.assertIsNone(polite.error)
        self.assertRegex(one(fields, 2).decode(), r"it had \d+ threads, where a model is counted as \d+")

    def test_memory(self):
        words, _ = self.explode("memory", "--job-timeout-ms", "60000")
        self.assertIn("died by signal 9", words)

    def test_threads(self):
        words, log = self.explode("threads")
        self.assertIn("took too long", words)
        self.assertIn("bomb: has all", log)

    def hoard_beside_root(self, kind):
        group = self.group()
        daemon = self.daemon(kind, "--job-timeout-ms", "600000")
        group.take(daemon.process.pid)
        self.hoard(kind, daemon)

    def hoard_beside_a_user(self, kind):
        if os.geteuid() != 0:
            self.skipTest("another user takes root")
        os.chmod(self.folder, 0o755)
        daemon = self.daemon(kind, "--job-timeout-ms", "600000", user=USER, processes=TASKS)
        self.hoard(kind, daemon)

    def test_hoards(self):
        """None are left, or so few that a worker can start and cannot begin."""
        self.hoard_beside_root("threads")

    def test_hoards_but_few(self):
        self.hoard_beside_root("hoard")

    def test_hoards_of_a_user(self):
        self.hoard_beside_a_user("threads")

    def test_hoards_of_a_user_but_few(self):
        self.hoard_beside_a_user("hoard")

    def test_liar(self):
        """A worker that says that it has no threads, long after its start, has nobody else's ended."""
        daemon = self.daemon("liar")
        data, run = (self.folder / "custom.rknn").read_bytes(), message(f6=message(f1=2 * N_ELEMENTS, f5=1))
        with contextlib.closing(Client(daemon)) as victim, contextlib.closing(Client(daemon)) as liar:
            for client, runs in (victim, 1), (liar, 2):
                context = self.open(client, data + bytes(runs))
                for _ in range(runs):
                    failed, fields = client.call(INFER, message(f1=context) + run, payload=bytes(2 * N_ELEMENTS))
                    self.assertFalse(failed, fields)
            self.assertEqual(daemon.status()["worker_deaths"], 1)

    def test_files(self):
        words, log = self.explode("files")
        self.assertIn("took too long", words)
        self.assertIn("bomb: has all", log)

    def test_words(self):
        words, log = self.explode("words")
        self.assertIn("took too long", words)
        self.assertLess(len(log), 64 << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
