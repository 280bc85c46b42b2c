#!/usr/bin/python3
"""Memories whose owner goes on doing things to them, and descriptors of all that a kernel has: a server with the software NPU
says what it does not take, waits for nobody, and loses no worker to them."""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import select
import signal
import socket
import tempfile
import unittest

from support.daemon import stalls
from support.service import DIGITS, Daemon, wait_for
from support.wire import BIND, CHUNK, Client, FREE, HEAD, IMPORT, INFER, LOG, MAGIC, OFFER, OPEN, PING, check_turns, message, one

F_ADD_SEALS = 1033
SEALS = {"seal": 1, "shrink": 2, "grow": 4, "write": 8, "future write": 16, "exec": 32}
SIZE = 4096
INT8 = 2  # tensor/tensor.h
INPUT = bytes(64)
libc = ctypes.CDLL(None, use_errno=True)
setUpModule = stalls.watch  # pylint: disable=invalid-name


def run_of(context, size=len(INPUT)):
    """Of an input that comes with it, or (size 0) is bound to a memory."""
    return message(f1=context, f6=message(f1=size, f5=1) if size else b"")


class Case(unittest.TestCase):
    isolation = "process"
    options = ()

    def setUp(self):
        self.daemon = Daemon("--isolation", self.isolation, *self.options)
        self.addCleanup(self.daemon.stop)
        self.other, self.client = Client(self.daemon), Client(self.daemon)
        data = DIGITS.read_bytes()
        digest = hashlib.sha256(data).digest()
        self.client.call(OFFER, message(f1=digest, f2=len(data), f3=b"digits"))
        self.client.call(CHUNK, message(f1=digest, f2=0), payload=data)
        failed, fields = self.client.call(OPEN, message(f1=digest))
        self.assertFalse(failed, fields)
        self.context = one(fields, 1)
        self.client.call(INFER, run_of(self.context), payload=INPUT)
        self.right = self.client.payload
        self.assertTrue(self.right)

    def tearDown(self):
        """Others are served, at once, and no worker has died of it."""
        self.assertFalse(self.other.call(PING, message(f1=7))[0])
        check_turns(self.other.status())
        self.assertEqual(self.daemon.status()["worker_deaths"], 0)
        self.other.close()
        self.client.close()

    def memory(self, writing=True):
        """A memfd that was opened again: leases are refused on one that was not."""
        made = os.memfd_create("odd", os.MFD_ALLOW_SEALING)
        os.ftruncate(made, SIZE)
        fd = os.open(f"/proc/self/fd/{made}", os.O_RDWR if writing else os.O_RDONLY)
        os.close(made)
        self.addCleanup(os.close, fd)
        return fd

    def share(self, fd):
        failed, fields = self.client.call(IMPORT, fds=[fd])
        self.assertFalse(failed, fields)
        return one(fields, 1)

    def bind(self, memory, output):
        failed, fields = self.client.call(BIND, message(f1=self.context, f2=output, f3=0, f4=memory, f6=INT8, f7=not output))
        self.assertFalse(failed, fields)


class Owners(Case):
    def test_a_lease_is_waited_for_by_nobody(self):
        """The kernel lets whoever opens the file wait for its owner, 45 s."""
        fd = self.memory()
        self.bind(self.share(fd), output=False)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # which says that somebody would like to
        self.addCleanup(signal.signal, signal.SIGIO, before)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as e:
            self.skipTest(f"this kernel gives no lease on a memfd: {e}")
        run = self.client.send(INFER, run_of(self.context, 0))
        check_turns(self.other.status())
        number, failed, fields = self.client.receive()
        self.assertEqual((number, failed), (run, True), fields)
        self.assertIn(b"a program has a lease on it", fields[2][0])
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        failed, fields = self.client.call(INFER, run_of(self.context, 0))
        self.assertEqual((failed, self.client.payload), (False, self.right), fields)

    def test_seals_that_come_later(self):
        """None can be added that would take a worker's right to write its outputs, or its pages."""
        for name, seal in SEALS.items():
            with self.subTest(name):
                fd = self.memory()
                memory = self.share(fd)
                self.bind(memory, output=True)
                with contextlib.suppress(OSError):
                    fcntl.fcntl(fd, F_ADD_SEALS, seal)
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, 1)
                failed, fields = self.client.call(INFER, run_of(self.context), payload=INPUT)
                self.assertFalse(failed, fields)
                self.assertEqual(os.pread(fd, len(self.right), 0), self.right)
                self.client.call(FREE, message(f1=memory))

    def test_seals_that_came_before(self):
        """What cannot be written is no output, and what can be is one, whatever else is sealed."""
        for n in range(1, 64):
            fd = self.memory()
            for bit, seal in enumerate(reversed(SEALS.values())):  # the one against seals is the last
                if n >> bit & 1:
                    with contextlib.suppress(OSError):
                        fcntl.fcntl(fd, F_ADD_SEALS, seal)
            seals = fcntl.fcntl(fd, 1034)  # F_GET_SEALS
            failed, fields = self.client.call(IMPORT, fds=[fd])
            self.assertEqual(failed, seals & 3 == 1, (seals, fields))  # it can shrink, and no seal can be added
            if failed:
                continue
            memory = one(fields, 1)
            failed, fields = self.client.call(BIND, message(f1=self.context, f2=1, f4=memory, f6=INT8))
            self.assertEqual(failed, seals & 24 != 0, (seals, fields))
            if not failed:
                failed, fields = self.client.call(INFER, run_of(self.context), payload=INPUT)
                self.assertFalse(failed, fields)
                self.assertEqual(os.pread(fd, len(self.right), 0), self.right)
            self.client.call(FREE, message(f1=memory))

    def test_pages_that_are_taken_away(self):
        """A run has zeros then, or what was there."""
        fd = self.memory()
        self.bind(self.share(fd), output=False)
        for _ in range(20):
            self.assertEqual(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(SIZE)), 0)  # PUNCH_HOLE | KEEP_SIZE
            failed, fields = self.client.call(INFER, run_of(self.context, 0))
            self.assertEqual((failed, self.client.payload), (False, self.right), fields)

    def test_rights_of_other_files_stay(self):
        """The server hides memories from others; what is none it leaves as it is."""
        with tempfile.NamedTemporaryFile() as file:
            os.chmod(file.name, 0o664)
            os.ftruncate(file.fileno(), SIZE)
            failed, fields = self.client.call(IMPORT, fds=[file.fileno()])
            self.assertTrue(failed, fields)
            self.assertEqual(os.stat(file.name).st_mode & 0o777, 0o664)


