"""What programs do that want too much of the server, or its end: ATTACKS, by name. Each goes on until its process is killed,
and says by `scene.did()` how often it has done what it does. A refusal is as good as an answer, and a lost connection
is made again."""
import contextlib
import hashlib
import itertools
import os
import select
import socket
import ssl
import struct

from onnxtools.wide import outer_product
from strange import lingering
from support.daemon.long_hello import many_identities, many_shares
from support.paths import DIGITS
from support.wire import (CANCEL, CHUNK, CLOSE, CREATE, Client, DESCRIBE, DUMP, DUMP_NEXT, DUP, FIND, HEAD, HELLO, IMPORT, INFER, LIMITS, LIST,
                          LOG, MAGIC, METRICS, OFFER, OPEN, PING, PULL, SENSORS, STATS, STATUS, TRACE, message, one)

IDLE = 1000  # connections that only sit there
INPUT = bytes(8 * 8)
ALL_CORES = 7
ATTACKS = {}


def attack(f):
    ATTACKS[f.__name__] = f
    return f


def sha(data):
    return hashlib.sha256(data).digest()


class Scene:
    """The server as one attacker sees it."""

    def __init__(self, daemon, port, did, silent=None):
        """`did`: called for each deed. `silent`: a descriptor of a file system that never answers. `daemon`: of beside.py."""
        self.daemon, self.port, self.did, self.silent = daemon, port, did, silent
        self.number = itertools.count()

    def unix(self):
        return Client(self.daemon)

    def tcp(self):
        return Client(self.daemon, self.port)

    def tls(self):
        """A socket at the port that speaks TLS."""
        return socket.create_connection(("127.0.0.1", self.daemon.door.port), 10)

    def many(self, n, connect):
        """As many of n as there is room for."""
        found = []
        with contextlib.suppress(OSError, AssertionError):
            for _ in range(n):
                found.append(connect())
        return found

    def open(self, client, extra=b"", data=None):
        """A context of a model that differs from others' by some bytes after its end, or of another one; None: refused."""
        data = (data or DIGITS.read_bytes()) + extra
        client.call(OFFER, message(f1=sha(data), f2=len(data), f3=b"digits"))
        client.call(CHUNK, message(f1=sha(data), f2=0), payload=data)
        failed, fields = client.call(OPEN, message(f1=sha(data)))
        return None if failed else one(fields, 1)

    def repeat(self, deed):
        """deed(), each time with whatever it connects anew."""
        while True:
            with contextlib.suppress(OSError, AssertionError):
                deed()
                self.did()


def request(kind, body=b"", payload=b"", number=1):
    return HEAD.pack(MAGIC, kind, 0, 0, number, len(body), len(payload)) + body + payload


def run_of(context, **more):
    assert context is not None, "a context that was refused"
    return message(f1=context, f6=message(f1=len(INPUT), f5=1), **more)


def flood(scene, client, frames, read=True):
    """Sends frames (made by their numbers) for as long as the server takes them; what is not read piles up there."""
    s = client.socket
    s.setblocking(False)
    out = bytearray()
    poll = select.poll()
    poll.register(s, select.POLLOUT | (select.POLLIN if read else 0))
    while True:
        if len(out) < 1 << 16:
            out += b"".join(frames(10 + next(scene.number)) for _ in range(64))
            for _ in range(64):
                scene.did()
        _, events = poll.poll()[0]
        with contextlib.suppress(BlockingIOError):
            if events & ~select.POLLOUT and not s.recv(1 << 20):
                raise ConnectionError
        with contextlib.suppress(BlockingIOError):
            del out[:s.send(out)]


# ---- orders --------------------------------------------------------------------------------------

