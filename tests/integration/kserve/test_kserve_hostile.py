#!/usr/bin/python3
"""Peers of rknnd-kserve that are slow, huge, broken or ambiguous: they get a status and nobody else notices."""
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import numpy as np

from kserve_front import PROGRAM, Front, Refused, answers, free_port
from support.service import DIGITS, PATIENCE, Daemon, wait_for

PICTURE = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1)
BODY = json.dumps({"inputs": [{"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": list(range(64))}]}).encode()
INFER = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\n"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        shutil.copy(DIGITS, cls.folder.name)
        cls.daemon = Daemon("--backend", "sim:rk3588")
        cls.front = Front(cls.daemon, cls.folder.name, "--max-body", "1M", "--memory", "4M", "--connections", "40",
                          "--request-timeout", "2")
        cls.quiet = cls.front.client()
        _, cls.expected = cls.quiet.infer("digits", {"image": PICTURE})

    @classmethod
    def tearDownClass(cls):
        cls.quiet.close()
        cls.front.stop()
        cls.daemon.stop()
        cls.folder.cleanup()

    def tearDown(self):
        client = self.front.client()
        _, arrays = client.infer("digits", {"image": PICTURE})
        np.testing.assert_array_equal(arrays["probability"], self.expected["probability"])
        client.close()
        self.assertIsNone(self.front.process.poll())

    def connect(self):
        peer = socket.create_connection(("127.0.0.1", self.front.port), timeout=PATIENCE)
        self.addCleanup(peer.close)
        return peer

    def answer(self, request):
        """All that comes back until the server ends the connection, or has nothing more to say."""
        peer = self.connect()
        got = b""
        try:
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            while part := peer.recv(65536):
                got += part
        except OSError:
            pass
        return got

    def statuses(self, request):
        got, found = self.answer(request), []
        while got.startswith(b"HTTP/1.1 "):
            head, _, rest = got.partition(b"\r\n\r\n")
            found.append(int(head.split()[1]))
            length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            got = rest[length[0] if length else len(rest):]
        return found


