"""A board in QEMU, with a cross-built rknnd and a real adbd, used from this machine by TCP and adb.

It runs in a network namespace of its own, so that nobody's adb server or port is touched. Programs of
this machine come from RKNND_BUILD, those of the board from build/arm64."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from packages.unpacked import unpack, with_libraries
from support import compat
from support.paths import SHARED
from support.service import BUILD, PATIENCE, SOURCE, wait_for

HERE = pathlib.Path(__file__).resolve().parent
REAL_MODELS = SHARED / "models"
MODELS = BUILD / "tests/conformance/models"
ARM64 = SOURCE / "build/arm64"
TCP, BOARD = "tcp:127.0.0.1:8910", "127.0.0.1:5555"
BY_TCP = "common multiple_input queries zero_copy memory threads async cores matmul_dynamic custom_op".split()
BY_ADB = "common zero_copy threads custom_op".split()
BY_UNIX = "common zero_copy memory threads matmul_memory".split()
# In QEMU without a kernel of its own these meet differences of the emulation.
UNIT_TESTS = "test_base_fd test_client_calls test_client_spawn test_runner".split()
HALF_STEP = 2 ** -10
PYTHON = SOURCE / "build/vm-arm64/python"  # the board's
# Of tests/python/compat/programs: with models of 8 bits, which give the same numbers everywhere.
PROGRAMS = (("detector.py", MODELS / "three_outputs.rknn", "[1,64,64,3]", 3), ("frames_pool.py", MODELS / "conv.rknn", 3, 12),
            ("processes.py", "spawn", MODELS / "conv.rknn", 2, 4))


def build():
    targets = {f"tests/unit/{name}" for name in UNIT_TESTS} | {f"tests/conformance/{name}" for name in BY_UNIX}
    code = subprocess.run([HERE / "arm64_build.sh", "rknnd", "npu_sim_module", "rknnd_python", *sorted(targets)],
                          check=False).returncode
    if code == 0 and not unpack("bookworm", PYTHON, "arm64", ("python3", "python3-numpy", "python3-cffi-backend")):
        print("skipped: Python of arm64 could not be fetched")
        return 77
    return code


def run(*words, uri=None):
    env = dict(os.environ, RKNND_SERVER=uri, RKNN_LOG_LEVEL="1") if uri else None
    return subprocess.run([str(w) for w in words], env=env, capture_output=True, text=True, check=False, timeout=240)


def run_model(model, inputs, uri):
    """The outputs of a model, as arrays."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(BUILD / "bin/rknnctl", "run", model, *(f"--input={i}" for i in inputs), "-o", folder, uri=uri)
        assert done.returncode == 0, f"{model.name} at {uri}: {done.stderr}"
        return [np.load(path) for path in sorted(pathlib.Path(folder).glob("out*.npy"))]


def outputs_of_models():
    """Rows about the outputs of each model that comes with inputs."""
    rows = csv.DictReader((REAL_MODELS / "golden/outputs.csv").read_text().splitlines())
    models = {}
    for row in rows:
        models.setdefault(row["name"], []).append(row)
    return {name: outputs for name, outputs in models.items() if (REAL_MODELS / f"rknn/{name}.rknn").exists()}


