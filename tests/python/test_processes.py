"""Signals, processes and the end: what a program may do to a session from outside, and what is left of it."""
import contextlib
import faulthandler
import gc
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
import rknnd

from support.paths import DIGITS
from support.service import Daemon, wait_for

COLUMN = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1) * 4


def setUpModule():
    faulthandler.dump_traceback_later(200, exit=True)  # something that waits for ever says where


def work(job):
    uri, shift = job
    with rknnd.Session(DIGITS, uri) as session:
        return session.run(COLUMN + shift)[0].tolist()


def in_child(call):
    """Exit code of a forked child that makes the call; what it raises is printed, and is 1."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            call()
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class WithDaemon(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.before = self.daemon.held()

    def tearDown(self):
        gc.collect()
        names = ("sessions", "contexts", "jobs_running", "jobs_waiting")

        def held():
            now = self.daemon.held()
            return all(now[name] == self.before[name] for name in names)
        wait_for(lambda: f"the server to be as before, not {self.daemon.held()}", held)
        self.daemon.stop()

    @contextlib.contextmanager
    def stopped(self):
        """The daemon answers nothing."""
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)


class Interrupts(WithDaemon):
    def setUp(self):
        super().setUp()
        self.old = signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C

    def tearDown(self):
        signal.signal(signal.SIGALRM, self.old)
        super().tearDown()

    def interrupted(self, call):
        """The call, of a server that does not answer, ends with the signal."""
        with self.stopped(), self.assertRaises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def test_run_and_again(self):
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            expected = [session.run(COLUMN + i)[0] for i in range(3)]
            for i in range(3):
                self.interrupted(lambda: session.run(COLUMN))
                np.testing.assert_array_equal(session.run(COLUMN + i)[0], expected[i])

    def test_every_other_call(self):
        uri = self.daemon.uri
        golden = rknnd.Session(DIGITS, "sim:").golden(COLUMN)
        calls = {
            "Session": lambda s: rknnd.Session(DIGITS, uri),
            "Model": lambda s: rknnd.Model(DIGITS.read_bytes() + b"\0" * 100, uri),
            "tensors": lambda s: list(s.tensors(COLUMN)),
            "golden": lambda s: s.golden(COLUMN),
            "compare": lambda s: s.compare(golden, COLUMN),
            "bind": lambda s: s.bind("image"),
            "create_memory": lambda s: s.create_memory(64),
            "server": lambda s: rknnd.server(uri),
            "status": lambda s: rknnd.status(uri),
            "ping": lambda s: rknnd.ping(uri),
            "clocks": lambda s: rknnd.clocks(uri),
            "describe": lambda s: rknnd.describe(DIGITS, uri),
        }
        for name, call in calls.items():
            with self.subTest(name), rknnd.Session(DIGITS, uri) as session:
                self.interrupted(lambda: call(session))

    def test_handler_that_returns_changes_nothing(self):
        signals = []
        old = signal.signal(signal.SIGALRM, lambda *_: (signals.append(1), len(signals) == 3 and os.kill(
            self.daemon.process.pid, signal.SIGCONT)))
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            expected, = session.run(COLUMN)
            with self.stopped():
                signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
                answer, = session.run(COLUMN)
                signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        self.assertGreaterEqual(len(signals), 3)
        np.testing.assert_array_equal(answer, expected)

    def test_signals_without_end_do_not_keep_it_waiting(self):
        """Each of them ends the wait in the kernel, so that the program is asked; the server goes on in the end, for a call that is not."""
        signals = []

        def handler(*_):
            signals.append(1)
            if len(signals) == 3:
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        goes_on = threading.Timer(5, os.kill, (self.daemon.process.pid, signal.SIGCONT))
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            session.run(COLUMN)
            with self.stopped(), self.assertRaises(KeyboardInterrupt):
                goes_on.start()
                signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
                session.run(COLUMN)
        goes_on.cancel()


class Threads(WithDaemon):
    def test_others_go_on_while_one_waits(self):
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            expected, = session.run(COLUMN)
            answers = []
            thread = threading.Thread(target=lambda: answers.append(session.run(COLUMN)[0]))
            with self.stopped():
                thread.start()
                counted = sum(1 for _ in range(2_000_000))  # would never end if the thread kept the lock
            thread.join()
            self.assertEqual(counted, 2_000_000)
            np.testing.assert_array_equal(answers[0], expected)

    def test_closed_while_another_thread_runs(self):
        session = rknnd.Session(DIGITS, self.daemon.uri)
        raised = []

        def run():
            try:
                while True:
                    session.run(COLUMN)
            except rknnd.Error as error:
                raised.append(error)
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        session.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(raised), 8)

    def test_dead_server(self):
        daemon = Daemon()
        session = rknnd.Session(DIGITS, daemon.uri)
        daemon.stop()
        with self.assertRaisesRegex(rknnd.ServerError, daemon.uri):
            session.run(COLUMN)
        session.close()


class Processes(WithDaemon):
    def test_fork(self):
        session = rknnd.Session(DIGITS, self.daemon.uri)
        expected, = session.run(COLUMN)

        def child():
            try:
                session.run(COLUMN)
                raise AssertionError("the parent's session must not work here")
            except rknnd.Error:
                pass
            with rknnd.Session(DIGITS, self.daemon.uri) as own:
                np.testing.assert_array_equal(own.run(COLUMN)[0], expected)
        self.assertEqual([in_child(child) for _ in range(5)], [0] * 5)
        np.testing.assert_array_equal(session.run(COLUMN)[0], expected)
        session.close()

    def test_fork_while_threads_run(self):
        end, wrong = threading.Event(), []
        with rknnd.Session(DIGITS, self.daemon.uri, contexts=2) as session:
            expected, = session.run(COLUMN)

            def run():
                while not end.is_set():
                    if not np.array_equal(session.run(COLUMN)[0], expected):
                        wrong.append(1)
            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            codes = [in_child(lambda: work((self.daemon.uri, 0))) for _ in range(10)]
            end.set()
            for thread in threads:
                thread.join()
        self.assertEqual((codes, wrong), ([0] * 10, []))

    def test_pools(self):
        jobs = [(self.daemon.uri, i) for i in range(12)]
        expected = [work(job) for job in jobs]
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(4) as pool:
                self.assertEqual(pool.map(work, jobs), expected)


ALL_OPEN = """
import asyncio, os, sys, threading
import numpy as np, rknnd
uri, model, how = sys.argv[1:]
x = np.zeros((1, 8, 8, 1), np.uint8)
sessions = [rknnd.Session(model, uri, contexts=2) for _ in range(3)]
sessions[0].cycle = sessions
bound = rknnd.Session(model, uri)
image = bound.bind("image")
left = sessions[1].tensors(x)
next(left)
def run():
    while True:
        sessions[0].run(x)
