#!/usr/bin/python3
"""A daemon that was started to take over, and hears what no rknnd hands over: packets out of order, cut short, too long, of
another version, twice, sockets that are none, or no rknnd at all. It never serves then, and says why."""
import os
import socket
import struct
import subprocess
import tempfile
import unittest

from support.service import BUILD, PATIENCE, children, command_line, rknnctl, wait_for

SIZE = 816  # struct handover_packet
SOCKET, HTTP, COMPLETE, READY, YOURS, SERVING, MAIN, JOIN, BACK, COUNTS = range(1, 11)
NOT_ITS_TURN = "not its turn to say"


def packet(kind, name="", address="", path="", version=1, session=1):
    fixed = struct.pack("<IIQ16sI", version, kind, session, bytes(16), 0)
    return fixed + name.encode().ljust(160, b"\0") + address.encode().ljust(512, b"\0") + path.encode().ljust(108, b"\0") + \
        bytes(SIZE - len(fixed) - 160 - 512 - 108)


class Handover(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="rknnd-test-"))
        self.path = f"{self.folder}/a"
        self.listener = self.enterContext(socket.socket(socket.AF_UNIX))
        self.listener.bind(self.path)
        self.listener.listen()
        self.listens = packet(SOCKET, f"unix:{self.path}", f"unix:{self.path}", self.path)

    def start(self, theirs, *words):
        new = subprocess.Popen([BUILD / "bin/rknnd", "--takeover", str(theirs), "--backend", "null:1:1", "--listen", f"unix:{self.path}", *words],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(theirs,))
        self.addCleanup(new.communicate)
        self.addCleanup(new.kill)
        return new

    def begin(self, *packets, words=()):
        """The new one, to which this was said (packets, or packets with descriptors), and this end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(ours.close)
        ours.settimeout(PATIENCE)
        new = self.start(theirs.fileno(), *words)
        theirs.close()
        for p in packets:
            self.say(ours, p)
        return new, ours

    @staticmethod
    def say(ours, p):
        data, fds = p if isinstance(p, tuple) else (p, [])
        try:
            socket.send_fds(ours, [data], fds)
        except BrokenPipeError:
            pass  # it has had enough already

    def refuses(self, new, words):
        _, said = new.communicate(timeout=PATIENCE)
        self.assertIn(new.returncode, (1, 2), said)
        self.assertIn(words, said)
        self.assertNotIn("AddressSanitizer", said)
        self.assertTrue(os.path.exists(self.path), "the socket is the other one's")

    def test_before_it_has_all(self):
        pair = socket.socketpair()
        self.addCleanup(pair[0].close)
        self.addCleanup(pair[1].close)
        fd = self.listener.fileno()
        good = self.listens, [fd]
        for packets, words in (([packet(YOURS)], NOT_ITS_TURN),
                               ([good, packet(YOURS)], NOT_ITS_TURN),
                               ([good, packet(MAIN)], NOT_ITS_TURN),
                               ([good, (packet(BACK), [fd])], NOT_ITS_TURN),
                               ([good, (packet(COMPLETE), [fd])], "a socket too many or too few"),
                               ([self.listens], "a socket too many or too few"),
                               ([(self.listens, [pair[0].fileno()])], "does not listen"),
                               ([(packet(HTTP), [pair[0].fileno()])], "does not listen"),
                               ([good, packet(0)], "no packet"), ([good, packet(77)], "no packet"),
                               ([packet(COMPLETE)[:-1]], "no packet"), ([packet(COMPLETE) + b"x"], "no packet"),
                               ([packet(COMPLETE)[:5]], "no packet"), ([b"\1"], "version 0"),
                               ([packet(COMPLETE, version=2)], "version 2, here it is 1"),
                               ([packet(COMPLETE)[:36] + b"x" * (SIZE - 36)], "no packet")):
            with self.subTest(words, packets=len(packets)):
                new, _ = self.begin(*packets)
                self.refuses(new, words)

    def until_ready(self):
        new, ours = self.begin((self.listens, [self.listener.fileno()]), packet(COMPLETE))
        self.assertEqual(ours.recv(9999)[4], READY)
        return new, ours

    def test_before_it_serves(self):
        for said, words in (((packet(BACK), [self.listener.fileno()]), NOT_ITS_TURN), (packet(MAIN), NOT_ITS_TURN),
                            (packet(COMPLETE), NOT_ITS_TURN), ((packet(YOURS), [self.listener.fileno()]), NOT_ITS_TURN),
                            (packet(YOURS) + b"x", "no packet"), (packet(YOURS, version=9), "version 9")):
            with self.subTest(words):
                new, ours = self.until_ready()
                self.say(ours, said)
                self.refuses(new, words)
                ours.close()

    def test_when_it_serves(self):
        """Whatever it hears then, it serves."""
        for said in (packet(YOURS), packet(READY), packet(MAIN, version=9), b"x", (packet(MAIN), [self.listener.fileno()])):
            with self.subTest(said):
                new, ours = self.until_ready()
                self.say(ours, packet(YOURS))
                self.assertEqual(ours.recv(9999)[4], SERVING)
                self.say(ours, said)
                self.assertEqual(ours.recv(9999), b"", "it listens no more to who speaks so")
                pong = rknnctl(f"unix:{self.path}", "ping", "-n", "1")
                self.assertEqual(pong.returncode, 0, pong.stderr)
                new.terminate()
                _, words = new.communicate(timeout=PATIENCE)
                self.assertEqual(new.returncode, 0, words)
                self.setUp()  # it has removed the socket, which was its own

    def test_counts(self):
        """Whatever is said to be counters, it serves."""
        def memory(content):
            fd = os.memfd_create("counts", os.MFD_ALLOW_SEALING)
            self.addCleanup(os.close, fd)
            os.write(fd, content)
            return fd
        other, nothing = "counts in another way", "nothing that can be mapped"
        many = struct.pack("<IIQ", 1, 431, 2 ** 60)
        for content, words in ((b"", nothing), (b"x", other), (bytes(5000), other), (many + bytes(5000), other),
                               (None, nothing)):
            with self.subTest(words, content=content and content[:20]):
                new, ours = self.until_ready()
                fd = self.listener.fileno() if content is None else memory(content)
                for p in ((packet(COUNTS), [fd]), packet(YOURS)):
                    self.say(ours, p)
                self.assertEqual(ours.recv(9999)[4], SERVING)
                self.say(ours, (packet(COUNTS), [fd]))
                self.say(ours, packet(MAIN))
                pong = rknnctl(f"unix:{self.path}", "ping", "-n", "1")
                self.assertEqual(pong.returncode, 0, pong.stderr)
                new.terminate()
                _, said = new.communicate(timeout=PATIENCE)
                self.assertEqual(new.returncode, 0, said)
                self.assertNotIn("AddressSanitizer", said)
                self.assertIn(words, said)
                self.setUp()  # it has removed the socket, which was its own

    def test_http_begins_with_it(self):
        """The other one answers until then: who asked this one would hear that it is not ready."""
        with socket.socket(socket.AF_UNIX) as http:
            http.bind(f"{self.folder}/http")
            http.listen()
            uri = f"unix:{self.folder}/http"
            new, ours = self.begin((self.listens, [self.listener.fileno()]), (packet(HTTP, "HTTP", uri, uri[5:]), [http.fileno()]),
                                   packet(COMPLETE), words=["--http", uri])
        self.assertEqual(ours.recv(9999)[4], READY)

        def helpers():
            return [pid for pid in children(new.pid) if b"rknnd-http" in command_line(pid)]
        self.assertEqual(helpers(), [])
        self.say(ours, packet(YOURS))
        wait_for("it to speak HTTP", helpers)
        new.terminate()
        _, said = new.communicate(timeout=PATIENCE)
        self.assertEqual(new.returncode, 0, said)

    def test_no_rknnd_at_all(self):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            pair = socket.socketpair(socket.AF_UNIX, kind)
            with self.subTest(kind), pair[0], pair[1]:
                self.refuses(self.start(pair[1].fileno()), "there is no rknnd at it")
        with open("/dev/null", "rb") as null:
            self.refuses(self.start(null.fileno()), "there is no rknnd at it")


if __name__ == "__main__":
    unittest.main()