class OwnersOfThreads(Owners):
    isolation = "thread"

    def test_a_lease_is_waited_for_by_nobody(self):
        """No worker needs a descriptor of its own: the run is not refused."""
        fd = self.memory()
        self.bind(self.share(fd), output=False)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as e:
            self.skipTest(f"this kernel gives no lease on a memfd: {e}")
        failed, fields = self.client.call(INFER, run_of(self.context, 0))
        self.assertEqual((failed, self.client.payload), (False, self.right), fields)


def call(number, *words):
    """A system call that Python does not have; its descriptor, or OSError."""
    fd = libc.syscall(number, *words)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def epolls():
    """As deep as a kernel lets them look into each other, and into themselves if it does."""
    made = [select.epoll() for _ in range(5)]
    with contextlib.suppress(OSError):
        made[0].register(made[0].fileno(), select.EPOLLIN)
    for a, b in zip(made, made[1:]):
        with contextlib.suppress(OSError):
            a.register(b.fileno(), select.EPOLLIN)
    return os.dup(made[0].fileno())


def sockets_in_themselves():
    """Both ends lie unread in each other: nobody but the kernel's collector frees them."""
    a, b = socket.socketpair()
    socket.send_fds(a, [b"x"], [a.fileno(), b.fileno()] * 8)
    socket.send_fds(b, [b"x"], [a.fileno(), b.fileno()] * 8)
    return os.dup(a.fileno())


def full_pipe():
    r, w = os.pipe()
    os.set_blocking(w, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(w, bytes(4096))
    os.close(r)
    return w


def io_uring():
    """A kernel of today lets none be passed."""
    fd = call(NR["io_uring_setup"], 4, ctypes.create_string_buffer(120))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [fd])
    return fd


def of_family(family, kind, *protocol):
    return lambda: socket.socket(getattr(socket, family), kind, *protocol).detach()


NR = {"pidfd": 434, "memfd_secret": 447, "userfaultfd": 323, "fanotify": 300, "inotify": 294, "signalfd": 289,
      "timerfd": 283, "io_uring_setup": 425, "landlock_create_ruleset": 444, "fsopen": 430, "open_tree": 428, "bpf": 321, "perf_event_open": 298}
