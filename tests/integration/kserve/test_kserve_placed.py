#!/usr/bin/python3
"""Large tensors, which are read to where the daemon has them, too: each answer is of its own, and who is slow keeps nobody waiting. And
what happens to requests of all kinds while one part after the other is killed."""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kserve_front import HEADER, Client, Front, Refused, WithFront, free_port
from support.service import PATIENCE, Daemon, wait_for

SIZE = 40000  # floats: far more than a socket's first bytes
KILLS = int(os.environ.get("RKNND_KILLS", "3"))  # of each part


def succ(path, size):
    """y = x + 1."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in "xy"]
    one = numpy_helper.from_array(np.float32([1]), "one")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "succ", ends[:1], ends[1:], [one]),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


def request(array, told=None):
    """What precedes the tensor's bytes."""
    text = json.dumps({"inputs": [{"name": "x", "shape": list(array.shape), "datatype": "FP32",
                                   "parameters": {"binary_data_size": told or array.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return b"POST /v2/models/large/infer HTTP/1.1\r\nHost: a\r\n%s: %d\r\nContent-Length: %d\r\n\r\n%s" % (
        HEADER.encode(), len(text), len(text) + array.nbytes, text)


def read_one(stream):
    """Status and body of one answer."""
    status, length = int(stream.readline().split()[1]), 0
    while (line := stream.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name == b"Content-Length" else length
    return status, stream.read(length)


class Peer:
    """A connection whose bytes are ours to send."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.stream = self.socket.makefile("rb")

    def ask(self, array):
        self.socket.sendall(request(array) + array.tobytes())
        return self.answer()

    def answer(self):
        status, body = read_one(self.stream)
        return np.frombuffer(body[-4 * SIZE:], np.float32) if status == 200 else status

    def close(self):
        self.stream.close()
        self.socket.close()


class Placed(WithFront):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        succ(pathlib.Path(cls.folder.name, "large.onnx"), SIZE)
        cls.daemon = Daemon("--backend", "sim:rk3588", "--log-level", "error")
        cls.front = Front(cls.daemon, cls.folder.name, "--contexts", "1", "--log-level", "error")

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)

    def peer(self):
        peer = Peer(self.front.port)
        self.addCleanup(peer.close)
        return peer

    def tensor(self):
        return self.random.standard_normal((1, SIZE)).astype(np.float32)

    def check(self, peer):
        x = self.tensor()
        np.testing.assert_array_equal(peer.ask(x), x[0] + 1)

    def test_each_its_own(self):
        peers = [self.peer() for _ in range(3)]
        for _ in range(10):
            for peer in peers:
                self.check(peer)

    def test_pipelined(self):
        peer, arrays = self.peer(), [self.tensor() for _ in range(5)]
        threading.Thread(target=peer.socket.sendall, args=(b"".join(request(x) + x.tobytes() for x in arrays),)).start()
        for x in arrays:
            np.testing.assert_array_equal(peer.answer(), x[0] + 1)

    def test_slow_ones(self):
        """There is one context, and whoever holds it while bytes are missing would keep the other from it."""
        slow, other, x = self.peer(), self.peer(), self.tensor()
        self.check(slow)
        data = x.tobytes()
        slow.socket.sendall(request(x) + data[:30000])
        for at in range(30000, 100000, 10000):
            self.check(other)
            slow.socket.sendall(data[at:at + 10000])
        slow.socket.sendall(data[100000:])
        np.testing.assert_array_equal(slow.answer(), x[0] + 1)
        self.check(slow)

    def test_who_leaves_in_between(self):
        other = self.peer()
        for n in (0, 100, 20000, 4 * SIZE - 1):
            peer, x = self.peer(), self.tensor()
            self.check(peer)
            peer.socket.sendall(request(x) + x.tobytes()[:n])
            peer.close()
            self.check(other)

    def test_what_is_wrong(self):
        """Refused as ever, and the place is free again."""
        peer, x = self.peer(), self.tensor()
        self.check(peer)
        peer.socket.sendall(request(x, told=4 * SIZE - 4) + x.tobytes())
        self.assertEqual(peer.answer(), 400)
        self.check(peer)

    def test_a_new_daemon(self):
        """The memory was the old one's, and the tensor lies in it."""
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as place:
            folder = pathlib.Path(place)
            kept = type("Folder", (), {"name": place, "cleanup": lambda self: None})()
            daemon = Daemon("--backend", "sim:rk3588", "--log-level", "error", folder=kept)
            front = Front(daemon, self.folder.name, "--log-level", "error")
            peer = Peer(front.port)
            self.check(peer)
            daemon.process.kill()
            daemon.process.wait()
            (folder / "socket").unlink()
            daemon = Daemon("--backend", "sim:rk3588", "--log-level", "error", folder=kept)
            for _ in range(3):
                self.check(peer)
            peer.close()
            front.stop()
            daemon.stop()


class Traffic:
    """Clients that ask again and again; an answer that is there is right."""

    def __init__(self, port):
        self.port, self.ends, self.failed, self.wrong = port, False, collections.Counter(), []
        self.good = [0] * 6  # answers of each
        self.threads = [threading.Thread(target=self.go, args=(i,)) for i in range(len(self.good))]
        for thread in self.threads:
            thread.start()

    def go(self, number):
        numbers, client = np.random.default_rng(number), None
        while not self.ends:
            client = client or Client(self.port)
            name, size = ("large", SIZE) if number % 2 else ("small", 8)
            x = numbers.integers(-100, 100, (1, size)).astype(np.float32)
            try:
                _, got = client.infer(name, {"x": x}, binary=number < 4)
                if not np.array_equal(got["y"], x + 1):
                    self.wrong.append((name, number))
                self.good[number] += 1
            except Refused as refused:
                self.failed[refused.status, refused.text] += 1
            except (OSError, ValueError, http.client.HTTPException) as broken:
                self.failed[type(broken).__name__, ""] += 1
                client.close()
                client = None
        if client:
            client.close()

    def more(self, n=2):
        """That many answers to each of them from now on: a job is run twice at most, and the next kill must find another one."""
        wanted = [good + n for good in self.good]
        wait_for(lambda: f"{self.good} to be {wanted}", lambda: all(good >= n for good, n in zip(self.good, wanted)))

    def stop(self):
        self.ends = True
        for thread in self.threads:
            thread.join()


def is_listening(path):
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(str(path)) == 0


class Killed(unittest.TestCase):
    """kill -9 of every part under load: what has no part in it goes on."""

    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(self.place.cleanup)
        self.models = tempfile.TemporaryDirectory()
        self.addCleanup(self.models.cleanup)
        for name, size in (("large", SIZE), ("small", 8)):
            succ(pathlib.Path(self.models.name, f"{name}.onnx"), size)
        self.kept = type("Folder", (), {"name": self.place.name, "cleanup": lambda self: None})()
        self.watch = free_port()
        self.daemon = self.start_daemon()
        self.front = self.start_front()
        self.traffic = Traffic(self.front.port)
        self.addCleanup(self.end)
        self.traffic.more()

    def start_daemon(self):
        return Daemon("--backend", "sim:rk3588", "--log-level", "error", "--http", f"tcp:127.0.0.1:{self.watch}", folder=self.kept)

    def start_front(self, port=None):
        return Front(self.daemon, self.models.name, "--log-level", "error", port=port)

    def end(self):
        self.traffic.stop()
        if self.front.process.poll() is None:
            self.front.stop()
        if self.daemon.process.poll() is None:
            self.daemon.stop()
        self.assertEqual(self.traffic.wrong, [])

    def children(self, name):
        found = []
        for listed in pathlib.Path(f"/proc/{self.daemon.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                for pid in map(int, listed.read_text().split()):
                    with contextlib.suppress(OSError):  # it has
                        if name in pathlib.Path(f"/proc/{pid}/comm").read_text():
                            found.append(pid)
        return found

    def program(self):
        """Another program of the daemon's, which has nothing to do with the front."""
        self.daemon.rknnctl("bench", "-n", "20", "--json", pathlib.Path(self.models.name, "small.onnx"))

    def test_workers(self):
        """The daemon runs their jobs once more: nobody hears of it."""
        for _ in range(KILLS):
            for pid in self.children("rknnd-worker"):
                os.kill(pid, signal.SIGKILL)
            self.traffic.more()
        self.assertEqual(dict(self.traffic.failed), {})

    def test_http(self):
        """The process that tells numbers."""
        for _ in range(KILLS):
            old = self.children("rknnd-http")
            self.assertEqual(len(old), 1)
            os.kill(old[0], signal.SIGKILL)
            self.traffic.more()
            wait_for("another one", lambda old=old: self.children("rknnd-http") not in ([], old))
            client = Client(self.watch)
            self.assertEqual(client.ask("GET", "/healthz")[0], 200)
            client.close()
        self.assertEqual(dict(self.traffic.failed), {})

    def test_front(self):
        """Programs of the daemon go on, what it held is free, and another front serves."""
        for _ in range(KILLS):
            os.kill(self.front.process.pid, signal.SIGKILL)
            self.front.process.wait()
            self.program()
            wait_for("its contexts to be gone", lambda: self.daemon.status()["contexts"] == 0)
            self.front = self.start_front(port=self.front.port)
            self.traffic.more()
        told = {key for key in self.traffic.failed if key[0] not in ("ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError",
                                                                     "RemoteDisconnected", "IncompleteRead", "BadStatusLine")}
        self.assertLessEqual({status for status, _ in told}, {503}, told)  # until it has loaded its models (docs/decisions/0200)

    def test_daemon(self):
        """Requests fail with words as long as there is none, and on the same connections once there is. The socket that the dead one
        left is in nobody's way."""
        for _ in range(KILLS):
            self.daemon.process.kill()
            self.daemon.process.wait()
            failed = self.traffic.failed.total()
            wait_for("failures", lambda failed=failed: self.traffic.failed.total() > failed)
            self.daemon = self.start_daemon()
            self.traffic.more()
        self.assertLessEqual({status for status, _ in self.traffic.failed}, {503}, self.traffic.failed)
        self.assertIsNone(self.front.process.poll())

    def test_sockets_that_are_left(self):
        """By the front and by who tells numbers, on Unix sockets: who starts next takes their places."""
        numbers, served = pathlib.Path(self.place.name, "numbers"), pathlib.Path(self.place.name, "served")
        place = type("Folder", (), {"name": self.models.name, "cleanup": lambda self: None})()
        for _ in range(2):
            daemon = Daemon("--backend", "null:64:40", "--log-level", "error", "--http", f"unix:{numbers}", folder=place)
            front = Front(daemon, self.models.name, "--listen", f"unix:{served}", "--log-level", "error")
            for path, page in (numbers, "/healthz"), (served, "/v2/health/live"):
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(str(path))
                    peer.sendall(f"GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                    with peer.makefile("rb") as stream:
                        self.assertEqual(read_one(stream)[0], 200)
            for process in front.process, daemon.process:
                process.kill()
                process.wait()
            self.assertTrue(numbers.is_socket() and served.is_socket())
            wait_for("who tells numbers to notice it", lambda: not is_listening(numbers))
        self.traffic.more()

    def test_all_at_random(self):
        choice = random.Random(7)
        for _ in range(2 * KILLS):
            kind = choice.choice(("rknnd-worker", "rknnd-http", "front"))
            if kind == "front":
                os.kill(self.front.process.pid, signal.SIGKILL)
                self.front.process.wait()
                self.front = self.start_front(port=self.front.port)
            for pid in self.children(kind):
                os.kill(pid, signal.SIGKILL)
            self.traffic.more()


if __name__ == "__main__":
    unittest.main()