@attack
def three_frames(scene):
    """DUMP, a second one of the same context, and an answer to a part of that one, which is not due."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            context = scene.open(c)
            first = c.send(DUMP, message(f1=run_of(context)), payload=INPUT)
            second = c.send(DUMP, message(f1=run_of(context)), payload=INPUT)
            c.send(DUMP_NEXT, message(f1=second))
            c.send(CANCEL, message(f1=first))
            c.send(CANCEL, message(f1=second))
            c.call(PING)
    scene.repeat(deed)


@attack
def frames_that_are_none(scene):
    def deed():
        with contextlib.closing(scene.unix()) as c:
            n = next(scene.number)
            c.socket.sendall((b"no magic" * 8, request(999), request(PING, b"\xff" * 40), HEAD.pack(
                MAGIC, INFER, 0, 0, 9, 0, 1 << 60), request(PING, number=1) * 2)[n % 5])
            c.socket.recv(1 << 16)
    scene.repeat(deed)


# ---- questions -----------------------------------------------------------------------------------

def ask_beside_idle_ones(scene, kind, body=b"", read=True):
    idle = scene.many(IDLE, scene.unix)

    def deed():
        with contextlib.closing(scene.unix()) as c:
            flood(scene, c, lambda n: request(kind, body, number=n), read)
    scene.repeat(deed)
    return idle


@attack
def stats_pipelined(scene):
    ask_beside_idle_ones(scene, STATS)


@attack
def stats_unread(scene):
    ask_beside_idle_ones(scene, STATS, read=False)


@attack
def metrics_pipelined(scene):
    ask_beside_idle_ones(scene, METRICS)


@attack
def limits_pipelined(scene):
    ask_beside_idle_ones(scene, LIMITS)


@attack
def trace_pipelined(scene):
    ask_beside_idle_ones(scene, TRACE, message(f1=1))


@attack
def log_pipelined(scene):
    ask_beside_idle_ones(scene, LOG, message(f2=1000))


@attack
def status_pipelined(scene):
    ask_beside_idle_ones(scene, STATUS)


@attack
def describes_unread(scene):
    """Of a model whose description is made anew for each."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            scene.open(c)
            flood(scene, c, lambda n: request(DESCRIBE, message(f1=sha(DIGITS.read_bytes())), number=n), read=False)
    scene.repeat(deed)


# ---- descriptors ---------------------------------------------------------------------------------

@attack
def sockets_that_linger(scene):
    """Closing one takes as long as its sender likes. Nobody asked for it."""
    kept = []

    def deed():
        with contextlib.closing(scene.unix()) as c:
            for _ in range(20):
                fd, keep = lingering()
                kept.append(keep)
                c.send(PING, message(f1=1), fds=[fd], named=next(scene.number) % 2)
                os.close(fd)
                for s in itertools.chain(*kept[:-100]):
                    s.close()
                del kept[:-100]
            c.call(PING)
    scene.repeat(deed)


@attack
def files_that_are_silent(scene):
    """Looking at one takes for ever."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            c.send(IMPORT, fds=[scene.silent])
            c.send(PING, message(f1=1), fds=[scene.silent])
            c.receive()
    scene.repeat(deed)


@attack
def urgent_sockets_that_linger(scene):
    """With a byte that the kernel keeps apart, and drops with all that came along where nobody asks for it."""
    kept = []

    def deed():
        with contextlib.closing(scene.unix()) as c:
            fd, keep = lingering()
            kept.append(keep)
            with contextlib.suppress(OSError):
                c.socket.sendmsg([b"R"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))], socket.MSG_OOB)
            os.close(fd)
            for s in itertools.chain(*kept[:-100]):
                s.close()
            del kept[:-100]
    scene.repeat(deed)


@attack
def hundreds_of_descriptors(scene):
    def deed():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(scene.daemon.uri[5:])
            s.settimeout(0.1)
            while True:
                socket.send_fds(s, [b"no magic" * 4], [0] * 250)
                scene.did()
    scene.repeat(deed)


# ---- all that there is ---------------------------------------------------------------------------

@attack
def offers_of_a_byte(scene):
    def deed():
        clients = scene.many(256, scene.tcp)
        with contextlib.ExitStack() as stack:
            for c in clients:
                stack.enter_context(contextlib.closing(c))
                c.call(OFFER, message(f1=sha(b"%d" % next(scene.number)), f2=1, f3=b"a byte"))
    scene.repeat(deed)


@attack
def offers_without_a_byte(scene):
    def deed():
        with contextlib.closing(scene.tcp()) as c:
            for _ in range(17):
                c.call(OFFER, message(f1=sha(b"%d" % next(scene.number)), f2=1 << 30, f3=b"large"))
    scene.repeat(deed)


@attack
def models_without_end(scene):
    """Each wants a worker."""
    def deed():
        with contextlib.ExitStack() as stack:
            for c in scene.many(100, scene.tcp):
                stack.enter_context(contextlib.closing(c))
                scene.open(c, b"%d" % next(scene.number))
                scene.did()
    scene.repeat(deed)


@attack
def contexts_of_small_files(scene):
    """Of a file of some hundred bytes; each takes 32 MB of a worker's memory, and that is written to when it is opened."""
    data = outer_product(2048).SerializeToString()

    def deed():
        with contextlib.closing(scene.unix()) as c:
            context = scene.open(c, data=data)
            for _ in range(32):
                c.call(DUP, message(f1=context or 0))
                scene.did()
    scene.repeat(deed)


