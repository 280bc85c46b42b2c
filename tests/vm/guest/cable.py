"""Not a test, it measures: rknnd's cable against a bare pair of USB ends at another port (tests/bench/bench_cable.c)."""
import os
import pathlib
import subprocess

from board import GADGETS, Board, load_modules, run
from service import BUILD, wait_for

MEGABYTES = int(os.environ.get("RKNND_MEGABYTES", "4"))
BENCH = BUILD / "tests/bench/bench_cable"
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
    process = subprocess.Popen([BENCH, "--board", BARE])
    wait_for("the bare board", lambda: (BARE / "ep2").exists())
    (gadget / "UDC").write_text("dummy_udc.1")
    wait_for("the bare board to be seen", lambda: devices() == 2)
    return process


def measure(direction, backend):
    board.stop()
    board.backend = backend
    board.start()
    run(BENCH, direction, "usb:board1", "bare", os.environ.get("RKNND_SECONDS", "2"), os.environ.get("RKNND_ROUNDS", "5"))


load_modules(os.environ["RKNND_SPEED"], boards=2)
board = Board(backend="null:64:64")
bare = start_bare_board()
print(f"At {os.environ['RKNND_SPEED']} speed, tensors of {MEGABYTES} MB", flush=True)
measure("up", f"null:{MEGABYTES << 20}:64,fill=0")
measure("down", f"null:64:{MEGABYTES << 20},fill=0")
board.stop()
bare.kill()