class Board(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        cls.folder = tempfile.TemporaryDirectory()
        os.environ.update(HOME=cls.folder.name, ANDROID_ADB_SERVER_PORT="15037", ADB_LOCAL_TRANSPORT_MAX_PORT="5553")
        net = "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:8910-:8910,hostfwd=tcp:127.0.0.1:5555-:5555"
        cls.guest = subprocess.Popen([HERE / "boot.sh", "arm64", SOURCE / "build/vm-arm64", HERE / "guest/arm64.sh", "800",
                                      "-netdev", net, "-device", "virtio-net-pci,netdev=net"])
        wait_for("the board's rknnd", lambda: cls.is_there() and run(BUILD / "bin/rknnctl", "ping", uri=TCP).returncode == 0)
        run("adb", "start-server")
        wait_for("its adbd", lambda: cls.is_there() and "connected" in run("adb", "connect", BOARD).stdout)
        wait_for("adb", lambda: f"{BOARD}\tdevice" in run("adb", "devices").stdout)

    @classmethod
    def is_there(cls):
        assert cls.guest.poll() is None, "the guest has ended"
        return True

    @classmethod
    def tearDownClass(cls):
        run("adb", "-s", BOARD, "shell", "kill -USR1 $(cat /run/board.pid)")
        code = cls.guest.wait(PATIENCE)
        run("adb", "kill-server")
        cls.folder.cleanup()
        assert code == 0, f"the board's rknnd ended with {code}"

    def check(self, name, done):
        self.assertEqual(done.returncode, 0, f"{name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def conform(self, programs, uri):
        for name in programs:
            with self.subTest(name):
                self.check(name, run(BUILD / "tests/conformance" / name, MODELS, uri=uri))

    def shell(self, command):
        return run("adb", "-s", BOARD, "shell", command)

    def test_by_tcp(self):
        self.conform(BY_TCP, TCP)

    def test_by_adb(self):
        self.conform(BY_ADB, f"adb:{BOARD}")

    def test_on_the_board(self):
        for name in BY_UNIX:
            with self.subTest(name):
                self.check(name, self.shell(f"{ARM64}/tests/conformance/{name} {MODELS}"))

    def said_here(self, program, *words, **where):
        """What a program in Python prints, run on this machine."""
        done = compat.run(program, *words, **where)
        return json.loads(done.stdout)

    def test_python_against_the_board(self):
        for program in PROGRAMS:
            expected = self.said_here(*program, server="sim:")
            for uri in TCP, f"adb:{BOARD}":
                with self.subTest(program[0] + uri):
                    self.assertEqual(self.said_here(*program, server=uri), expected)

    def test_python_of_the_toolkit(self):
        """By device_id, as RKNN-Toolkit2's programs name a board: run, time, memory, errors of each layer."""
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/in.npy", compat.numbers("conv.in0.bin", np.float32, 1, 8, 8, 3))
            expected, step = compat.real(compat.numbers("conv.out0.bin", np.int8, 1, 8, 8, 8), -1500, 1500)
            for board in BOARD, TCP:
                out = f"{folder}/{board}"
                compat.run("connected.py", "--model", MODELS / "conv.rknn", "--target", "rk3588", "--input", f"{folder}/in.npy",
                           "--out", out, "--device-id", board)
                self.assertLessEqual(np.abs(np.load(out + ".npz")["arr_0"] - expected).max(), step * 1.01)
                self.assertIn("runtime_error", pathlib.Path(out + ".snapshot/error_analysis.txt").read_text())

    def test_python_on_the_board(self):
        python = with_libraries(PYTHON / "root", "python3.11", "arm64")
        environment = f"PYTHONPATH={ARM64}/lib/python PYTHONDONTWRITEBYTECODE=1 HOME=/tmp"
        for program, *words in PROGRAMS[:2]:
            with self.subTest(program):
                expected = self.said_here(program, *words, server="sim:")
                command = " ".join(map(str, (compat.PROGRAMS / program, *(f"'{word}'" for word in words))))
                done = self.shell(f"cd /tmp && {environment} {python} -m rknnd.compat {command}")
                self.check(program, done)
                self.assertEqual(json.loads(done.stdout.strip().splitlines()[-1]), expected)

    def test_unit_tests(self):
        for name in UNIT_TESTS:
            with self.subTest(name):
                self.check(name, self.shell(f"{ARM64}/tests/unit/{name}"))

    @unittest.skipUnless(REAL_MODELS.is_dir(), "no folder of models")
    def test_same_numbers_as_here(self):
        """To the last bit; but halves may be rounded from sums that were made in another order."""
        for model, outputs in outputs_of_models().items():
            path = REAL_MODELS / f"rknn/{model}.rknn"
            inputs = sorted(REAL_MODELS.glob(f"golden/{model}.in*.npy"))
            with self.subTest(model):
                here, there = (run_model(path, inputs, uri) for uri in ("sim:", TCP))
                self.assertEqual(len(here), len(outputs))
                self.assertEqual(len(there), len(outputs))
                for output, a, b in zip(outputs, here, there):
                    allowed = HALF_STEP * np.abs(a).max() if output["type"] == "float16" else 0
                    self.assertLessEqual(np.abs(a - b).max(), allowed)


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join((str(BUILD / "lib/python"), os.environ["PYTHONPATH"]))  # of programs in Python
    if sys.argv[1:] == ["inside"]:
        unittest.main(argv=sys.argv[:1], verbosity=2)
    code = build()
    if code == 0:
        code = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                               sys.executable, __file__, "inside"], check=False).returncode
    sys.exit(code)
