#!/usr/bin/python3
"""Descriptors that clients pass may be anything: the server goes on serving the others.

A socket whose close() waits for a reader that never reads (SO_LINGER), a file of a file system that does
not answer (FUSE), a memfd that its owner is in the middle of changing: each is passed where one is wanted
(MEMORY_IMPORT), where none is (PING), and lies unread when its sender goes. The server's own word that no
turn of its loop took long is asked for at the end. And nobody has to read what it logs."""
import contextlib
import os
import signal
import socket
import struct
import unittest

from soak.strange import SilentFiles, lingering
from support.daemon import stalls
from support.service import Daemon, wait_for
from support.wire import Client, IMPORT, PING, check_turns, message, one
setUpModule = stalls.watch  # pylint: disable=invalid-name


class Strangers(unittest.TestCase):
    options = ()

    def setUp(self):
        self.daemon = Daemon("--backend", "null", "--heartbeat-ms", "1000", *self.options)
        self.other = Client(self.daemon)

    def tearDown(self):
        self.other.close()
        self.daemon.stop()

    def expect_served(self):
        """Others are answered, and no turn of the loop has taken long."""
        for _ in range(3):
            self.assertFalse(self.other.call(PING, message(f1=7))[0])
        check_turns(self.other.status())

    def pass_everywhere(self, make):
        """make() gives a descriptor to pass, and whether this process is to lose it."""
        def lose(client, *words, leave=False, **more):
            """The server's is the last one. `leave`: it is unread when the client goes."""
            fd, close = make()
            os.kill(self.daemon.process.pid, signal.SIGSTOP)
            client.send(*words, fds=[fd], **more)
            if close:
                os.close(fd)
            if leave:
                client.close()
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        c = Client(self.daemon)
        lose(c, PING, message(f1=1))            # taken off the frame that named it
        c.receive()
        self.expect_served()
        lose(c, PING, message(f1=1), named=0)   # not even named
        c.receive()
        c.close()                               # so it goes with its connection
        self.expect_served()
        c = Client(self.daemon)
        lose(c, IMPORT)                         # wanted
        self.expect_served()
        c.close()                               # by one who is not there any more
        c = Client(self.daemon)
        c.call(PING, message(f1=1))
        lose(c, PING, message(f1=1), leave=True)
        self.expect_served()

    def test_socket_that_lingers(self):
        kept = []

        def make():
            fd, keep = lingering()
            kept.extend(keep)
            return fd, True
        self.pass_everywhere(make)
        c = Client(self.daemon)
        fd, _ = make()
        failed, fields = c.call(IMPORT, fds=[fd])
        self.assertTrue(failed)
        self.assertIn(b"neither a dma-buf nor a memfd", fields[2][0])
        socket.socket(fileno=fd).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        c.close()
        before = self.daemon.held()["fds"]
        wait_for("the sockets to be closed", lambda: self.daemon.held()["fds"] <= before)
        for s in kept:
            s.close()

    def test_with_an_urgent_byte(self):
        """Such a byte (MSG_OOB) the kernel drops where it comes to it, with what came along, unless one asks for it."""
        kept = []

        def send(s, before, behind, leave):
            fd, keep = lingering()
            kept.extend(keep)
            os.kill(self.daemon.process.pid, signal.SIGSTOP)
            s.sendall(before)
            try:
                s.sendmsg([b"R"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))], socket.MSG_OOB)
            except OSError as e:
                socket.socket(fileno=fd).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
                self.skipTest(f"this kernel has no urgent bytes on Unix sockets: {e}")
            finally:
                os.kill(self.daemon.process.pid, signal.SIGCONT)
            os.kill(self.daemon.process.pid, signal.SIGSTOP)
            s.sendall(behind)
            os.close(fd)
            if leave:
                s.close()
            os.kill(self.daemon.process.pid, signal.SIGCONT)
            self.expect_served()
        before = self.daemon.held()["fds"]
        for first, behind in ((b"", b""), (b"", b"KND"), (b"RKND", b"x")):
            for leave in False, True:
                for greets in False, True:
                    with socket.socket(socket.AF_UNIX) as s:
                        s.connect(self.daemon.uri[5:])
                        if greets:
                            Client.over(s)
                        send(s, first, behind, leave)
        wait_for("the sockets to be closed", lambda: self.daemon.held()["fds"] <= before)
        for s in kept:
            s.close()

    def test_more_than_we_take(self):
        c = Client(self.daemon)
        before = self.daemon.held()["fds"]
        kept = []
        for _ in range(3):
            made = [lingering() for _ in range(100)]
            os.kill(self.daemon.process.pid, signal.SIGSTOP)
            c.send(PING, message(f1=1), fds=[fd for fd, _ in made], named=0)
            for fd, keep in made:
                os.close(fd)
                kept.extend(keep)
            os.kill(self.daemon.process.pid, signal.SIGCONT)
            c.receive()
        self.expect_served()
        c.close()
        wait_for(lambda: f"{self.daemon.held()['fds']} descriptors to be {before - 1}",
                 lambda: self.daemon.held()["fds"] < before)
        for s in kept:
            s.close()

    def test_hundreds_with_every_byte(self):
        """What lies in a socket when its connection ends is nothing that the others have to wait for."""
        before = self.daemon.held()["fds"]
        with open("/dev/null", "rb") as null, contextlib.ExitStack() as sockets:
            os.kill(self.daemon.process.pid, signal.SIGSTOP)
            for _ in range(4):
                s = sockets.enter_context(socket.socket(socket.AF_UNIX))
                s.connect(self.daemon.uri[5:])
                s.setblocking(False)
                with contextlib.suppress(OSError):  # until it is full, or nobody but root might have more on the way
                    while True:
                        socket.send_fds(s, [b"no magic" * 4], [null.fileno()] * 250)
            os.kill(self.daemon.process.pid, signal.SIGCONT)
            check_turns(Client(self.daemon).status())
        wait_for(lambda: f"{self.daemon.held()['fds']} descriptors to be {before}",
                 lambda: self.daemon.held()["fds"] <= before)
        check_turns(Client(self.daemon).status())

    def test_a_real_time_loop(self):
        """Threads that it starts are no real-time programs: they would keep it from the processor, or each other for ever."""
        pid = self.daemon.process.pid
        before = set(os.listdir(f"/proc/{pid}/task"))
        try:
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        except PermissionError:
            self.skipTest("may not make it one")
        c = Client(self.daemon)
        fd, keep = lingering()
        c.send(PING, message(f1=1), fds=[fd])
        c.receive()
        threads = {}

        def look():
            with contextlib.suppress(ProcessLookupError):
                threads.update({t: os.sched_getscheduler(int(t)) for t in set(os.listdir(f"/proc/{pid}/task")) - before})
            return threads and set(threads.values()) == {os.SCHED_OTHER}
        wait_for(lambda: f"threads of time sharing: {threads}", look)
        self.assertEqual(os.sched_getscheduler(pid), os.SCHED_RR)
        c.close()
        os.close(fd)
        for s in keep:
            s.close()

    def test_file_system_that_is_silent(self):
        if not os.path.exists("/dev/fuse") or os.getuid() != 0:
            self.skipTest("needs root, and /dev/fuse")
        files = SilentFiles()
        try:
            self.pass_everywhere(lambda: (files.file, False))
            for _ in range(40):  # more than there are threads for
                c = Client(self.daemon)
                c.send(IMPORT, fds=[files.file])
                c.send(PING, message(f1=1), fds=[files.file])
                c.receive()
                c.close()
            self.expect_served()
            c = Client(self.daemon)
            failed, fields = c.call(IMPORT, fds=[files.file])
            self.assertTrue(failed)
            self.assertIn(b"being looked at", fields[2][0])
            c.close()
        finally:
            files.end()
        memory = os.memfd_create("good", os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, 4096)
        c = Client(self.daemon)
        wait_for("what hung to come back", lambda: not c.call(IMPORT, fds=[memory])[0])
        c.close()
        os.close(memory)

    def client_of(self, user):
        os.chmod(self.daemon.folder.name, 0o755)
        os.chmod(self.daemon.uri[5:], 0o777)
        os.seteuid(user)  # the server is told who connects
        try:
            return Client(self.daemon)
        finally:
            os.seteuid(0)

    def test_silent_files_of_others(self):
        """They leave room for other users' memories."""
        if not os.path.exists("/dev/fuse") or os.getuid() != 0:
            self.skipTest("needs root, and /dev/fuse")
        files = SilentFiles()
        memory = os.memfd_create("good", os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, 4096)
        try:
            for user in (1001, 1002):
                c = self.client_of(user)
                for _ in range(40):
                    c.send(IMPORT, fds=[files.file])
                c.close()
            for c in (self.client_of(1003), Client(self.daemon)):
                failed, fields = c.call(IMPORT, fds=[memory])
                self.assertFalse(failed, fields)
                c.close()
        finally:
            files.end()
            os.close(memory)

    def test_server_ends_while_files_are_silent(self):
        if not os.path.exists("/dev/fuse") or os.getuid() != 0:
            self.skipTest("needs root, and /dev/fuse")
        files = SilentFiles()
        try:
            self.other.send(IMPORT, fds=[files.file])
            self.expect_served()
            self.daemon.process.terminate()
            # Closing what it leaves open takes as long as the file system likes; but it has left its loop.
            path = self.daemon.uri[5:]
            wait_for("the server to end", lambda: not os.path.exists(path))
        finally:
            files.end()

    def test_log_that_nobody_reads(self):
        reader, writer = os.pipe()
        daemon = Daemon("--backend", "null", "--log-level", "5", stderr=writer)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, bytes(4096))
        except BlockingIOError:
            pass
        for _ in range(50):
            Client(daemon).close()  # each is worth some lines
        c = Client(daemon)
        status = c.status()
        check_turns(status)
        self.assertGreater(one(status, 23), 50, "lines are counted as left out")
        c.close()
        os.close(reader)
        os.close(writer)
        daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