@attack
def connections_without_end(scene):
    def deed():
        with contextlib.ExitStack() as stack:
            while True:
                stack.enter_context(contextlib.closing(scene.tcp()))
                scene.did()
    scene.repeat(deed)


@attack
def connections_without_a_word(scene):
    def deed():
        with contextlib.ExitStack() as stack:
            for _ in range(900):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", scene.port), 10))
                s.sendall(request(HELLO)[:next(scene.number) % 24])
                scene.did()
    scene.repeat(deed)


@attack
def outputs_unread(scene):
    """64 runs at a time of each of 16 connections."""
    def deed():
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(contextlib.closing(c)) for c in scene.many(16, scene.unix)]
            contexts = [scene.open(c) for c in clients]
            for _ in range(64):
                for c, context in zip(clients, contexts):
                    c.send(INFER, run_of(context), payload=INPUT)
                    scene.did()
            for c in clients:
                c.call(PING)
    scene.repeat(deed)


@attack
def runs_pipelined(scene):
    """On all cores, with the highest priority that there is."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            context = scene.open(c)
            for _ in range(32):
                c.send(INFER, run_of(context, f2=ALL_CORES, f3=0), payload=INPUT)
            while True:
                c.receive()
                c.send(INFER, run_of(context, f2=ALL_CORES, f3=0), payload=INPUT)
                scene.did()
    scene.repeat(deed)


@attack
def memories(scene):
    def deed():
        with contextlib.closing(scene.unix()) as c:
            for _ in range(100):
                c.call(CREATE, message(f1=16 << 20))
    scene.repeat(deed)


# ---- what others wait for ------------------------------------------------------------------------

@attack
def dump_without_an_answer(scene):
    """It has all cores, and no part of it is taken."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            context = scene.open(c)
            for _ in range(4):
                c.send(DUMP, message(f1=run_of(context, f2=ALL_CORES)), payload=INPUT)
            c.socket.settimeout(5)
            while True:
                c.receive()
                scene.did()
    scene.repeat(deed)


@attack
def others_models(scene):
    """Their hash with another size, with bytes that trickle, and asked for without having them."""
    data = DIGITS.read_bytes()

    def deed():
        with contextlib.closing(scene.tcp()) as c:
            c.call(DESCRIBE, message(f1=sha(data)))
            c.call(OPEN, message(f1=sha(data)))
            c.call(OFFER, message(f1=sha(data), f2=len(data) + next(scene.number) % 3 - 1, f3=b"digits"))
            for at in range(8):
                c.call(CHUNK, message(f1=sha(data), f2=at), payload=data[at:at + 1])
    scene.repeat(deed)


@attack
def contexts_that_come_and_go(scene):
    def deed():
        with contextlib.closing(scene.unix()) as c:
            scene.open(c)
            for _ in range(50):
                failed, fields = c.call(OPEN, message(f1=sha(DIGITS.read_bytes())))
                if not failed:
                    c.call(CLOSE, message(f1=one(fields, 1)))
                scene.did()
    scene.repeat(deed)


@attack
def runs_that_wait(scene):
    """Thousands, in as many queues; each asks whether it will be in time, and is not, or has all the time that there is."""
    def deed():
        clients = scene.many(16, scene.unix)
        with contextlib.ExitStack() as stack:
            contexts = []
            for c in clients:
                stack.enter_context(contextlib.closing(c))
                first = scene.open(c)
                for _ in range(200):
                    failed, fields = c.call(DUP, message(f1=first))
                    if not failed:
                        contexts.append((c, one(fields, 1)))
            for n in itertools.count():
                for c in clients:
                    for _ in range(48):
                        of = contexts[next(scene.number) % len(contexts)]
                        if of[0] is c:
                            c.send(INFER, run_of(of[1], f2=ALL_CORES, f3=(1, 0xffffffff)[n % 2], f14=1), payload=INPUT)
                            scene.did()
                    c.call(PING)
    scene.repeat(deed)


@attack
def limits_of_thousands(scene):
    """Runs that have all the time that there is, and behind them those whose time is over at once."""
    def deed():
        with contextlib.ExitStack() as stack:
            clients = [(stack.enter_context(contextlib.closing(c)), scene.open(c)) for c in scene.many(200, scene.unix)]
            clients = [(c, context) for c, context in clients if context is not None]
            while True:
                for limit, n in (0xffffffff, 32), (20, 31):
                    for c, context in clients:
                        infer = run_of(context, f2=ALL_CORES, f3=limit)
                        c.socket.sendall(b"".join(request(INFER, infer, INPUT, 10 + next(scene.number)) for _ in range(n)))
                        scene.did()
                for c, _ in clients:
                    for _ in range(63):
                        c.receive()
    scene.repeat(deed)


