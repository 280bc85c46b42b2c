"""In the guest: a board at the cable of the same kernel (dummy_hcd), and the PC's view of it."""
import os
import pathlib
import signal
import subprocess


from support.service import BUILD, PATIENCE, wait_for

GADGETS = pathlib.Path("/sys/kernel/config/usb_gadget")
NODES = pathlib.Path("/dev/bus/usb")


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, **options)


def load_modules(speed, ports=1):
    """A cable of this speed, or several, instead of those that were there. Linux 6.12's dummy_hcd has room for one transfer of up to 64 bytes from the board that it answers at once
    (fifo_req). dummy_timer takes one out and then, without its lock, calls what waits for it; meanwhile dummy_queue on
    another processor puts the next in, so that this one is answered twice, or FunctionFS gets dummy_hcd's memory for
    its own, and __queue_work breaks down. Real controllers know no such thing. Programs here send more at a time, as
    mux_fill() (server/usb/mux.c) does."""
    if not pathlib.Path("/run/udev/control").exists():
        run("/lib/systemd/systemd-udevd", "--daemon")  # libusb hears of new devices from it
    run("modprobe", "-r", "dummy_hcd")
    run("modprobe", "dummy_hcd", f"num={ports}", f"is_super_speed={int(speed == 'super')}", f"is_high_speed={int(speed != 'full')}")
    run("modprobe", "libcomposite")
    run("modprobe", "usb_f_fs")
    if not GADGETS.exists():
        run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")


def find_node(serial_number):
    """The device node of a board, on the PC's side; None while it is not there."""
    for serial in pathlib.Path("/sys/bus/usb/devices").glob("*/serial"):
        try:
            if serial.read_text().strip() == serial_number:
                bus, device = (int((serial.parent / name).read_text()) for name in ("busnum", "devnum"))
                node = NODES / f"{bus:03}" / f"{device:03}"
                return node if node.exists() else None
        except OSError:
            pass  # unplugged just now
    return None


def rknnctl(*words, uri="usb:", **options):
    return subprocess.run([BUILD / "bin/rknnctl", "--server", uri, *words], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, **options)


class Board:
    """The board's end: gadget, function and daemon."""

    def __init__(self, serial="board1", backend="sim:rk3588", options=()):
        self.backend = backend
        self.options = options
        run(BUILD / "bin/rknnd-gadget", "--gadget", "rknnd", "--serial", serial, "up")
        self.start()
        wait_for("the board to be seen", lambda: list(pathlib.Path("/sys/bus/usb/devices").glob("*:1.0/interface")))

    def start(self):
        with open("/tmp/board.log", "ab") as log:
            self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", "usb", "--listen", "unix:/run/board.sock",
                                             "--backend", self.backend, *self.options], stdin=subprocess.DEVNULL, stderr=log)
        wait_for("rknnd to listen", lambda: os.path.exists("/run/board.sock") and
                 rknnctl("ping", "-n", "1", uri="unix:/run/board.sock").returncode == 0)
        self.plug()

    def plug(self):
        run(BUILD / "bin/rknnd-gadget", "--gadget", "rknnd", "bind")

    def unplug(self):
        udc = GADGETS / "rknnd/UDC"
        if udc.read_text().strip():
            udc.write_text("\n")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.unlink("/run/board.sock")

    def stop(self):
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        assert code == 0, f"rknnd ended with {code}: {pathlib.Path('/tmp/board.log').read_text()[-2000:]}"

    def remove(self):
        """So that there is room for another one."""
        self.stop()
        run(BUILD / "bin/rknnd-gadget", "--gadget", "rknnd", "down")


def kernel_messages():
    return subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()


def kernel_complaints():
    """From the first line that tells of a fault on, what the kernel says about it."""
    said = kernel_messages()
    faults = ("BUG", "WARNING", "Oops", "Call Trace", "hung task", "general protection")
    at = [n for n, line in enumerate(said) if any(word in line for word in faults)]
    return said[at[0]:at[-1] + 40] if at else []