class Ambiguous(Case):
    def test_where_a_body_ends(self):
        hidden = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        for head, body, status in (
                (b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(BODY), chunk, 400),
                (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", chunk, 400),
                (b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
                (b"Content-Length: %d\r\nContent-Length: %d\r\n" % (len(BODY), len(BODY)), BODY, 400),
                (b"Content-Length: -1\r\n", BODY, 400), (b"Content-Length: +%d\r\n" % len(BODY), BODY, 400),
                (b"Content-Length: 0x10\r\n", BODY, 400), (b"Content-Length: 99999999999999999999999\r\n", BODY, 400),
                (b"Content-Length: 1, 1\r\n", BODY, 400),
                (b"Transfer-Encoding: gzip, chunked\r\n", chunk, 501), (b"Transfer-Encoding: identity\r\n", chunk, 501),
                (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk, 400),
                (b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
                (b"Content-Length : %d\r\n" % len(BODY), BODY, 400), (b"Content-Length:\r\n %d\r\n" % len(BODY), BODY, 400),
                (b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", chunk, 400),
                (b"X: y\rContent-Length: 0\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
                (b"Host: b\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
                (b"Transfer-Encoding: chunked \r\n", chunk, 501), (b"Transfer-Encoding: \x0bchunked\r\n", chunk, 501),
                *((b"Transfer-Encoding: chunked\r\n", size + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400)
                  for size in (b"0x%x" % len(BODY), b" %x" % len(BODY), b"-%x" % len(BODY), b"1%016x" % len(BODY))),
                (b"Inference-Header-Content-Length: 1\r\nInference-Header-Content-Length: 2\r\nContent-Length: 5\r\n", b"12345", 400)):
            with self.subTest(head):
                got = self.statuses(INFER + head + b"\r\n" + body + hidden)
                self.assertEqual(len(got), 1, "what follows was taken for a request")
                self.assertIn(got[0], (status, 400, 413))

    def test_chunks(self):
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(BODY[i:i + 7]), BODY[i:i + 7]) for i in range(0, len(BODY), 7))
        self.assertEqual(self.statuses(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"), [200])

    def test_an_address_for_a_proxy(self):
        self.assertEqual(self.statuses(b"GET http://a/v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n" * 2), [200, 200])

    def test_pipelines(self):
        request = INFER + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
        self.assertEqual(self.statuses(request * 20), [200] * 20)

    def test_broken(self):
        for bad in (b"\0" * 5000, b"GET\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\n\r\n",
                    b"GET /v2/" + b"a/" * 900 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 50000,
                    INFER + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", b"GET /v2 HTTP/1.1\r\n\r\n",
                    INFER + b"Content-Length: 100\r\n\r\n{}", b"GET /v2/models/%00%ff/ready HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"GET /v2/models/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"POST /v2/repository/models/..%2f..%2fetc/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                    b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n" + b"[" * 4000):
            with self.subTest(bad[:40]):
                self.assertTrue(all(400 <= status < 600 for status in self.statuses(bad)), self.statuses(bad))


class Large(Case):
    def test_bodies(self):
        for head in (b"Content-Length: %d\r\n\r\n" % (1 << 21), b"Content-Length: 999999999999\r\n\r\n"):
            self.assertEqual(self.statuses(INFER + head), [413])
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        self.assertEqual(self.statuses(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 20 + b"0\r\n\r\n"), [413])

    def test_bombs(self):
        for packed in (gzip.compress(b" " * (1 << 24)), gzip.compress(BODY)[:-9], gzip.compress(BODY) + b"x", b"\x1f\x8b", b""):
            with self.subTest(packed[:20]):
                head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
                self.assertEqual(self.statuses(INFER + head + packed), [400])

    def test_memory_of_all(self):
        peers = [self.connect() for _ in range(8)]  # each says that 1 MB will come
        for peer in peers:
            peer.sendall(INFER + b"Content-Length: %d\r\n\r\n{" % (1 << 20))
        told = [peer.recv(65536).split()[1:2] for peer in peers]  # nothing: ended, since no more came
        self.assertEqual(sorted(told), [[]] * 4 + [[b"503"]] * 4)
        for peer in peers:
            peer.close()
        client = self.front.client()
        wait_for("the memory to be free again",
                 lambda: client.ask("POST", "/v2/models/digits/infer", b" " * (1 << 20))[0] == 400)
        client.close()


class Slow(Case):
    def test_heads_and_bodies(self):
        """A byte now and then, for ever: ended after --request-timeout, and meanwhile others are served."""
        for start in (b"", b"GET /v2 HT", INFER + b"Content-Length: 100000\r\n\r\n"):
            peer = self.connect()
            peer.settimeout(0.2)
            ended = []

            def drip():
                try:
                    peer.sendall(b" " if start.endswith(b"\n") else b"a")
                    ended.append(peer.recv(100))
                except TimeoutError:
                    pass
                except OSError:
                    ended.append(b"")
                return ended
            peer.sendall(start or b"G")
            wait_for("the slow peer to be ended", drip)

    def test_answers_that_nobody_takes(self):
        """The kernel may hold on to what was sent for longer; the server does not."""
        peer = self.connect()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(5)
        before = self.threads()
        with self.assertRaises(OSError):
            while True:
                peer.sendall(b"GET /v2/models/stats HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        wait_for("its thread to end", lambda: self.threads() <= before)

    def threads(self):
        return len(os.listdir(f"/proc/{self.front.process.pid}/task"))

    def test_more_than_there_may_be(self):
        peers = [self.connect() for _ in range(100)]
        for peer in peers:
            try:
                peer.sendall(b"GET /v2 HT")
            except OSError:
                pass
        self.quiet.close()
        wait_for("a place", lambda: answers(self.front.port, "live"))
        for peer in peers:
            peer.close()


class Life(Case):
    def test_who_has_yet_to_ask_gives_way(self):
        front = Front(self.daemon, self.folder.name, "--connections", "8", "--request-timeout", "600")
        peers = [socket.create_connection(("127.0.0.1", front.port), timeout=PATIENCE) for _ in range(40)]
        for peer in peers:
            peer.sendall(b"GET /v2 HT")
        wait_for("a place", lambda: answers(front.port, "live"))  # those told to end have a few more places until they have
        for peer in peers:
            peer.close()
        front.stop()

    def test_a_burst(self):
        """As many again as there may be come at once: each of them is let in."""
        front = Front(self.daemon, self.folder.name, "--connections", "48", "--request-timeout", "600")
        silent = [socket.create_connection(("127.0.0.1", front.port), timeout=PATIENCE) for _ in range(48)]
        wait_for("all of them", lambda: len(os.listdir(f"/proc/{front.process.pid}/task")) > 48)
        burst = [socket.create_connection(("127.0.0.1", front.port), timeout=PATIENCE) for _ in range(48)]
        for peer in burst:
            peer.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for peer in burst:
            self.assertEqual(peer.recv(15), b"HTTP/1.1 200 OK")
        for peer in silent + burst:
            peer.close()
        front.stop()

    def test_the_end_waits_for_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "slow.rknn").write_bytes(b"anything")
            daemon = Daemon("--backend", "null:64:40,delay_us=1000000")
            front = Front(daemon, folder)
            got = []

            def go():
                client = front.client()
                got.append(client.infer("slow", {"input": np.zeros(64, np.uint8)}))
                client.close()
            thread = threading.Thread(target=go)
            thread.start()
            wait_for("it to run", lambda: daemon.status()["jobs_running"] == 1)
            front.stop()
            thread.join()
            self.assertEqual(len(got), 1)
            daemon.stop()

    def test_a_limit_of_time(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "slow.rknn").write_bytes(b"anything")
            daemon = Daemon("--backend", "null:64:40,delay_us=60000000")
            front = Front(daemon, folder, "--run-limit", "200")
            client = front.client()
            with self.assertRaises(Refused) as refused:
                client.infer("slow", {"input": np.zeros(64, np.uint8)})
            self.assertEqual(refused.exception.status, 504)
            client.close()
            front.stop()
            daemon.stop()

    def test_it_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DIGITS, folder)
            front = Front(self.daemon, folder)
            client = front.client()
            client.infer("digits", {"image": PICTURE})
            os.kill(front.process.pid, signal.SIGKILL)
            front.process.wait()
            client.close()
            again = Front(self.daemon, folder, port=front.port)
            again.stop()

    def test_refused_at_the_start(self):
        for words, options in (("--insecure", ["--models", "/tmp", "--listen", "tcp:0.0.0.0:1"]), ("--models", []),
                               ("no folder", ["--models", "/nothing"]), ("usb:", ["--models", "/tmp", "--listen", "usb:"]),
                               ("--listne", ["--listne", "a"]), ("no option", ["--models", "/tmp", "more"]),
                               ("listening", ["--models", "/tmp", "--listen", f"tcp:127.0.0.1:{self.front.port}"])):
            done = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=PATIENCE, check=False,
                                  env=self.daemon.env)
            self.assertNotEqual((words, done.returncode), (words, 0))
            self.assertIn(words, done.stderr)

    def test_agent(self):
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            front = Front(self.daemon, folder, "--agent", f"tcp:127.0.0.1:{port}")
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as peer:
                self.assertEqual(peer.makefile("rb").read(), b"up ready 100%\n")
            front.stop()


if __name__ == "__main__":
    unittest.main()
