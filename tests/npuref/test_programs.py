#!/usr/bin/python3
"""Nodes that npu/sim computes by their own register programs, on the emulator: what comes out is what it computes itself."""
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

from npuref.files import FILES, RKNNCTL, chosen, inputs_of, numbers_of
from npuref.test_open import BATCH, EXACT, NEAR, REFUSED, chip_of
from rknnwriter import ops
from rknnwriter.model import Model, Quant
from rknnwriter.regs import unit_of
from support.service import Daemon

ALL = "sim:any,programs=*"
LONG = 900
# Files of which the emulator does not model some node, and what is wanted of these: nodes that it models.
SOME = {
    "BCResNet-t2-simplified.rk3588": "Conv*", "yolo26n_seven_sections.rv1106": "Conv*",
}
FP16 = {"BCResNet-t2-simplified.rk3588": EXACT._replace(share=1, distance=2e-2)}
# Whole files that the reader of programs refuses, or that nobody computes without a plugin.
NOT_RUN = {name for name in REFUSED if name not in SOME}
RUN = [name for name in FILES if name not in NOT_RUN and name != BATCH]


class Service:
    """A daemon for each pattern of nodes."""

    def __init__(self):
        self.daemons = {}

    def __getitem__(self, backend):
        if backend not in self.daemons:
            self.daemons[backend] = Daemon("--job-timeout-ms", str(LONG * 1000), "--load-timeout-ms", str(LONG * 1000),
                                            "--backend", backend)
        return self.daemons[backend]

    def stop(self):
        for daemon in self.daemons.values():
            daemon.stop()


def outputs(daemon, model, arguments, *words):
    with tempfile.TemporaryDirectory(prefix="rknnd-programs-") as out:
        ran = daemon.rknnctl("run", model, *arguments, "--raw", "-o", out, *words, patience=LONG)
        return ran, {p.name: np.load(p) for p in pathlib.Path(out).glob("*.npy")}


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service, cls.folder = Service(), tempfile.TemporaryDirectory(prefix="rknnd-programs-")

    @classmethod
    def tearDownClass(cls):
        cls.service.stop()
        cls.folder.cleanup()

    def compare(self, found, expected, allowed=EXACT):
        self.assertEqual(found.keys(), expected.keys())
        self.assertTrue(found)
        for name, values in expected.items():
            far = np.abs(found[name].astype(float) - values.astype(float))
            largest = 1 if values.dtype.kind == "i" else np.abs(values.astype(float)).max()
            self.assertLessEqual((far > 0).mean(), allowed.share, name)
            self.assertLessEqual(far.max(), allowed.distance * largest, name)


class SharedFiles(Cases):
    """Each node of the NPU, of all shared files: as if each of them had been refused."""

    def check(self, name, backend, arguments, allowed, words=("--pass-through",)):
        results = []
        for daemon in (self.service[backend], self.service["sim:"]):
            ran, found = outputs(daemon, FILES[name], arguments, *words)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            results.append(found)
        self.compare(*results, allowed)

    def arguments(self, name):
        folder = pathlib.Path(self.folder.name) / name
        folder.mkdir(exist_ok=True)
        return inputs_of(FILES[name], folder) or numbers_of(FILES[name], folder)

    def test_whole_nets(self):
        if not FILES:
            self.skipTest("no shared models")
        todo = [(name, f"sim:any,programs={SOME[name]}" if name in SOME else ALL) for name in chosen(RUN)]
        arguments = {name: self.arguments(name) for name, _ in todo}
        for _, backend in [*todo, ("", "sim:")]:  # daemons are started by one thread
            self.assertTrue(self.service[backend])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            done = [(name, pool.submit(self.check, name, backend, arguments[name],
                                       FP16.get(name, NEAR.get(name, EXACT)))) for name, backend in todo]
            for name, result in done:
                with self.subTest(name):
                    result.result()

    def test_a_batch(self):
        if BATCH not in FILES:
            self.skipTest("no shared models")
        given = pathlib.Path(self.folder.name) / "batch.npy"
        np.save(given, np.random.default_rng(1).integers(0, 256, (8, 224, 224, 3), np.uint8))
        self.check(BATCH, ALL, ["-i", given], EXACT, ())

    def test_both_reasons_are_said(self):
        name = "yolo26n_seven_sections.rv1106"
        if name not in FILES:
            self.skipTest("no shared models")
        ran, _ = outputs(self.service[ALL], FILES[name], self.arguments(name), "--pass-through")
        self.assertEqual(ran.returncode, 4)
        self.assertRegex(ran.stderr, r"node .* \(exSDPAttention\): the options say so; nor can its register program be run: "
                                     r".*CVT_CON0 \(0x104c\) holds")


Q = Quant.of_range(-4, 4)


def net():
    """Two convolutions and a pool between them, of RK3588."""
    rng, m = np.random.default_rng(5), Model("rk3588", "net")
    x = m.input("image", (1, 3, 12, 12), Quant.of_range(0, 255))
    a = ops.conv(m, x, rng.normal(size=(20, 3, 3, 3)) * 0.01, rng.normal(size=20), stride=2, pad=1, act="relu", out=Q)
    b = ops.max_pool(m, a, 2)
    m.output(ops.conv(m, b, rng.normal(size=(24, 20, 3, 3)) * 0.3, rng.normal(size=24), pad=1, out=Q), "out")
    return m.to_bytes()


def renamed(old, new):
    def spoil(data):
        assert old in data and len(old) == len(new)
        return data.replace(old, new)
    return spoil