for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
async def leave():
    futures = [sessions[2].run_async(x) for _ in range(20)]
    await futures[0]
asyncio.run(leave())
if how == "raise":
    raise SystemExit(3)
if how == "kill":
    os.kill(os.getpid(), 15)
"""


class Exit(WithDaemon):
    def test_with_everything_open(self):
        for how, code in ("end", 0), ("raise", 3), ("kill", -signal.SIGTERM):
            for _ in range(3):
                with self.subTest(how):
                    done = subprocess.run([sys.executable, "-c", ALL_OPEN, self.daemon.uri, str(DIGITS), how],
                                          capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertNotRegex(done.stderr, "Traceback|Fatal")


class Leaks(WithDaemon):
    @staticmethod
    def resident():
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_runs(self):
        with rknnd.Session(DIGITS, self.daemon.uri) as session:
            for _ in range(500):
                session.run(COLUMN)
            before, fds = self.resident(), len(os.listdir("/proc/self/fd"))
            for _ in range(5000):
                session.run(COLUMN)
            self.assertLess(self.resident() - before, 1 << 20)
            self.assertEqual(len(os.listdir("/proc/self/fd")), fds)

    def test_sessions(self):
        def once():
            with rknnd.Session(DIGITS, self.daemon.uri) as session:
                image = session.bind("image", dtype=np.uint8)
                image[...] = COLUMN
                session.run(None)
                for _ in session.tensors():
                    break
        with rknnd.Session(DIGITS, self.daemon.uri) as kept:
            for _ in range(20):
                once()
            before, fds = self.resident(), len(os.listdir("/proc/self/fd"))
            for _ in range(200):
                once()
            gc.collect()
            self.assertLess(self.resident() - before, 4 << 20)
            self.assertEqual(len(os.listdir("/proc/self/fd")), fds)
            self.assertEqual(self.daemon.status()["contexts"], 1)
            kept.run(COLUMN)

    def test_forgotten_sessions_are_closed(self):
        rknnd.Session(DIGITS, self.daemon.uri).run(COLUMN)
        gc.collect()
        self.assertEqual(self.daemon.status()["contexts"], 0)


def may_write(pid, file):
    """Whether a process could write each mapping that it has of a file, as the kernel has it; what is not
    written today could be made writable where it could."""
    inode, found, mine = os.fstat(file).st_ino, [], False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            mine = int(words[4]) == inode
        elif mine and words[0] == "VmFlags:":
            found.append("mw" in words)
    return found


class ReadOnly(unittest.TestCase):
    def test_workers_cannot_write_what_they_read(self):
        daemon = Daemon("--sandbox", "off")  # whose workers can be looked at by everyone
        self.addCleanup(daemon.stop)
        with rknnd.Session(DIGITS, daemon.uri) as session:
            read, written = session.create_memory(4096), session.create_memory(4096)
            image = session.bind("image", read, dtype=np.uint8)
            probability = session.bind("probability", written, dtype=np.float32)
            image[...] = COLUMN
            session.run(None)
            worker, = daemon.children()
            self.assertEqual(may_write(worker, read.fd), [False])
            self.assertEqual(may_write(worker, written.fd), [True])
            expected = np.array(probability)
            with rknnd.Session(DIGITS, daemon.uri) as other:  # a program that has it written
                again = other.import_memory(read.fd, 4096)
                answer = other.bind("probability", again, dtype=np.float32)
                other.run(COLUMN)
                np.testing.assert_array_equal(answer, expected)
                self.assertEqual(daemon.children(), [worker])
                self.assertEqual(sorted(may_write(worker, read.fd)), [False, True])


if __name__ == "__main__":
    unittest.main()
