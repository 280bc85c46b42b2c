#!/usr/bin/python3
"""A board that lies: a real daemon whose answers are changed on their way to the program, by chance (RKNND_SEED repeats it). Every
command of rknnctl ends by itself, in words, within memory; with RKNND_SANITIZE the sanitizers look on. By hand: --rounds N."""
import argparse
import pathlib
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from support.seed import seed
from support.service import BUILD, DIGITS, SANITIZED, Daemon
from support.wire import GOODBYE, HEAD, LOG, MAGIC, PING, REPLY, TRACE, message, varint

PATIENCE = 60
MEMORY = 2 << 30  # of address space, which a sanitizer needs more of
EDGES = (0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)

COMMANDS = (["status"], ["status", "--limits"], ["stats"], ["log", "--lines", "50"], ["trace", "--seconds", "1", "-o", "OUT"], ["ping", "-n", "3"],
            ["info", "MODEL"], ["info", "--all", "MODEL"], ["info", "--lint", "MODEL"], ["run", "MODEL", "-i", "IN"], ["run", "MODEL", "-i", "IN", "--perf"],
            ["bench", "MODEL", "-n", "20"], ["perf", "MODEL", "-n", "3"], ["memory", "MODEL"], ["dump", "MODEL", "-i", "IN", "-o", "DIR"],
            ["model", "list"], ["model", "show", "m"], ["model", "pull", "m", "-o", "OUT"], ["model", "push", "MODEL", "n"], ["model", "default", "m@1"],
            ["run", "rknnd:m", "-i", "IN"], ["doctor", "MODEL"], ["report", "MODEL", "-i", "IN", "-o", "OUT"], ["compare", "MODEL", "--with", "sim:", "-i", "IN"],
            ["record", "-o", "OUT", "--", str(BUILD / "bin/digits"), "MODEL", "IN"], ["top", "-n", "1"])


