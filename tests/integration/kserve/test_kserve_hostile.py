#!/usr/bin/python3
"""Peers of rknnd-kserve that are slow, huge, broken or ambiguous: they get a status and nobody else notices."""
import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import numpy as np

from kserve_front import PROGRAM, Front, Refused, answers, free_port
from support.service import DIGITS, PATIENCE, SANITIZED, Daemon, wait_for

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
                (b"Transfer-Encoding : chunked\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
                (b"X{}: y\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
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

    def test_tls(self):
        """Its client waits for an answer, and would for as long as a head may take to come."""
        with socket.create_connection(("127.0.0.1", self.front.port), timeout=PATIENCE) as peer:
            peer.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertEqual(peer.recv(12), b"HTTP/1.1 400")

    def test_broken(self):
        for bad in (b"\0" * 5000, b"GET\r\n\r\n", b"GET /v2 HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\n\r\n",
                    b"GET /v2/" + b"a/" * 900 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 50000,
                    INFER + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", b"GET /v2 HTTP/1.1\r\n\r\n",
                    b"GET /v2 HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n", INFER + b"Expect: more\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
                    INFER.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    INFER + b"Content-Length: 100\r\n\r\n{}", b"GET /v2/models/%00%ff/ready HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"GET /v2/models/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"POST /v2/repository/models/..%2f..%2fetc/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                    b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n" + b"[" * 4000):
            with self.subTest(bad[:40]):
                self.assertTrue(all(400 <= status < 600 for status in self.statuses(bad)), self.statuses(bad))


class Odd(Case):
    """What RFC 9112 allows and few send, and what is said to those who are refused."""

    def test_chunks_with_more(self):
        """Extensions and trailers mean nothing here, and the next request begins behind them."""
        chunked = INFER + b"Transfer-Encoding: chunked\r\n\r\n"
        body = b"%x;a=\"b\"\r\n%s\r\n000\r\nX-Sum: 1\r\nContent-Length: 5\r\n\r\n" % (len(BODY), BODY)
        self.assertEqual(self.statuses((chunked + body) * 3 + b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"), [200] * 4)
        self.assertEqual(self.statuses(chunked + b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n"), [431])

    def test_continue(self):
        peer = self.connect()
        peer.sendall(INFER + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        stream = peer.makefile("rb")
        self.assertEqual((stream.readline(), stream.readline()), (b"HTTP/1.1 100 Continue\r\n", b"\r\n"))
        peer.sendall(BODY)
        self.assertEqual(stream.readline(), b"HTTP/1.1 200 OK\r\n")
        too_much = INFER + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n"
        self.assertEqual(self.statuses(too_much), [413])

    def test_head(self):
        """As GET, with the length that its body would have, and without that."""
        got = self.answer(b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, _, body = got.partition(b"\r\n\r\n")
        self.assertIn(b"Content-Length: %d\r\n" % len(body), head)
        alone = self.answer(b"HEAD /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        without_date = [[line for line in text.split(b"\r\n") if not line.startswith(b"Date")] for text in (head, alone.rstrip(b"\r\n"))]
        self.assertEqual(*without_date)
        self.assertTrue(alone.endswith(b"\r\n\r\n"))

    def test_methods(self):
        for method in (b"OPTIONS", b"PUT", b"DELETE", b"TRACE", b"CONNECT", b"PATCH", b"get"):
            got = self.answer(method + b" /v2 HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertTrue(got.startswith(b"HTTP/1.1 405 "), got)
            self.assertIn(b"\r\nAllow: GET, HEAD\r\n", got)
        for target in (b"*", b"a:80", b"http://a", b"https://a/v2"):
            self.assertEqual(self.statuses(b"OPTIONS %s HTTP/1.1\r\nHost: a\r\n\r\n" % target), [404], target)

    def test_old_clients(self):
        """HTTP/1.0 ends behind an answer, unless it asks for more."""
        once = b"GET /v2 HTTP/1.0\r\n\r\n"
        self.assertEqual(self.statuses(once * 2), [200])
        stays = b"GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        self.assertEqual(self.statuses(stays * 2 + once), [200] * 3)
        self.assertIn(b"\r\nConnection: keep-alive\r\n", self.answer(stays))

    def test_empty_lines_in_front(self):
        self.assertEqual(self.statuses(b"\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n" * 2), [200, 200])

    def test_bodies_that_nobody_asked_for(self):
        got = self.statuses(b"GET /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nGET /v2/x HTTP/1.1\r\n" * 2)
        self.assertEqual(got, [200, 200])

    def test_heads_of_any_length(self):
        """Up to 16 KiB; and no length of the one before changes what the next one is taken for."""
        for n in (1, 4000, 16000):
            self.assertEqual(self.statuses(b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"y" * n) * 3), [200] * 3)
        self.assertEqual(self.statuses(b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"y" * 17000)), [431])
        self.assertEqual(self.statuses(b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"y" * 17000)), [414])

    def test_binary_sizes_that_lie(self):
        """The JSON that was right a request before is no reason to believe the next one."""
        tensor = '{"inputs": [{"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "parameters": {"binary_data_size": %s}}]}'
        honest = (tensor % 64).encode()

        def request(text, tail, told=None):
            head = f"Inference-Header-Content-Length: {len(text) if told is None else told}\r\nContent-Length: {len(text) + len(tail)}\r\n\r\n"
            return INFER + head.encode() + text + tail
        for size in (0, 63, 65, 1 << 40, (1 << 63) - 1, 1 << 63, -1, "6.41e1", '"64"'):
            self.assertEqual(self.statuses(request((tensor % size).encode(), bytes(64))), [400], size)
        good, tails = request(honest, bytes(64)), (b"", bytes(63), bytes(65), bytes(1000))
        for tail in tails:
            self.assertEqual(self.statuses(good + request(honest, tail) + good), [200, 400, 200], len(tail))
        for told in (0, 1, len(honest) - 1, len(honest) + 1, len(honest) + 64, 1 << 40):
            self.assertEqual(self.statuses(good + request(honest, bytes(64), told) + good), [200, 400, 200], told)
        other = honest.replace(b"image", b"imagf")
        self.assertEqual(self.statuses(good + request(other, bytes(64)) + good), [200, 400, 200])

    def test_tensors_behind_the_same_json(self):
        """Each answer is that of its own tensor."""
        client = self.front.client()
        for shift in range(4):
            picture = np.roll(PICTURE, shift * 7)
            _, plain = client.infer("digits", {"image": picture}, binary=False)
            _, again = client.infer("digits", {"image": picture})
            np.testing.assert_array_equal(again["probability"], plain["probability"])
        client.close()

    def test_a_refusal_is_read_before_the_end(self):
        """Though the peer goes on sending what nobody reads."""
        for _ in range(20):
            peer = self.connect()
            peer.sendall(INFER + b"Content-Length: 3000000\r\n\r\n" + bytes(300000))
            got = b""
            while part := peer.recv(65536):
                got += part
                peer.sendall(bytes(1000))
            self.assertTrue(got.startswith(b"HTTP/1.1 413 "), got[:40])
            peer.close()


class Large(Case):
    def test_bodies(self):
        for head in (b"Content-Length: %d\r\n\r\n" % (1 << 21), b"Content-Length: 999999999999\r\n\r\n"):
            self.assertEqual(self.statuses(INFER + head), [413])
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        self.assertEqual(self.statuses(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 20 + b"0\r\n\r\n"), [413])

    def test_words_without_end(self):
        """Such a word would be read from its begin with every piece of the body: minutes, of some megabytes."""
        for text in (b'{"id":"' + b"\\n" * 400000 + b'"}', b'{"' + b"a" * 900000 + b'":1}', BODY.replace(b"[0,", b"[0" + b"1" * 900000 + b","),
                     b'{"id":"' + b"a" * 900000):
            got = self.answer(INFER + b"Content-Length: %d\r\n\r\n" % len(text) + text)
            self.assertIn(b" 400 ", got)
            self.assertIn(b"a string or a number of more than", got)

    def test_bombs(self):
        for packed in (gzip.compress(b" " * (1 << 24)), gzip.compress(BODY)[:-9], gzip.compress(BODY) + b"x", b"\x1f\x8b", b""):
            with self.subTest(packed[:20]):
                head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
                self.assertEqual(self.statuses(INFER + head + packed), [400])

    def test_memory_of_all(self):
        """Who says that much will come keeps nobody from it who sends it."""
        peers = [self.connect() for _ in range(8)]  # each says that 1 MB will come, and all have 4
        for peer in peers:
            peer.sendall(INFER + b"Content-Length: %d\r\n\r\n{" % (1 << 20))
        client = self.front.client()
        self.assertEqual(client.ask("POST", "/v2/models/digits/infer", b" " * (1 << 20))[0], 400)
        client.close()
        self.assertEqual([peer.recv(65536) for peer in peers], [b""] * 8)  # ended, since no more came
        for peer in peers:
            peer.close()


class Memory(unittest.TestCase):
    """What all together may have holds for all that peers can make large, and who is slow with it gives way."""
    MOST, BODY, ANSWER = 16 << 20, 8 << 20, 4 << 20
    PEERS = 30
    ALLOWED_KB = (MOST >> 10) + 64 * 1024  # with stacks, and what some have before it is counted

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name, "large.rknn").write_bytes(b"anything")
        self.daemon = Daemon("--backend", f"null:64:{self.ANSWER}")
        self.addCleanup(self.daemon.stop)
        self.front = Front(self.daemon, folder.name, "--max-body", str(self.BODY), "--memory", str(self.MOST), "--connections", "64",
                           "--request-timeout", "600")
        self.addCleanup(self.front.stop)

    def connect(self, request):
        peer = socket.create_connection(("127.0.0.1", self.front.port), timeout=PATIENCE)
        self.addCleanup(peer.close)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(request)
        return peer

    def request(self, body, head=b""):
        return b"POST /v2/models/large/infer HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n" % (head, len(body)) + body

    def tearDown(self):
        """Somebody else is served, and no more was there than may be."""
        client = self.front.client()
        text = json.dumps({"inputs": [{"name": "input", "shape": [64], "datatype": "UINT8", "data": [0] * 64}],
                           "parameters": {"binary_data_output": True}})

        def served():
            """503 says that it may work in a second: on a busy machine those who hold the memory take longer to give way than it waits."""
            status, headers, answer = client.ask("POST", "/v2/models/large/infer", text.encode() + b" " * 100000)
            self.assertIn((status, headers["Retry-After"]), ((200, None), (503, "1")), answer[:200])
            return status == 200 and answer
        self.assertEqual(wait_for("somebody else to be served", served)[-self.ANSWER:], bytes(self.ANSWER))
        client.close()
        if SANITIZED:  # it keeps what was freed
            return
        most, = (int(line.split()[1]) for line in pathlib.Path(f"/proc/{self.front.process.pid}/status").read_text().splitlines()
                 if line.startswith("VmHWM:"))
        self.assertLess(most, self.ALLOWED_KB)

    def test_bombs_together(self):
        bomb = self.request(gzip.compress(bytes(self.BODY - 1)), b"Content-Encoding: gzip\r\n")
        peers = [self.connect(bomb) for _ in range(self.PEERS)]
        self.assertLessEqual({peer.recv(12) for peer in peers}, {b"HTTP/1.1 400", b"HTTP/1.1 503"})

    def test_answers_that_nobody_takes(self):
        for binary in True, False:
            body = json.dumps({"inputs": [{"name": "input", "shape": [64], "datatype": "UINT8", "data": [0] * 64}],
                               "parameters": {"binary_data_output": binary}}).encode()
            for _ in range(8):
                self.connect(self.request(body))
        wait_for("runs of them", lambda: self.daemon.status()["jobs_done"] >= 4)

    def test_bodies_that_stop(self):
        for _ in range(self.MOST // self.BODY + 3):
            with contextlib.suppress(OSError):
                self.connect(self.request(bytes(self.BODY))[:-1000])

    def test_chunks_that_stop(self):
        chunks = b"POST /v2/models/large/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (self.BODY - 1)
        for _ in range(self.PEERS):
            self.connect(chunks)

    def test_numbers_in_json(self):
        """Of two characters eight bytes become."""
        n = self.BODY // 2 - 200
        text = json.dumps({"inputs": [{"name": "input", "shape": [n], "datatype": "FP64", "data": []}]})
        body = text.replace("[]", "[" + "0," * (n - 1) + "0]").encode()
        for peer in [self.connect(self.request(body)) for _ in range(3)]:
            self.assertIn(peer.recv(12), (b"HTTP/1.1 400", b"HTTP/1.1 503", b""))


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


class Many(Case):
    def test_ten_thousand(self):
        """One after the other gives way; there are never more than there may be, and others are served."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 12000), limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        before, most, peers = self.descriptors(), 0, []
        for i in range(min(10000, limit[1] - 500)):
            peers.append(socket.create_connection(("127.0.0.1", self.front.port), timeout=PATIENCE))
            try:
                peers[-1].sendall((b"", b"GET /v2 HT", INFER + b"Content-Length: 100000\r\n\r\n{")[i % 3])
            except OSError:
                pass
            most = max(most, self.descriptors()) if i % 100 == 0 else most
            if i % 1000 == 999:
                self.assertTrue(answers(self.front.port, "live"))
        self.assertLessEqual(most - before, 2 * 40 + 10)  # some are for the daemon
        for peer in peers:
            peer.close()
        wait_for("all of them to be gone", lambda: self.descriptors() <= before)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.front.process.pid}/fd"))

    def test_half_closed(self):
        """Who has said all that it will is answered; who is gone is nobody's trouble."""
        for request in (INFER + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY, b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"):
            self.assertEqual(self.statuses(request), [200])
            for cut in range(1, len(request), 7):
                self.assertEqual(self.statuses(request[:cut]), [])
            for _ in range(20):
                peer = self.connect()
                peer.sendall(request * 3)
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
