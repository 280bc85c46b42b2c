"""Not a test, it measures: rknnd's cable against a bare pair of USB ends at another port, and how programs share it
(tests/bench/bench_usb*.c)."""
import os
import pathlib
import subprocess

from board import GADGETS, Board, load_modules, run
from support.service import BUILD, wait_for

MEGABYTES = int(os.environ.get("RKNND_MEGABYTES", "4"))
SECONDS = os.environ.get("RKNND_SECONDS", "2")
ROUNDS = os.environ.get("RKNND_ROUNDS", "5")
BARE = pathlib.Path("/dev/usb-ffs/bare")


def devices():
    return len(list(pathlib.Path("/sys/bus/usb/devices").glob("*:1.0/interface")))


def start_bare_board():
    """A gadget of its own, with the same interface, at the second controller."""
    gadget = GADGETS / "bare"
    (gadget / "strings/0x409").mkdir(parents=True)
    (gadget / "strings/0x409/serialnumber").write_text("bare")
    (gadget / "idVendor").write_text("0x1d6b")
    (gadget / "idProduct").write_text("0x0104")
    (gadget / "functions/ffs.bare").mkdir()
    (gadget / "configs/c.1").mkdir()
    (gadget / "configs/c.1/bare").symlink_to(gadget / "functions/ffs.bare")
    BARE.mkdir()
    run("mount", "-t", "functionfs", "bare", BARE)
    process = subprocess.Popen([BUILD / "tests/bench/bench_usb", "--board", BARE])
    wait_for("the bare board", lambda: (BARE / "ep2").exists())
    (gadget / "UDC").write_text("dummy_udc.1")
    wait_for("the bare board to be seen", lambda: devices() == 2)
    return process


def serve(backend):
    board.stop()
    board.backend = backend
    board.start()


def measure_rate(direction, sizes):
    serve(f"null:{sizes},fill=0")
    run(BUILD / "tests/bench/bench_usb", direction, "usb:board1", "bare", SECONDS, ROUNDS)


def measure_up():
    measure_rate("up", f"{MEGABYTES << 20}:64")


def measure_down():
    measure_rate("down", f"64:{MEGABYTES << 20}")


def measure_sharing():
    print("Pictures of 224 x 224 x 3 that take 5 ms", flush=True)
    serve("null:150528:4000,delay_us=5000,cores=8")
    run(BUILD / "tests/bench/bench_usb_share", "usb:board1", SECONDS, ROUNDS)


load_modules(os.environ["RKNND_SPEED"], ports=2)
print(f"At {os.environ['RKNND_SPEED']} speed, tensors of {MEGABYTES} MB", flush=True)
board = Board(backend="null:64:64")
bare = start_bare_board()
for part in os.environ.get("RKNND_PARTS", "up down sharing").split():
    {"up": measure_up, "down": measure_down, "sharing": measure_sharing}[part]()
board.stop()
bare.kill()
