"""Two boards at one PC: told apart, listed, in use, closed to a user, unplugged while somebody looks."""
import fcntl
import grp
import json
import os
import pathlib
import pwd
import random
import shutil
import struct
import subprocess
import threading
import time
import unittest

from board import GADGETS, find_node, kernel_complaints, load_modules, run
from support.checks.expect import EXPECT
from support.seed import seed
from support.service import BUILD, PATIENCE, SOURCE, wait_for
from windows import Device

CLAIM_INTERFACE = 0x8004550F  # USBDEVFS_CLAIMINTERFACE
OPEN_BUILD = pathlib.Path("/run/build")  # the build at a place that every user can enter
NOBODY = pwd.getpwnam("nobody")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("RKNND_SERVER", "XDG_RUNTIME_DIR")}


def make_gadget(name):
    """By hand, because a board of its own has but one. The gadget's folder, and that of its FunctionFS."""
    gadget, folder = GADGETS / name, pathlib.Path("/dev/usb-ffs") / name
    for part in ("strings/0x409", "configs/c.1", f"functions/ffs.{name}"):
        (gadget / part).mkdir(parents=True)
    for attribute, value in (("idVendor", "0x1d6b"), ("idProduct", "0x0104"), ("strings/0x409/serialnumber", name)):
        (gadget / attribute).write_text(value)
    (gadget / "configs/c.1/function").symlink_to(gadget / f"functions/ffs.{name}")
    folder.mkdir(parents=True)
    run("mount", "-t", "functionfs", name, folder)
    return gadget, folder


class Board:
    """A gadget and its daemon."""

    def __init__(self, number, chip):
        self.serial, self.chip, self.uri = f"board{number}", chip, f"usb:board{number}"
        self.udc = f"dummy_udc.{number}"
        self.gadget, folder = make_gadget(self.serial)
        socket = f"/run/{self.serial}.sock"
        with open(f"/tmp/{self.serial}.log", "ab") as log:
            self.process = subprocess.Popen([BUILD / "bin/rknnd", "--listen", f"usb:{folder}", "--listen", f"unix:{socket}",
                                             "--backend", f"sim:{chip}"], stdin=subprocess.DEVNULL, stderr=log)
        wait_for("rknnd to listen", lambda: rknnctl("--server", f"unix:{socket}", "ping", "-n", "1").returncode == 0)
        self.plug()

    def plug(self):
        (self.gadget / "UDC").write_text(self.udc)
        wait_for("the board's node", self.node)

    def unplug(self):
        (self.gadget / "UDC").write_text("\n")

    def node(self):
        return find_node(self.serial)

    def stop(self):
        self.process.terminate()
        EXPECT.assertEqual(self.process.wait(PATIENCE), 0)


def start_adb(folder):
    """An interface like adb's: what the kernel wants to be told of it (linux/usb/functionfs.h). Open for as long as it serves."""
    interface = bytes((9, 4, 0, 0, 2, 0xFF, 0x42, 1, 0))
    speeds = [interface + b"".join(struct.pack("<BBBBHB", 7, 5, address, 2, packet, 0) for address in (0x81, 0x02)) for packet in (64, 512)]
    described = struct.pack("<II", 3, 3) + b"".join(speeds)  # three descriptors for full speed, three for high speed
    control = open(folder / "ep0", "r+b", buffering=0)
    control.write(struct.pack("<III", 3, 12 + len(described), 3) + described)
    control.write(struct.pack("<IIII", 2, 16, 0, 0))
    return control


def rknnctl(*words, **options):
    return subprocess.run([OPEN_BUILD / "bin/rknnctl", *words], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, env=ENVIRONMENT, cwd="/", **options)


def listed(**options):
    done = rknnctl("devices", "--json", **options)
    return {d["uri"]: d for d in json.loads(done.stdout) if d["uri"].startswith("usb:")}


def doctor(*words, **options):
    return json.loads(rknnctl(*words, "doctor", "--json", **options).stdout)


