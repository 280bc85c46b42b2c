#!/usr/bin/python3
"""Throughput over adb: inputs that go up and outputs that come down, as a ratio to a bare `adb forward` stream.

bench_adb.py [ROUNDS [MEGABYTES [CONTROL [LINK]]]]; RKNND_BUILD says which build. A real adbd and adb server on this machine; the two are
measured in turn, each after some blocks that do not count. CONTROL: congestion control of all sockets that do not choose (reno, bbr); it
moves both. LINK: Mbit/s each way between adb server and adbd (3200: USB 3 in practice, 320: USB 2); without it they talk over the loopback
interface, which is faster than any cable."""
import json
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

from support.adb_board import CONTROL, AdbBoard, adb, fetch_adbd, run_inside
from support.service import BUILD, DIGITS, wait_for

SOCKET = pathlib.Path("/run/rknnd/rknnd.sock")
FAR, NEAR = 9001, 9000  # the stream's ports, on the board and here
WARM_UP = 3  # blocks, as rknnctl has runs


class Stream:
    """What moves blocks and nothing else: as many as are asked for, up or down."""

    def __init__(self, board, size):
        self.block = bytearray(size)
        with board.there():
            self.listener = socket.create_server(("127.0.0.1", FAR))
        threading.Thread(target=self.serve, daemon=True).start()
        adb("-s", board.name, "forward", f"tcp:{NEAR}", f"tcp:{FAR}")

    def serve(self):
        block = bytearray(len(self.block))
        while True:
            connection, _ = self.listener.accept()
            with connection:
                while request := connection.recv(5, socket.MSG_WAITALL):
                    up, blocks = struct.unpack(">?I", request)
                    for _ in range(blocks):
                        if up:
                            drain(connection, block)
                        else:
                            connection.sendall(block)
                    if up:
                        connection.sendall(b".")

    def rate(self, direction, blocks):
        """Bytes in a second."""
        with socket.create_connection(("127.0.0.1", NEAR)) as connection:
            self.move(connection, direction, WARM_UP)
            begin = time.monotonic()
            self.move(connection, direction, blocks)
            return blocks * len(self.block) / (time.monotonic() - begin)

    def move(self, connection, direction, blocks):
        connection.sendall(struct.pack(">?I", direction == "up", blocks))
        for _ in range(blocks):
            if direction == "up":
                connection.sendall(self.block)
            else:
                drain(connection, self.block)
        if direction == "up":
            connection.recv(1)


def drain(connection, block):
    rest = memoryview(block)
    while rest and (n := connection.recv_into(rest)):
        rest = rest[n:]


class Daemon:
    """A daemon on the board whose runs do nothing, for one direction."""

    def __init__(self, uri, direction, size):
        tensors = f"{size}:64" if direction == "up" else f"64:{size}"
        self.uri, self.size = uri, size
        self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", f"unix:{SOCKET}", "--log-level", "1", "--backend",
                                         f"null:{tensors},fill=0"], stdin=subprocess.DEVNULL)
        wait_for("rknnd", lambda: SOCKET.exists())

    def rate(self, runs):
        done = subprocess.run([BUILD / "bin/rknnctl", "--server", self.uri, "bench", DIGITS, "-n", str(runs), "-w", str(WARM_UP), "--json"],
                              capture_output=True, text=True, check=True)
        return self.size * next(v for k, v in json.loads(done.stdout).items() if k in ("runs_per_second", "machine_runs_per_second"))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(direction, uri, stream, rounds, size):
    """Each slice of ours stands between two of the bare stream, because the machine's speed drifts."""
    daemon, runs, ours = Daemon(uri, direction, size), max(1, (64 << 20) // size), []
    bare = [stream.rate(direction, runs)]
    for _ in range(rounds):
        ours.append(daemon.rate(runs))
        bare.append(stream.rate(direction, runs))
    daemon.stop()
    ratios = sorted(2 * b / (a + c) for a, b, c in zip(bare, ours, bare[1:]))
    print(f"{direction:4}  bare {statistics.median(bare) / 1e6:6.1f} MB/s  rknnd {statistics.median(ours) / 1e6:6.1f} MB/s  "
          f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


def main(rounds=15, megabytes=8, control=None, link=None):
    size = int(megabytes) << 20
    if control:
        CONTROL.write_text(control)
    board = AdbBoard(link and int(link))
    stream = Stream(board, size)
    where = CONTROL.read_text().strip() + (f", {link} Mbit/s" if link else "")
    print(f"Tensors of {megabytes} MB over adb, and over a bare adb forward ({where}):", flush=True)
    for direction in "up", "down":
        measure(direction, board.uri, stream, int(rounds), size)
    board.stop()


if sys.argv[1:2] == ["inside"]:
    main(*sys.argv[2:])
elif reason := fetch_adbd():
    sys.exit(reason)
else:
    sys.exit(run_inside(sys.executable, __file__, "inside", *sys.argv[1:]))