class Liar:
    """What becomes of the frames of one server that go to a program."""

    def __init__(self, rng, always=None):
        """`always`: messages that answer types of requests, instead of lies by chance."""
        self.rng, self.always = rng, always
        self.lies = rng.choice([0.02, 0.1, 0.5])
        self.kept = []

    def bytes(self, data):
        """Other bytes instead of these."""
        rng, data = self.rng, bytearray(data)
        way = rng.randrange(7)
        if way == 0 and data:
            for _ in range(rng.choice([1, 1, 3, 20])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif way == 1 and data:
            at = rng.randrange(len(data))
            data[at:at + 1] = varint(rng.choice(EDGES))
        elif way == 2:
            data += varint(rng.randrange(1, 40) << 3) + varint(rng.choice(EDGES))
        elif way == 3:
            data += varint(rng.randrange(1, 40) << 3 | 2) + varint(4) + rng.randbytes(4)
        elif way == 4:
            del data[rng.randrange(len(data) + 1):]
        elif way == 5:
            data = data * 2
        else:
            data = bytearray(rng.randbytes(len(data)))
        return bytes(data)

    def frames(self, head, message, payload):
        """What is said instead of this frame; None: nothing any more."""
        rng = self.rng
        magic, kind, flags, zero, number, _, _ = HEAD.unpack(head)
        true = head + message + payload
        if self.always is not None:
            said = self.always.get(kind)
            return true if said is None else HEAD.pack(magic, kind, flags, zero, number, len(said), 0) + said
        self.kept = (self.kept + [true])[-4:]
        if rng.random() > self.lies:
            return true
        way, size = rng.randrange(11), None
        if way < 3:
            message = self.bytes(message)
        elif way == 3:
            payload = self.bytes(payload)
        elif way == 4:
            flags ^= 1 << rng.randrange(8)
        elif way == 5:
            kind = rng.choice([0, 1, 6, 15, 20, 25, 32, 48, 50, 52, 127, 128, 65535])
        elif way == 6:
            number = rng.choice([0, number - 1, number + 1, 0xffffffff]) & 0xffffffff
        elif way == 7:
            size = rng.choice(EDGES)
        elif way == 8:
            return true + rng.choice(self.kept)
        elif way == 9:
            return HEAD.pack(MAGIC, PING, rng.choice([0, REPLY]), 0, 7, 0, 0) * rng.choice([1, 100, 5000]) + true
        else:
            return rng.choice([None, HEAD.pack(MAGIC, GOODBYE, 0, 0, 0, 0, 0) + true, true[:rng.randrange(len(true))]])
        return HEAD.pack(magic, kind, flags, zero, number, len(message), len(payload) if size is None else size) + message + payload


def take(source, n):
    data = bytearray()
    while len(data) < n:
        more = source.recv(min(n - len(data), 1 << 20))
        if not more:
            raise ConnectionError
        data += more
    return bytes(data)


class Board:
    """Listens in the daemon's place."""

    def __init__(self, daemon, rng, always=None):
        self.daemon, self.rng, self.always = daemon, rng, always
        self.door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.uri = f"tcp:127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            program, _ = self.door.accept()
            threading.Thread(target=self.serve, args=(program, Liar(random.Random(self.rng.random()), self.always)), daemon=True).start()

    def serve(self, program, liar):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.daemon.uri[5:])
            threading.Thread(target=self.pass_on, args=(program, server), daemon=True).start()
            while True:
                head = take(server, HEAD.size)
                *_, n_message, n_payload = HEAD.unpack(head)
                said = liar.frames(head, take(server, n_message), take(server, n_payload))
                if said is None:
                    break
                program.sendall(said)
        except OSError:
            pass
        for s in program, server:  # wakes the other thread
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        program.close()

    @staticmethod
    def pass_on(program, server):
        try:
            while data := program.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            server.close()


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(command, env):
    """A board that says that it lives and does not answer is waited for until somebody presses Ctrl-C. None: that does not end it."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
    for number in signal.SIGINT, signal.SIGKILL:
        try:
            out, err = process.communicate(timeout=PATIENCE)
            return subprocess.CompletedProcess(command, process.returncode, out, err)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
    process.communicate()
    return None


def check_ends(daemon, rng):
    """What a board says for ever, and never brings."""
    for kind, words, said in ((TRACE, ["trace", "-o", "/dev/null"], message(f3=1 << 40)), (LOG, ["log"], message(f3=1 << 40)),
                              (LOG, ["log", "--follow"], message(f1=7, f3=8)), (TRACE, ["trace", "-o", "/dev/null"], message(f2=1 << 22, f3=1 << 40))):
        done = run([BUILD / "bin/rknnctl", *words], {**daemon.env, "RKNND_SERVER": Board(daemon, rng, {kind: said}).uri})
        assert done and done.returncode == 1 and b"the server reports" in done.stderr, f"{words}: {done}"


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--rounds", type=int, default=60 if SANITIZED else 120)
    o = options.parse_args()
    rng = random.Random(seed())
    codes = {}
    with tempfile.TemporaryDirectory(prefix="lying-") as folder:
        folder = pathlib.Path(folder)
        picture = DIGITS.parent / "pictures/7_0.png"
        daemon = Daemon("--model-store", folder / "store", "--log-level", "1")
        done = daemon.rknnctl("model", "push", DIGITS, "m")
        assert done.returncode == 0, done.stderr
        check_ends(daemon, rng)
        board = Board(daemon, rng)
        env = {**daemon.env, "RKNND_SERVER": board.uri, "TMPDIR": str(folder)}
        for n in range(o.rounds):
            words = [{"MODEL": str(DIGITS), "IN": str(picture), "OUT": str(folder / f"out{n}"), "DIR": str(folder / f"dir{n}")}.get(w, w)
                     for w in rng.choice(COMMANDS)]
            done = run([BUILD / "bin/rknnctl", *words], env)
            assert done, f"round {n}: rknnctl {' '.join(words)} does not end"
            codes[done.returncode] = codes.get(done.returncode, 0) + 1
            assert b"Sanitizer" not in done.stderr and b"runtime error:" not in done.stderr, f"round {n}: {words}: {done.stderr.decode(errors='replace')}"
            assert 0 <= done.returncode < 64 or done.returncode in (130, -signal.SIGINT), f"round {n}: {words}: {done.returncode} {done.stderr.decode(errors='replace')}"
            assert done.returncode in (0, 130, -signal.SIGINT) or done.stderr, f"round {n}: {words} fails without words"
            assert not any(b < 32 and b not in b"\n\t\r" for b in done.stderr), f"round {n}: {words}: {done.stderr}"
        print(f"{o.rounds} commands; exit codes: {dict(sorted(codes.items()))}")
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