class Boards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        OPEN_BUILD.mkdir()
        run("mount", "--bind", BUILD, OPEN_BUILD)
        load_modules("high", ports=3)
        cls.boards = [Board(0, "rk3588"), Board(1, "rk3566")]

    @classmethod
    def tearDownClass(cls):
        for board in cls.boards:
            board.stop()

    def tearDown(self):
        self.assertEqual(kernel_complaints(), [])

    def relay(self, *words, **options):
        """A relay that is up to no good in the end; what it said so far is in its file."""
        log = pathlib.Path(f"/tmp/relay-{self.id()}.log")
        with open(log, "wb") as file:
            process = subprocess.Popen([OPEN_BUILD / "bin/rknnd", *words], stdin=subprocess.DEVNULL, stderr=file,
                                       env=ENVIRONMENT, cwd="/", **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return log

    def test_each_is_reached_by_its_serial_number(self):
        for board in self.boards:
            done = rknnctl("--server", board.uri, "devices", "--json")
            self.assertEqual([(d["uri"], d["chip"]) for d in json.loads(done.stdout)], [(board.uri, board.chip)])

    def test_both_at_once(self):
        models = [BUILD / "tests/conformance/models" / name for name in ("conv.rknn", "other_chip.rknn")]
        jobs = [subprocess.Popen([BUILD / "bin/rknnctl", "--server", board.uri, "bench", model, "--loop", "50"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
                for board, model in zip(self.boards, models)]
        for job in jobs:
            said, complaint = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, said + complaint)

    def test_a_name_for_any_of_two_is_refused(self):
        for words in (("--server", "usb:", "ping"), ("ping",)):
            done = rknnctl(*words)
            self.assertEqual(done.returncode, 3)
            self.assertIn("usb:board0 usb:board1", done.stderr)
        log = self.relay("--relay", "usb:", "--listen", "unix:/tmp/any.sock")
        wait_for("the relay's words", lambda: "2 boards are connected; choose one of" in log.read_text())
        bad, = (c for c in doctor("--server", "usb:") if c["verdict"] == "bad")
        self.assertIn("any of 2 boards", bad["found"])

    def interfaces(self, serial):
        """Class and subclass of each interface of a board, as the PC's kernel sees it."""
        for device in pathlib.Path("/sys/bus/usb/devices").glob("*/serial"):
            if device.read_text().strip() == serial:
                return [tuple((path / name).read_text().strip() for name in ("bInterfaceClass", "bInterfaceSubClass"))
                        for path in sorted(device.parent.glob("*:1.*"))]
        return []

    def serve_beside(self):
        daemon = subprocess.Popen([BUILD / "bin/rknnd", "--listen", "usb", "--backend", "sim:rk3562"], stdin=subprocess.DEVNULL)
        self.addCleanup(daemon.kill)
        wait_for("rknnd's endpoints", lambda: os.path.exists("/dev/usb-ffs/rknnd/ep2"))
        return daemon

    def test_beside_adb(self):
        """rknnd's function comes into a gadget that is connected, and goes; the other is there all the time."""
        ours, adb = ("ff", "52"), ("ff", "42")
        gadget, folder = make_gadget("shared")
        self.addCleanup(start_adb(folder).close)
        (gadget / "UDC").write_text("dummy_udc.2")
        wait_for("adb's interface", lambda: self.interfaces("shared") == [adb])
        tool = [BUILD / "bin/rknnd-gadget", "--gadget", "shared", "--udc", "dummy_udc.2"]
        before = find_node("shared")
        run(*tool, "up")
        for end in "unbind", "down":
            daemon = self.serve_beside()
            self.assertEqual((self.interfaces("shared"), find_node("shared")), ([adb], before))  # not disturbed by that
            run(*tool, "bind")
            wait_for("both interfaces", lambda: self.interfaces("shared") == [adb, ours])
            done = rknnctl("--server", "usb:shared", "info")
            self.assertIn("rk3562", done.stdout, done.stderr)
            with open(find_node("shared"), "r+b", buffering=0) as node:
                self.assertEqual(Device(node).compatible()[1], "WINUSB")
            daemon.terminate()
            self.assertEqual(daemon.wait(PATIENCE), 0)
            run(*tool, end)
            wait_for("adb's interface alone", lambda: self.interfaces("shared") == [adb])
            before = find_node("shared")
        self.assertEqual((gadget / "UDC").read_text().strip(), "dummy_udc.2")
        (gadget / "UDC").write_text("\n")

    def test_both_are_listed(self):
        found = listed()
        self.assertEqual({uri: (d["chip"], d["state"], d["serial"]) for uri, d in found.items()},
                         {b.uri: (b.chip, "up", b.serial) for b in self.boards})
        said = [c["found"] for c in doctor() if c["check"] == "usb"]
        self.assertEqual(said, [f"{b.uri} can be used" for b in self.boards])

    def test_one_that_a_relay_has(self):
        self.relay("--relay", "usb:board0")
        wait_for("the relay", lambda: os.path.exists("/run/rknnd/usb-board0.sock"))
        self.assertEqual({uri: d["state"] for uri, d in listed().items()}, {"usb:board0": "up", "usb:board1": "up"})

    def test_a_relay_for_any_board_is_found_by_serial_number(self):
        self.boards[1].unplug()
        wait_for("one board to be left", lambda: not self.boards[1].node())
        log = self.relay("--relay", "usb:")
        wait_for(log.read_text, lambda: os.path.exists("/run/rknnd/usb-board0.sock"))
        self.boards[1].plug()
        for uri in "usb:board0", "usb:board1":
            done = rknnctl("--server", uri, "ping", "-n", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({uri: d["state"] for uri, d in listed().items()}, {"usb:board0": "up", "usb:board1": "up"})

    def test_one_that_another_program_has(self):
        with open(self.boards[0].node(), "r+b", buffering=0) as node:
            fcntl.ioctl(node, CLAIM_INTERFACE, struct.pack("I", 0))
            found = listed()
            self.assertEqual(found["usb:board0"]["state"], "in use")
            self.assertIn("another program uses it", found["usb:board0"]["reason"])
            self.assertEqual(found["usb:board1"]["state"], "up")
            done = rknnctl("--server", "usb:board0", "ping")
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"another program uses the board at {self.boards[0].node()}", done.stderr)
            self.assertIn("usb:board0 (in use) usb:board1", rknnctl("--server", "usb:", "ping").stderr)
            done = rknnctl("ping", "-n", "1")  # no server named: the only one that can be used
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_watching(self):
        process = subprocess.Popen([BUILD / "bin/rknnctl", "devices", "--watch"], stdout=subprocess.PIPE, text=True,
                                   env=ENVIRONMENT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.assertEqual({process.stdout.readline() for _ in self.boards}, {"+ usb:board0\n", "+ usb:board1\n"})
        self.boards[1].unplug()
        self.assertEqual(process.stdout.readline(), "- usb:board1\n")
        self.boards[1].plug()
        self.assertEqual(process.stdout.readline(), "+ usb:board1\n")

    def test_unplugged_while_listed(self):
        choose, ended = random.Random(seed(1)), threading.Event()

        def shake():
            while not ended.is_set():
                self.boards[1].unplug()
                time.sleep(choose.random() / 10)
                self.boards[1].plug()
                time.sleep(choose.random() / 2)

        shaker = threading.Thread(target=shake)
        shaker.start()
        self.addCleanup(shaker.join)
        self.addCleanup(ended.set)
        for _ in range(5):
            found = listed()
            self.assertEqual(found["usb:board0"]["state"], "up")
            other = found.get("usb:board1", {"state": "absent"})
            self.assertTrue(other["state"] in ("absent", "up") or other["reason"], other)

    def test_a_user_who_may_not(self):
        node = self.boards[0].node()
        stranger = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []}
        os.chmod(node, 0o600)
        self.assert_denied(node, stranger, "60-rknnd.rules")
        self.install_rule()
        node = self.boards[0].node()
        self.assert_denied(node, stranger, "usermod -aG plugdev nobody")
        member = dict(stranger, extra_groups=[grp.getgrnam("plugdev").gr_gid])
        self.assertEqual(listed(**member)["usb:board0"]["state"], "up")

    def assert_denied(self, node, user, advice):
        """The client, a relay, the list of devices and the doctor name the node and say what to do."""
        said = [rknnctl("--server", "usb:board0", "ping", **user).stderr]
        log = self.relay("--relay", "usb:board0", "--listen", f"unix:/tmp/{advice[:2]}.sock", **user)
        wait_for("the relay's words", lambda: "no permission" in log.read_text())
        said.append(log.read_text())
        device = listed(**user)["usb:board0"]
        self.assertEqual(device["state"], "denied")
        said.append(device["reason"])
        bad, = (c for c in doctor("--server", "usb:board0", **user) if c["verdict"] == "bad")
        said.append(bad["found"] + bad["advice"])
        for words in said:
            self.assertIn(str(node), words)
            self.assertIn(advice, words)

    def install_rule(self):
        """What the package does; then the board is plugged in again."""
        shutil.copy(SOURCE / "systemd/60-rknnd.rules", "/etc/udev/rules.d/")
        run("udevadm", "control", "--reload")
        self.boards[0].unplug()
        self.boards[0].plug()
        wait_for("the rule to be applied", lambda: self.boards[0].node().group() == "plugdev")


if __name__ == "__main__":
    unittest.main(verbosity=2)
