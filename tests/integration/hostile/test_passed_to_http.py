#!/usr/bin/python3
"""Descriptors that are passed to programs which want none: rknnd-kserve, its agent, rknnd --http. What is passed could keep
the thread for ever that closes it."""
import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import tempfile
import unittest

from soak.strange import lingering
from support.service import BUILD, PATIENCE, Daemon, command_line, wait_for

SO_PASSRIGHTS = 83
GET = b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def refuses():
    """Whether this kernel lets a server refuse what is passed."""
    with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        return True
    return False


def let_pass(pid):
    """Makes the process's listening sockets those of an older kernel."""
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    for number in os.listdir(f"/proc/{pid}/fd"):
        fd = libc.syscall(438, process, int(number), 0)  # pidfd_getfd
        if fd < 0:  # it has been closed meanwhile
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=fd) as s:
            if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                s.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)
    os.close(process)


def forget(fd):
    """Closes one that has come back to us."""
    with socket.socket(fileno=fd) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))


class Passed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="passed-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.kept = []

    def ask(self, name, request):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(f"{self.folder}/{name}")
            if request:  # the agent has said its line, and listens to nobody
                s.sendall(request)
            return s.recv(100)

    def expect_served(self, name, request, answer):
        """Sooner or later: who makes way for somebody else is told nothing."""
        def served():
            with contextlib.suppress(OSError):
                return answer in self.ask(name, request)
        wait_for(f"{answer} at {name}", served)

    def pass_one(self, name, before, flags, stays):
        """Whether it could be sent."""
        fd, keep = lingering()
        self.kept.extend(keep)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(PATIENCE)
        try:
            s.connect(f"{self.folder}/{name}")
            s.sendall(before)
            s.sendmsg([b"G"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))], flags)
        except OSError:
            forget(fd)
            return False
        else:
            os.close(fd)
            return True
        finally:
            if stays:
                self.kept.append(s)
            else:
                s.close()

    def pass_many(self, name, n):
        return [self.pass_one(name, (b"", b"GET", b"bad\r\n\r\n", GET % b"/v2")[i % 4], (0, socket.MSG_OOB)[i // 4 % 2],
                              i // 8 % 2) for i in range(n)]

    def test_kserve(self):
        """As many as there may be connections, and more."""
        daemon = Daemon("--backend", "null")
        front = subprocess.Popen([BUILD / "bin/rknnd-kserve", "--server", daemon.uri, "--models", self.folder, "--listen",
                                  f"unix:{self.folder}/front", "--agent", f"unix:{self.folder}/agent", "--connections", "8"],
                                 stdin=subprocess.DEVNULL, env=daemon.env)
        self.addCleanup(front.kill)
        live = GET % b"/v2/health/live"
        self.expect_served("front", live, b" 200 OK")
        self.expect_served("agent", b"", b"up ready")
        for refused in ([True, False] if refuses() else [False]):
            if not refused:
                let_pass(front.pid)
            self.assertEqual(any(self.pass_many("front", 40)), not refused)
            self.expect_served("front", live, b" 200 OK")
            sent = any(self.pass_many("agent", 20))  # if they come before its end
            self.assertFalse(refused and sent)
            self.expect_served("agent", b"", b"up ready")
        front.terminate()
        self.assertEqual(front.wait(PATIENCE), 0)
        daemon.stop()

    def test_http(self):
        daemon = Daemon("--backend", "null", "--http", f"unix:{self.folder}/numbers")
        self.expect_served("numbers", GET % b"/healthz", b" 200 OK")
        helper = wait_for("its process", lambda: next((pid for pid in daemon.children() if b"rknnd-http" in command_line(pid)), None))
        for refused in ([True, False] if refuses() else [False]):
            if not refused:
                let_pass(helper)
            self.assertEqual(any(self.pass_many("numbers", 40)), not refused)
            self.expect_served("numbers", GET % b"/healthz", b" 200 OK")
        daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
