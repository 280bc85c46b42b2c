#!/usr/bin/python3
"""A board that lies: a real daemon whose answers are changed on their way to the program, by chance (RKNND_SEED repeats it). Every
command of rknnctl, and each life of tests/faults/life.c, ends by itself, in words, within memory; with RKNND_SANITIZE the sanitizers look on. By hand: --rounds N."""
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

from faults import newer_models
from integration.client.liar import Liar
from support.seed import seed
from support.service import BUILD, DIGITS, SANITIZED, Daemon
from support.wire import HEAD, LOG, TRACE, message

PATIENCE = 60
MEMORY = 2 << 30  # of address space, which a sanitizer needs more of

COMMANDS = (["status"], ["status", "--limits"], ["stats"], ["log", "--lines", "50"], ["trace", "--seconds", "1", "-o", "OUT"], ["ping", "-n", "3"],
            ["info", "MODEL"], ["info", "--all", "MODEL"], ["info", "--lint", "MODEL"], ["run", "MODEL", "-i", "IN"], ["run", "MODEL", "-i", "IN", "--perf"],
            ["bench", "MODEL", "-n", "20"], ["perf", "MODEL", "-n", "3"], ["memory", "MODEL"], ["dump", "MODEL", "-i", "IN", "-o", "DIR"],
            ["model", "list"], ["model", "show", "m"], ["model", "pull", "m", "-o", "OUT"], ["model", "push", "MODEL", "n"], ["model", "default", "m@1"],
            ["run", "rknnd:m", "-i", "IN"], ["doctor", "MODEL"], ["report", "MODEL", "-i", "IN", "-o", "OUT"], ["compare", "MODEL", "--with", "sim:", "-i", "IN"],
            ["record", "-o", "OUT", "--", str(BUILD / "bin/digits"), "MODEL", "IN"], ["top", "-n", "1"],
            ["quantize", "FLOAT", "--dataset", "LIST", "-o", "OUT"], ["quantize", "FLOAT", "--dataset", "LIST", "-o", "OUT", "--dumps", "--algorithm", "mmse"],
            ["accuracy", "MODEL", "--golden", "FLOAT", "-i", "IN"])
LIVES = ["MODEL"], ["MODEL", "NEWER"]  # of tests/faults/life.c: what a program asks of the library


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
    options.add_argument("--lives", type=float, default=.3, help="of the rounds, as a fraction")
    o = options.parse_args()
    rng = random.Random(seed())
    codes = {}
    with tempfile.TemporaryDirectory(prefix="lying-") as folder:
        folder = pathlib.Path(folder)
        picture, dataset = DIGITS.parent / "pictures/7_0.png", folder / "list"
        dataset.write_text(f"{picture}\n" * 3)
        newer_models.write(folder)
        daemon = Daemon("--model-store", folder / "store", "--log-level", "1")
        done = daemon.rknnctl("model", "push", DIGITS, "m")
        assert done.returncode == 0, done.stderr
        check_ends(daemon, rng)
        board = Board(daemon, rng)
        env = {**daemon.env, "RKNND_SERVER": board.uri, "TMPDIR": str(folder)}
        for n in range(o.rounds):
            files = {"MODEL": DIGITS, "FLOAT": DIGITS.with_suffix(".onnx"), "IN": picture, "LIST": dataset, "NEWER": folder,
                     "OUT": folder / f"out{n}", "DIR": folder / f"dir{n}"}
            lives = rng.random() < o.lives
            words = [str(files.get(w, w)) for w in rng.choice(LIVES if lives else COMMANDS)]
            done = run([BUILD / ("tests/faults/life" if lives else "bin/rknnctl"), *words], env)
            assert done, f"round {n}: {' '.join(words)} does not end"
            assert not (lives and done.returncode == 3), f"round {n}: {words}: a call fails without words of the library's: {done.stderr.decode(errors='replace')}"
            codes[done.returncode] = codes.get(done.returncode, 0) + 1
            assert b"Sanitizer" not in done.stderr and b"runtime error:" not in done.stderr, f"round {n}: {words}: {done.stderr.decode(errors='replace')}"
            assert 0 <= done.returncode < 64 or done.returncode in (130, -signal.SIGINT), f"round {n}: {words}: {done.returncode} {done.stderr.decode(errors='replace')}"
            assert done.returncode in (0, 130, -signal.SIGINT) or done.stderr, f"round {n}: {words} fails without words"
            assert not any(b < 32 and b not in b"\n\t\r" for b in done.stderr), f"round {n}: {words}: {done.stderr}"
        print(f"{o.rounds} commands; exit codes: {dict(sorted(codes.items()))}")
        daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