ODD = {
    "O_PATH": lambda: os.open("/", os.O_PATH),
    "O_PATH of a memory": lambda: os.open("/proc/self/exe", os.O_PATH),
    "folder": lambda: os.open("/", os.O_RDONLY),
    "device of zeros": lambda: os.open("/dev/zero", os.O_RDWR),
    "full device": lambda: os.open("/dev/full", os.O_RDWR),
    "terminal": lambda: os.openpty()[0],
    "own memory": lambda: os.open("/proc/self/mem", os.O_RDWR),
    "mounts": lambda: os.open("/proc/self/mounts", os.O_RDONLY),
    "tracing": lambda: os.open("/proc/kmsg", os.O_RDONLY),
    "pidfd": lambda: call(NR["pidfd"], os.getpid(), 0),
    "secret memory": lambda: call(NR["memfd_secret"], 0),
    "userfaultfd": lambda: call(NR["userfaultfd"], 1),
    "inotify": lambda: call(NR["inotify"], 0),
    "fanotify": lambda: call(NR["fanotify"], 0, 0),
    "timer": lambda: call(NR["timerfd"], 1, 0),
    "eventfd": lambda: os.eventfd(1 << 30),
    "epolls": epolls,
    "sockets in themselves": sockets_in_themselves,
    "full pipe": full_pipe,
    "listening socket": lambda: socket.create_server(("127.0.0.1", 0)).detach(),
    "empty memory": lambda: os.memfd_create("empty", os.MFD_ALLOW_SEALING),
    "memory without seals": lambda: os.memfd_create("plain"),
    "io_uring": io_uring,
    "ruleset": lambda: call(NR["landlock_create_ruleset"], ctypes.create_string_buffer(b"\1", 8), 8, 0),
    "file system to be": lambda: call(NR["fsopen"], b"tmpfs", 0),
    "tree of mounts": lambda: call(NR["open_tree"], -100, b"/proc", 1),
    "map of the kernel's": lambda: call(NR["bpf"], 0, ctypes.create_string_buffer(b"\2\0\0\0\4\0\0\0\4\0\0\0\4\0\0\0", 120), 120),
    "counter": lambda: call(NR["perf_event_open"], ctypes.create_string_buffer(b"\1\0\0\0\x80\0\0\0", 128), 0, -1, -1, 0),
    "packets": of_family("AF_PACKET", socket.SOCK_RAW),
    "netlink": of_family("AF_NETLINK", socket.SOCK_RAW),
    "ciphers": of_family("AF_ALG", socket.SOCK_SEQPACKET),
    "own name space": lambda: os.open("/proc/self/ns/net", os.O_RDONLY),
    "huge pages": lambda: os.memfd_create("huge", os.MFD_ALLOW_SEALING | 4),
}


class Descriptors(Case):
    def test_all_that_are_no_memory(self):
        """Refused where one is wanted, dropped where none is, also while its sender goes."""
        for name in ODD:
            with self.subTest(name):
                try:
                    fd = ODD[name]()
                except OSError as e:
                    self.skipTest(f"none can be made here: {e}")
                failed, fields = self.client.call(IMPORT, fds=[fd])
                self.assertTrue(failed, fields)
                self.assertFalse(self.client.call(PING, message(f1=1), fds=[fd])[0])
                c = Client(self.daemon)
                c.send(IMPORT, fds=[fd])
                c.send(PING, fds=[fd] * 20, named=0)
                c.close()
                os.close(fd)
                check_turns(self.other.status())

    def test_a_memory_that_is_too_large(self):
        for size in (1 << 40, (1 << 62) + 1, (1 << 63) - 4096):
            fd = os.memfd_create("large", os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(fd, size)
            except OSError:
                continue
            finally:
                failed, fields = self.client.call(IMPORT, fds=[fd])
                os.close(fd)
            self.assertTrue(failed, fields)


class Itself(Case):
    """Connections whose own end lies in their way: they do not end by themselves when their program does."""
    options = ("--heartbeat-ms", "200", "--peer-timeout-ms", "2000")

    def setUp(self):
        super().setUp()
        self.before = self.daemon.held()

    def all_go(self):
        wait_for(lambda: f"{self.daemon.held()} to be {self.before}", lambda: self.daemon.held() == self.before)

    def test_nobody_asked_for_it(self):
        """Their program lives, and has only closed its own."""
        for kind, named in ((PING, 0), (PING, 1), (IMPORT, 1)):
            for leave in (False, True):
                c = Client(self.daemon)
                os.kill(self.daemon.process.pid, signal.SIGSTOP)
                c.send(kind, fds=[c.socket.fileno()] * 8, named=named)
                if leave:
                    c.close()
                os.kill(self.daemon.process.pid, signal.SIGCONT)
                if not leave:
                    c.receive()
                    c.close()
        self.all_go()

    def program(self, deed):
        """Does it with a connection, and ends."""
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                deed(Client(self.daemon))
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_with_half_a_frame(self):
        self.program(lambda c: socket.send_fds(c.socket, [HEAD.pack(MAGIC, PING, 0, 1, 9, 0, 0)[:9]], [c.socket.fileno()]))
        self.all_go()

    def test_before_hello(self):
        def deed(c):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.daemon.uri[5:])
                socket.send_fds(s, [b"R"], [s.fileno()])
        self.program(deed)
        self.all_go()

    def test_behind_answers_that_nobody_takes(self):
        def deed(c):
            c.socket.settimeout(1)
            while True:
                c.send(LOG, message(f2=1000), fds=[c.socket.fileno()], named=0)
        self.program(deed)
        self.all_go()


if __name__ == "__main__":
    unittest.main(verbosity=2)