@attack
def sensors_pipelined(scene):
    ask_beside_idle_ones(scene, SENSORS)


@attack
def followers_unread(scene):
    """Of the log, which has a line for each of many connections that come and go."""
    def deed():
        clients = scene.many(64, scene.unix)
        with contextlib.ExitStack() as stack:
            for c in clients:
                stack.enter_context(contextlib.closing(c))
                for _ in range(32):
                    c.send(LOG, message(f1=1, f3=1))
            for _ in range(200):
                with contextlib.closing(scene.unix()) as c:
                    c.socket.sendall(b"no magic" * 4)
                    scene.did()
    scene.repeat(deed)


# ---- models by name ------------------------------------------------------------------------------

@attack
def stored_models_listed(scene):
    ask_beside_idle_ones(scene, LIST)


@attack
def stored_models_listed_unread(scene):
    ask_beside_idle_ones(scene, LIST, read=False)


@attack
def stored_models_found(scene):
    """Each is read from the disk, if it is there."""
    def deed():
        with contextlib.closing(scene.unix()) as c:
            flood(scene, c, lambda n: request(FIND, message(f1=b"%d" % (n % 8)), number=n))
    scene.repeat(deed)


@attack
def stored_models_pulled_unread(scene):
    def deed():
        with contextlib.closing(scene.unix()) as c:
            failed, fields = c.call(FIND, message(f1=b"1"))
            flood(scene, c, lambda n: request(PULL, message(f1=b"" if failed else one(fields, 3)), number=n), read=False)
    scene.repeat(deed)


# ---- TLS -----------------------------------------------------------------------------------------

def client_hello():
    out = ssl.MemoryBIO()
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        c.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


@attack
def tls_handshakes(scene):
    """The same beginning again and again, which costs nothing; the server computes a key and signs for each."""
    hello = client_hello()

    def deed():
        with contextlib.ExitStack() as stack:
            for _ in range(32):
                s = stack.enter_context(scene.tls())
                s.sendall(hello)
            for _ in range(32):
                scene.did()
    scene.repeat(deed)


@attack
def tls_long_hellos(scene):
    """All that a first message has room for, which costs a stranger next to nothing."""
    offers = (many_shares(), many_identities())

    def deed():
        for offer in offers:
            with scene.tls() as s, contextlib.suppress(OSError):
                s.sendall(offer)
                s.recv(1)
            scene.did()
    scene.repeat(deed)


@attack
def tls_half_handshakes(scene):
    """Of all lengths, and a byte more of each from time to time."""
    hello = client_hello()

    def deed():
        with contextlib.ExitStack() as stack:
            open_ones = [(stack.enter_context(scene.tls()), n) for n in range(1, len(hello))]
            for s, n in open_ones:
                s.sendall(hello[:n - 1])
            for s, n in open_ones:
                s.sendall(hello[n - 1:n])
                scene.did()
    scene.repeat(deed)


@attack
def tls_large_records_of_nothing(scene):
    """Bytes that are no TLS, and records that are as long as they may be and wrong."""
    def deed():
        with scene.tls() as s:
            s.sendall((b"\x16\x03\x01\x40\x00" + bytes(16384)) * 4)
            s.recv(1)
            scene.did()
        with scene.tls() as s:
            s.sendall(bytes(1 << 16))
            scene.did()
    scene.repeat(deed)


@attack
def tls_strangers_with_certificates(scene):
    """A long chain that nobody trusts."""
    def deed():
        with scene.tls() as s, contextlib.suppress(ssl.SSLError):
            with scene.daemon.door.context(strange=True).wrap_socket(s) as session:
                session.recv(1)
        scene.did()
    scene.repeat(deed)


@attack
def tls_records_of_a_byte(scene):
    """From one who is let in."""
    def deed():
        with scene.daemon.door.context().wrap_socket(scene.tls()) as session:
            hello = message(f1=1, f2=1, f3=1, f4=b"strange")
            session.sendall(request(HELLO, hello))
            session.settimeout(0.0)
            frame = itertools.cycle(request(PING))
            while True:
                for _ in range(256):
                    with contextlib.suppress(ssl.SSLWantWriteError):
                        session.send(bytes([next(frame)]))
                    scene.did()
                with contextlib.suppress(ssl.SSLWantReadError):
                    session.recv(1 << 16)
                select.select([], [session], [], 0.1)
    scene.repeat(deed)
