#!/usr/bin/python3
"""What a server passes for the memory that a program has asked for, where the server is somebody's who means harm: the program has words
in place of a memory, and does not end by a signal when it writes there."""
import fcntl
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from soak.strange import lingering
from support.service import BUILD, PATIENCE, Daemon, wait_for
from support.wire import CREATE, HEAD, REPLY

LIBRARY = BUILD / "lib/rknnd/client/librknnrt.so"
SIZE = 1 << 20
SHRINK, GROW, WRITE, FUTURE_WRITE, SEAL = 2, 4, 8, 16, 1
F_ADD_SEALS = 1033

# Waits for a line before it writes: until then the server has done its worst.
PROGRAM = """
import ctypes, sys
rknn = ctypes.CDLL(sys.argv[1])
rknn.rknn_create_mem.restype = ctypes.POINTER(ctypes.c_void_p)
rknn.rknnd_last_error.restype = ctypes.c_char_p
context = ctypes.c_uint64()
r = rknn.rknn_init(ctypes.byref(context), b"any", 3, 0, None)
assert r == 0, rknn.rknnd_last_error()
memory = rknn.rknn_create_mem(context, ctypes.c_uint32(SIZE))
print("made" if memory else "refused: " + rknn.rknnd_last_error().decode(), flush=True)
sys.stdin.readline()
if memory:
    ctypes.memset(memory[0], 7, SIZE)
    print("written", flush=True)
    assert rknn.rknn_destroy_mem(context, memory) == 0
assert rknn.rknn_destroy(context) == 0
""".replace("SIZE", str(SIZE))


def memfd(size, *seals, flags=os.MFD_ALLOW_SEALING):
    fd = os.memfd_create("passed", flags)
    os.ftruncate(fd, size)
    for seal in seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seal)
    return fd


def reopened(fd, flags):
    again = os.open(f"/proc/self/fd/{fd}", flags)
    os.close(fd)
    return again


def file_of_a_disk():
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), SIZE)
        return os.dup(file.fileno())


def end_of_a_pipe():
    r, w = os.pipe()
    os.close(r)
    return w


PASSED = {
    "a part of it": lambda: memfd(SIZE // 2, SHRINK | GROW | SEAL),
    "nothing": lambda: memfd(0, SHRINK | GROW | SEAL),
    "one that nobody can seal any more": lambda: memfd(SIZE, SEAL),
    "one without seals": lambda: memfd(SIZE, flags=0),
    "one that is open for reading": lambda: reopened(memfd(SIZE, SHRINK | SEAL), os.O_RDONLY),
    "one that is sealed against writing": lambda: memfd(SIZE, SHRINK | WRITE | SEAL),
    "one that nobody writes any more": lambda: memfd(SIZE, SHRINK | FUTURE_WRITE | SEAL),
    "a file of a disk": file_of_a_disk,
    "a folder": lambda: os.open("/", os.O_RDONLY),
    "a device": lambda: os.open("/dev/zero", os.O_RDWR),
    "a pipe": end_of_a_pipe,
    "a socket": lambda: socket.socket(socket.AF_UNIX).detach(),
    "its own memory": lambda: os.open("/proc/self/mem", os.O_RDWR),
}


class Liar:
    """In the place of a daemon's socket: passes on what both say, and something else in place of a memory."""

    def __init__(self, daemon, path, make=None):
        """`make`: what to pass instead; None: see linger()."""
        self.daemon, self.make, self.kept = daemon, make, []
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(path))
        self.door.listen(8)
        self.uri = f"unix:{path}"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                program, _ = self.door.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.daemon.uri[5:])
            threading.Thread(target=self.pass_on, args=(program, server, lambda data, fds: fds), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, program, self.instead if self.make else self.linger), daemon=True).start()

    @staticmethod
    def pass_on(source, to, change):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(source, 1 << 16, 4)
                given = change(data, fds)
                if not data:
                    to.shutdown(socket.SHUT_WR)
                    return
                socket.send_fds(to, [data], given) if given else to.sendall(data)
            except OSError:  # the other end has gone
                return
            for fd in fds:
                os.close(fd)

    def instead(self, data, fds):
        if fds:
            _, kind, flags, *_ = HEAD.unpack(data[:HEAD.size])
            assert (kind, flags) == (CREATE, REPLY), (kind, flags)
            self.kept.append(self.make())
        return self.kept if fds else fds

    def linger(self, data, fds):
        """A socket that waits for its last bytes when it is closed, with whatever the server says, and in place of a memory. This
        process's own is closed as soon as it is passed."""
        fd, keep = lingering()
        self.kept += [s.detach() for s in keep]
        for given in fds:
            os.close(given)
        fds[:] = [fd]
        return fds if data else []

    def do_worst(self):
        """Nothing is left of what can be cut off."""
        for fd in self.kept:
            try:
                os.ftruncate(fd, 0)
            except OSError:
                pass

    def close(self):
        self.door.close()
        for fd in self.kept:
            os.close(fd)


class Passed(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--backend", "null:64:64", "--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")
        self.addCleanup(self.daemon.stop)
        self.before = self.daemon.held()

    def ask(self, make):
        """What the program says, and how it ends."""
        liar = Liar(self.daemon, pathlib.Path(self.daemon.folder.name, "liar"), make)
        with subprocess.Popen([sys.executable, "-c", PROGRAM, LIBRARY], env={**os.environ, "RKNND_SERVER": liar.uri}, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            said = program.stdout.readline()
            passed = len(liar.kept)
            liar.do_worst()
            rest, words = program.communicate("\n", PATIENCE)
        liar.close()
        os.unlink(liar.uri[5:])
        self.assertEqual((passed, program.returncode), (1, 0), said + rest + words)
        return said, rest

    def test_what_is_no_memory(self):
        for name, make in PASSED.items():
            with self.subTest(name):
                said, _ = self.ask(make)
                self.assertRegex(said, "refused: .*liar passed something else than memory: .+")
        wait_for("the memories to be freed", lambda: self.daemon.held() == self.before)

    def test_sockets_that_linger(self):
        """The program waits for nobody's last bytes."""
        liar = Liar(self.daemon, pathlib.Path(self.daemon.folder.name, "liar"))
        done = subprocess.run([sys.executable, "-c", PROGRAM, LIBRARY], env={**os.environ, "RKNND_SERVER": liar.uri}, text=True, input="\n",
                              capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "refused: .*liar passed something else than memory: .+")
        liar.close()

    def test_memory(self):
        """Sealed, or sealed by the program when it comes."""
        for make in lambda: memfd(SIZE, SHRINK | GROW | SEAL), lambda: memfd(SIZE), lambda: memfd(2 * SIZE, SHRINK):
            self.assertEqual(self.ask(make), ("made\n", "written\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
