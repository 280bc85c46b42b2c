#!/usr/bin/python3
"""Requests like the last one of their connection, which few threads answer for all connections: each gets its own answer, whatever
comes between them, and neither a run that hangs nor a peer that takes no answers holds the others."""
import contextlib
import os
import pathlib
import random
import signal
import socket
import tempfile
import threading
import unittest

import numpy as np

from kserve_front import HEADER, Front, WithFront
from support.seed import seed
from support.service import PATIENCE, Daemon, wait_for
from test_kserve_placed import Peer, read_one, request, succ

SIZE = 16  # floats
TWICE = 2  # requests behind which a connection's next one can be like its last
BIG = 1900  # floats: as many as are still small


class Repeated(WithFront):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        succ(f"{cls.folder.name}/large.onnx", SIZE)
        succ(f"{cls.folder.name}/big.onnx", BIG)
        cls.daemon = Daemon("--backend", "sim:rk3588")
        cls.front = Front(cls.daemon, cls.folder.name, "--contexts", "4")

    def peer(self):
        peer = Peer(self.front.port)
        self.addCleanup(peer.socket.close)
        self.addCleanup(peer.stream.close)
        return peer

    def send(self, peer, value, cut=None):
        array = np.full((1, SIZE), value, np.float32)
        data = request(array) + array.tobytes()
        peer.socket.sendall(data[:cut])
        return data[cut:] if cut else b""

    def check(self, peer, value):
        status, body = read_one(peer.stream)
        self.assertEqual(status, 200, body)
        np.testing.assert_array_equal(np.frombuffer(body[-SIZE * 4:], np.float32), np.full(SIZE, value + 1, np.float32))

    def ask(self, peer, value):
        self.send(peer, value)
        self.check(peer, value)

    def repeating(self):
        """A connection whose requests these threads answer."""
        peer = self.peer()
        for i in range(TWICE):
            self.ask(peer, i)
        return peer

    def switches(self):
        """How often those threads have waited."""
        tasks = [task for task in pathlib.Path(f"/proc/{self.front.process.pid}/task").iterdir()
                 if (task / "comm").read_text() == "kserve-gather\n"]
        self.assertTrue(tasks)
        return sum(int((task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]) for task in tasks)

    def test_few_threads_answer(self):
        peer, before = self.repeating(), self.switches()
        for i in range(100):
            self.ask(peer, i)
        self.assertGreaterEqual(self.switches() - before, 100)

    def test_each_has_its_own(self):
        def go(i):
            peer = self.peer()
            for k in range(200):
                self.ask(peer, 1000 * i + k)
            done.append(i)
        done = []
        threads = [threading.Thread(target=go, args=(i,)) for i in range(12)]  # three for each context
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(done), list(range(12)))

    def test_several_come_at_once(self):
        """In one piece, so that they are read together, on a connection that is lent and on one that is not yet."""
        array = np.full((1, SIZE), 1, np.float32)
        for peer in (self.repeating(), self.peer()):
            for n in (2, 3, 5):
                peer.socket.sendall(b"".join(request(array) + (array * i).tobytes() for i in range(n)))
                for i in range(n):
                    self.check(peer, i)

    def between(self, peer, choice):
        """What comes between two requests that are alike."""
        if choice == "page":
            peer.socket.sendall(b"GET /v2/models/large HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(read_one(peer.stream)[0], 200)
        elif choice == "wrong":
            text = request(np.zeros((1, SIZE + 1), np.float32))
            peer.socket.sendall(text + bytes(4 * (SIZE + 1)))
            self.assertEqual(read_one(peer.stream)[0], 400)
        elif choice == "JSON":
            peer.socket.sendall(self.with_id(np.full((1, SIZE), 5, np.float32)))
            self.assertIn(b'"id":"a"', read_one(peer.stream)[1])
        elif choice == "two":
            self.send(peer, 7)
            self.send(peer, 8)
            self.check(peer, 7)
            self.check(peer, 8)
        elif choice == "late":
            rest = self.send(peer, 9, cut=random.choice((1, 30, -70, -1)))
            self.ask(self.quick, 3)
            peer.socket.sendall(rest)
            self.check(peer, 9)
        elif choice == "head":
            array = np.full((1, SIZE), 4, np.float32)
            peer.socket.sendall(request(array).replace(b"Host: a\r\n", b"Host: a\r\nAccept-Encoding: gzip\r\n") + array.tobytes())
            self.check(peer, 4)

    @staticmethod
    def with_id(array):
        head, _, text = request(array).partition(b"\r\n\r\n")
        text = b'{"id":"a",' + text[1:]
        head = b"POST /v2/models/large/infer HTTP/1.1\r\nHost: a\r\n%s: %d\r\nContent-Length: %d\r\n\r\n" % (
            HEADER.encode(), len(text), len(text) + array.nbytes)
        return head + text + array.tobytes()

    def test_what_comes_between(self):
        random.seed(seed())
        self.quick = self.repeating()
        peer = self.repeating()
        for _ in range(60):
            self.between(peer, random.choice(("page", "wrong", "JSON", "two", "late", "head")))
            for _ in range(random.randrange(4)):
                self.ask(peer, random.randrange(1000))

    def test_loaded_again(self):
        """The model of the last request has gone meanwhile, and another one may have its name."""
        peer = self.repeating()
        self.client.ask("POST", "/v2/repository/models/large/unload")
        self.send(peer, 1)
        self.assertEqual(read_one(peer.stream)[0], 404)
        self.client.ask("POST", "/v2/repository/models/large/load")
        for i in range(5):
            self.ask(peer, i)

    def workers(self):
        return [pid for pid in self.daemon.children() if b"--worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

    def test_a_run_that_hangs(self):
        hangs, other = self.repeating(), self.repeating()
        workers = self.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            self.send(hangs, 1)
            wait_for("it to run", lambda: self.daemon.status()["jobs_running"] > 0)
            other.socket.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(read_one(other.stream)[0], 200)
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        self.check(hangs, 1)
        self.ask(other, 2)
        self.ask(hangs, 3)

    def test_a_worker_that_dies(self):
        peers = [self.repeating() for _ in range(3)]
        for round_ in range(5):
            for pid in self.workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for i, peer in enumerate(peers):
                self.send(peer, i + round_)
            for i, peer in enumerate(peers):
                self.check(peer, i + round_)

    def served(self):
        return self.client.json("/v2/models/big/stats")["model_stats"][0]["inference_count"]

    def test_answers_that_nobody_takes(self):
        """One after the other, so that each is like the last; until there is no room for an answer any more."""
        array = np.full((1, BIG), 1, np.float32)
        data = request(array).replace(b"models/large", b"models/big") + array.tobytes()
        peer = socket.socket()
        self.addCleanup(peer.close)
        peer.settimeout(PATIENCE)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", self.front.port))
        quick, sent, stuck = self.repeating(), 0, False
        while not stuck:
            before = self.served()
            peer.sendall(data)
            sent += 1
            looks = 0
            while self.served() == before and not stuck:
                looks += 1
                stuck = looks == 300
                self.ask(quick, looks)
        stream = peer.makefile("rb")
        for _ in range(sent):
            status, body = read_one(stream)
            self.assertEqual((status, body[-BIG * 4:]), (200, np.full(BIG, 2, np.float32).tobytes()))
        stream.close()

    def test_ends_well(self):
        """Connections that wait there when the front is to end."""
        front = Front(self.daemon, self.folder.name)
        peers = [Peer(front.port) for _ in range(8)]
        for peer in peers:
            for i in range(3):
                self.ask(peer, i)
        front.stop()
        for peer in peers:
            self.assertEqual(peer.stream.read(), b"")
            peer.stream.close()
            peer.socket.close()

    def test_peers_that_leave(self):
        def threads():
            return len(os.listdir(f"/proc/{self.front.process.pid}/task"))
        before = threads()
        for i in range(30):
            peer = Peer(self.front.port)
            for k in range(3):
                self.ask(peer, k)
            if i % 3 == 0:
                self.send(peer, 1)
            if i % 3 == 1:
                self.send(peer, 1, cut=-8)
            peer.stream.close()
            peer.socket.close()
        wait_for("their threads to end", lambda: threads() <= before)


if __name__ == "__main__":
    unittest.main()