def with_register(number, change):
    """The commands that write it as the last one does, the second convolution's, write another value."""
    def spoil(data):
        words = np.frombuffer(data[: len(data) // 8 * 8], "<u8").copy()
        unit = np.uint64(unit_of(number))
        at = np.flatnonzero((words & np.uint64(0xFFFF) == number) & (words >> np.uint64(48) == unit))[-1]
        value = change(int(words[at]) >> 16 & 0xFFFFFFFF)
        words[words == words[at]] = int(words[at]) & ~(0xFFFFFFFF << 16) | value << 16
        return words.tobytes() + data[len(words) * 8 :]
    return spoil


# What is done to the file: the words of the reader that refuses it, and whether the node's program can be run.
SPOILT = {
    "an operator": (renamed(b"\x04\0\0\0Conv\0", b"\x04\0\0\0Cunv\0"), "Cunv", True),
    "an attribute": (renamed(b"ceil_mode", b"ceil_modz"), "ceil_modz", True),
    # CORE_MISC_CFG: a bit that neither knows.
    "an unknown bit": (with_register(0x3010, lambda v: v | 1 << 30), "CORE_MISC", False),
}


class OwnFiles(Cases):
    """Files of our own writer, in which something is new."""

    def save(self, name, change=bytes):
        path = pathlib.Path(self.folder.name) / f"{name}.rknn"
        path.write_bytes(change(net()))
        return path

    def setUp(self):
        self.picture = pathlib.Path(self.folder.name) / "picture.npy"
        np.save(self.picture, np.random.default_rng(2).integers(0, 256, (1, 12, 12, 3), np.uint8))

    def test_new_things(self):
        right = outputs(self.service["sim:rk3588,strict"], self.save("right"), ["-i", self.picture])[1]
        for name, (change, words, runs) in SPOILT.items():
            with self.subTest(name):
                path = self.save(name.replace(" ", "_"), change)
                refused, _ = outputs(self.service["sim:rk3588,strict"], path, ["-i", self.picture])
                self.assertEqual(refused.returncode, 4)
                self.assertIn(words, refused.stderr)
                for strictly in ("sim:rk3588,strict", "sim:rk3588,strict,programs=none of them"):
                    self.check_refused(strictly, path, words)
                ran, found = outputs(self.service["sim:rk3588"], path, ["-i", self.picture])
                if runs:
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    self.compare(found, right)
                    self.check_said(path, words)
                else:
                    self.assertEqual(ran.returncode, 4, ran.stderr)
                    self.assertIn(words, ran.stderr)
                    self.assertIn("nor can its register program be run", ran.stderr)

    def test_registers_that_say_something_else_than_tables(self):
        """A chip does not see the tables: the kernel takes a pixel less of what pads the image, or a column less of the
        pool's window."""
        changes = {0x1068: lambda v: v & ~0xF, 0x6034: lambda v: v & ~1}
        right = outputs(self.service["sim:rk3588"], self.save("right"), ["-i", self.picture])[1]
        for register, change in changes.items():
            with self.subTest(f"{register:#x}"):
                path = self.save(f"{register:x}", with_register(register, change))
                refused, _ = outputs(self.service["sim:rk3588,strict"], path, ["-i", self.picture])
                self.assertIn(f"{register:#x}", refused.stderr)
                found, expected = (outputs(self.service[b], path, ["-i", self.picture])[1]
                                   for b in ("sim:rk3588", "emu:rk3588"))
                self.compare(found, expected)
                self.assertFalse(all(np.array_equal(found[name], right[name]) for name in right))

    def test_outputs_that_are_left_as_they_were(self):
        """DATA_CUBE_HEIGHT, and what agrees with it: the last line is not written."""
        def shorter(data):
            for register, change in ((0x4034, lambda v: v - 1), (0x405C, lambda v: v - (1 << 16)),
                                     (0x3014, lambda v: v - (1 << 16)), (0x5010, lambda v: v - 1)):
                data = with_register(register, change)(data)
            return data
        path = self.save("shorter", shorter)
        ran, _ = outputs(self.service["sim:rk3588,programs=Conv*"], path, ["-i", self.picture])
        self.assertEqual(ran.returncode, 4)
        self.assertIn("leaves parts of out as they were", ran.stderr)

    def check_refused(self, server, path, words):
        said = subprocess.run([RKNNCTL, "info", path, "-s", server], capture_output=True, check=False, text=True)
        self.assertEqual(said.returncode, 4, said.stdout)
        self.assertIn("refuses it: ", said.stdout)
        self.assertIn(words, said.stdout)

    def check_said(self, path, words):
        said = subprocess.run([RKNNCTL, "info", path, "-s", "sim:", "--json"], capture_output=True, check=True)
        (why,) = json.loads(said.stdout)["model"]["by_program"]
        self.assertIn(words, why)
        text = subprocess.run([RKNNCTL, "info", path, "-s", "sim:"], capture_output=True, check=True).stdout.decode()
        self.assertIn("emulated", text)

    def test_each_node(self):
        """As the reader computes it, one node at a time by its program."""
        path = self.save("each")
        right = outputs(self.service["sim:rk3588,strict"], path, ["-i", self.picture])[1]
        for pattern in ("Conv*", "MaxPool*", "*"):
            with self.subTest(pattern):
                ran, found = outputs(self.service[f"sim:rk3588,programs={pattern}"], path, ["-i", self.picture])
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.compare(found, right)


if __name__ == "__main__":
    unittest.main()
