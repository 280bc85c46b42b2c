"""What peers do that want too much of rknnd-kserve, as attack_list.py has it of rknnd: FRONT_ATTACKS, by name."""
import atexit
import contextlib
import gzip
import itertools
import json
import socket
import subprocess

from support.paths import DIGITS
from support.service import BUILD, listen_on_any_port, wait_for

FRONT_ATTACKS = {}
HEAD = b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\n"
BODY = json.dumps({"inputs": [{"name": "image", "shape": [1, 8, 8, 1], "datatype": "UINT8", "data": [0] * 64}]}).encode()
LARGE = 4 << 20  # bytes


def attack(f):
    FRONT_ATTACKS["front_" + f.__name__] = f
    return f


class Front:
    """rknnd-kserve, with one model."""

    def __init__(self, daemon, folder):
        with listen_on_any_port() as listener:
            self.port = listener.getsockname()[1]
        (folder / "digits.rknn").write_bytes(DIGITS.read_bytes())
        self.process = subprocess.Popen([BUILD / "bin/rknnd-kserve", "--server", daemon.uri, "--models", folder, "--listen",
                                         f"tcp:127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, env=daemon.env)
        atexit.register(self.process.kill)
        wait_for("rknnd-kserve to be ready", self.is_ready)

    def is_ready(self):
        with contextlib.suppress(OSError), Peer(self.port) as peer:
            return peer.ask(b"GET /v2/health/ready HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 200
        return False

    def stop(self):
        self.process.terminate()
        return self.process.wait()


class Peer:
    """A connection, whose answers are read to their ends."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def receive(self):
        """Status, body."""
        first, length = self.stream.readline(), 0
        if not first:
            raise ConnectionError
        status = int(first.split()[1])
        while (line := self.stream.readline().strip()):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, self.stream.read(length)

    def ask(self, request):
        self.socket.sendall(request)
        return self.receive()


def infer(body=BODY, more=b""):
    return HEAD + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def many(scene, n, data):
    """Connections that each say this, and then nothing, until the front ends the first of them."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(scene.port)) for _ in range(n)]
        for i, peer in enumerate(peers):
            with contextlib.suppress(OSError):
                peer.socket.sendall(data(i))
                scene.did()
        peers[0].socket.settimeout(1)
        peers[0].socket.recv(1)


@attack
def heads_that_stop(scene):
    scene.repeat(lambda: many(scene, 500, lambda i: infer()[:i % 60]))


@attack
def bodies_that_stop(scene):
    scene.repeat(lambda: many(scene, 50, lambda i: HEAD + b"Content-Length: %d\r\n\r\n" % LARGE + bytes(LARGE // 2 if i < 8 else 1)))


@attack
def chunks_of_a_byte(scene):
    body = b"".join(b"1\r\n%c\r\n" % c for c in BODY) + b"0\r\n\r\n"

    def deed():
        with Peer(scene.port) as peer:
            while True:
                peer.ask(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
                scene.did()
    scene.repeat(deed)


@attack
def bombs(scene):
    bomb = infer(gzip.compress(bytes(LARGE * 8)), b"Content-Encoding: gzip\r\n")

    def deed():
        with Peer(scene.port) as peer:
            while True:
                peer.ask(bomb)
                scene.did()
    scene.repeat(deed)


@attack
def numbers(scene):
    """Of two characters eight bytes become."""
    n = LARGE // 2
    text = json.dumps({"inputs": [{"name": "image", "shape": [n], "datatype": "FP64", "data": []}]})
    request = infer(text.replace("[]", "[" + "0," * (n - 1) + "0]").encode())

    def deed():
        with Peer(scene.port) as peer:
            while True:
                peer.ask(request)
                scene.did()
    scene.repeat(deed)


@attack
def runs_pipelined(scene):
    def deed():
        with Peer(scene.port) as peer:
            peer.socket.sendall(infer() * 16)
            for _ in itertools.count():
                peer.receive()
                peer.socket.sendall(infer())
                scene.did()
    scene.repeat(deed)


@attack
def answers_unread(scene):
    """Until nothing more is taken, on many connections."""
    def deed():
        with contextlib.ExitStack() as stack:
            for peer in [stack.enter_context(Peer(scene.port)) for _ in range(32)]:
                peer.socket.setblocking(False)
                with contextlib.suppress(OSError):
                    while True:
                        peer.socket.send(b"GET /v2/models/stats HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
                        scene.did()
    scene.repeat(deed)


@attack
def models_asked_for(scene):
    """The folder is listed anew for each, and the answer packed."""
    def deed():
        with Peer(scene.port) as peer:
            while True:
                peer.ask(b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")
                scene.did()
    scene.repeat(deed)
