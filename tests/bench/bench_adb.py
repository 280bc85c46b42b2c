#!/usr/bin/python3
"""Throughput over adb: inputs that go up and outputs that come down, as a ratio to a bare `adb forward` stream.

bench_adb.py [ROUNDS [MEGABYTES]]; RKNND_BUILD says which build. A real adbd and adb server on this machine; the two are measured in turn."""
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from adb_board import BOARD, URI, AdbBoard, adb, fetch_adbd, run_inside  # noqa: E402
from service import BUILD, DIGITS, wait_for  # noqa: E402

SOCKET = pathlib.Path("/run/rknnd/rknnd.sock")
FAR, NEAR = 9001, 9000  # the stream's ports, on the board and here


class Stream:
    """What moves blocks and nothing else: the board sends, or takes, as long as there is a connection."""

    def __init__(self, size):
        self.block = bytearray(size)
        self.listener = socket.create_server(("127.0.0.1", FAR))
        threading.Thread(target=self.serve, daemon=True).start()
        adb("-s", BOARD, "forward", f"tcp:{NEAR}", f"tcp:{FAR}")

    def serve(self):
        block = bytearray(len(self.block))
        while True:
            connection, _ = self.listener.accept()
            with connection:
                move = feed if connection.recv(1) == b"d" else drain
                while move(connection, block):
                    pass

    def rate(self, direction, blocks):
        """Bytes in a second."""
        with socket.create_connection(("127.0.0.1", NEAR)) as connection:
            begin = time.monotonic()
            connection.sendall(direction[:1].encode())
            for _ in range(blocks):
                (feed if direction == "up" else drain)(connection, self.block)
            if direction == "up":
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
            return blocks * len(self.block) / (time.monotonic() - begin)


def feed(connection, block):
    try:
        connection.sendall(block)
        return True
    except OSError:
        return False  # the other end has enough


def drain(connection, block):
    rest = memoryview(block)
    while rest and (n := connection.recv_into(rest)):
        rest = rest[n:]
    return not rest


class Board:
    """A daemon on the board whose runs do nothing, for one direction."""

    def __init__(self, direction, size):
        tensors = f"{size}:64" if direction == "up" else f"64:{size}"
        self.size = size
        self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", f"unix:{SOCKET}", "--log-level", "1", "--backend",
                                         f"null:{tensors},fill=0"], stdin=subprocess.DEVNULL)
        wait_for("rknnd", lambda: SOCKET.exists())

    def rate(self, runs):
        done = subprocess.run([BUILD / "bin/rknnctl", "--server", URI, "bench", DIGITS, "-n", str(runs), "--json"],
                              capture_output=True, text=True, check=True)
        return self.size * json.loads(done.stdout)["runs_per_second"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(direction, stream, rounds, size):
    board, bare, ours, runs = Board(direction, size), [], [], max(1, (128 << 20) // size)
    for _ in range(rounds):
        bare.append(stream.rate(direction, runs))
        ours.append(board.rate(runs))
    board.stop()
    ratios = sorted(b / a for a, b in zip(bare, ours))
    print(f"{direction:4}  bare {statistics.median(bare) / 1e6:6.1f} MB/s  rknnd {statistics.median(ours) / 1e6:6.1f} MB/s  "
          f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def main(rounds=7, megabytes=8):
    size = int(megabytes) << 20
    adbd, stream = AdbBoard(), Stream(size)
    print(f"Tensors of {megabytes} MB over adb, and over a bare adb forward:", flush=True)
    for direction in "up", "down":
        measure(direction, stream, int(rounds), size)
    adbd.stop()


if sys.argv[1:2] == ["inside"]:
    main(*sys.argv[2:])
elif reason := fetch_adbd():
    sys.exit(reason)
else:
    sys.exit(run_inside(sys.executable, __file__, "inside", *sys.argv[1:]))
