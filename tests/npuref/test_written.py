#!/usr/bin/python3
"""Whole programs of our own writer (npu/write): for each chip, the emulator and the software NPU against numpy."""
import copy
import pathlib
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops, programs, reference
from rknnwriter.chips import CHIPS, LITE_CHIPS
from support.checks.sample import of_this_run
from support.service import Daemon

WITH_PRODUCTS = ("rk3588", "rk3566", "rk3568")
UNWRITTEN = {"each_rest": [c for c in (*CHIPS, *LITE_CHIPS) if c != "rk3588"], "scaled": [c for c in (*CHIPS, *LITE_CHIPS) if c not in WITH_PRODUCTS], "leaky": ("rk3588",), "each_leaky": ("rk3588",), "addend_relu": tuple(LITE_CHIPS), "chain_relu": tuple(LITE_CHIPS)}
IN, MIDDLE, OUT = Quant(0.05, -3), Quant(0.08, 5), Quant(0.1, 7)


def convolution(chip, kernel=1, stride=1, channels=32, outputs=32, size=(8, 8), pad=None, add=None, pool=False, each=None, scaled=False, quant=IN,
                **options):
    rng, m = np.random.default_rng(3), Model(chip, "written")
    x = m.input("x", (1, channels, *size), quant)
    addend = options.pop("addend", False)
    if addend == "between":
        x = ops.conv(m, x, rng.normal(size=(channels, channels, 1, 1)) * 0.2, rng.normal(size=channels), out=quant)
    if addend:
        options["addend"] = x
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    y = ops.conv(m, x, rng.normal(size=(outputs, channels, *kernel)) * 0.2, rng.normal(size=outputs),
                 pad=kernel[0] // 2 if pad is None else pad, stride=stride, out=MIDDLE, **options)
    if each:
        weight = rng.normal(size=(outputs, 1, *each.pop("kernel", (3, 3)))) * 0.3
        y = ops.conv(m, y, weight, rng.normal(size=outputs), group=outputs, out=OUT, **dict(pad=1) | each)
    if scaled:
        y = ops.mul(m, y, m.input("by", (1, outputs, 1, 1), quant), out=OUT)
    if pool is True:
        y = ops.max_pool(m, ops.max_pool(m, y, 3, stride=1), 2)
    elif pool:
        y = ops.average_pool(m, y, pool)
    if add:
        y = ops.add(m, *add(x, y), out=OUT, act=options.get("act"))
    m.output(y, "out")
    return m


CASES = {  # words: how far from the reference in steps, which counts lookup tables and Add in real numbers
    "plain": (dict(form="plain"), 0), "full": ({}, 0), "kernel": (dict(kernel=3), 0), "stride": (dict(kernel=3, stride=2), 0),
    "relu": (dict(kernel=3, act="relu"), 0), "addend": (dict(addend=True), 0), "addend_relu": (dict(addend=True, act="relu"), 0),
    "channels": (dict(channels=48, outputs=64), 0), "leaky": (dict(act="leaky_relu"), 0), "table": (dict(act="swish"), 1),
    "pool": (dict(pool=True), 0),
    # of odd widths, and of one pixel, whose lines and planes are no whole sixteens of bytes on RK3566
    "pool_odd": (dict(pool=True, size=(9, 13)), 0), "pool_pixel": (dict(pool=True, size=(4, 4)), 0),
    # windows of an even and an odd side, whose sums are often ties, which the chip's reciprocals break
    "average": (dict(pool=(2, 3), size=(8, 9)), 0), "average_large": (dict(pool=(14, 14), size=(14, 28), outputs=40), 0),
    "each": (dict(outputs=64, each={}), 0), "each_relu": (dict(each=dict(act="relu", stride=2), size=(9, 12)), 0),
    "each_leaky": (dict(each=dict(act="leaky_relu"), outputs=128), 0),
    "each_odd": (dict(each=dict(kernel=(5, 2), pad=2, stride=(2, 1)), outputs=40, size=(7, 13)), 0),
    "each_few": (dict(each=dict(kernel=(7, 7), pad=3), outputs=9, size=(10, 6), pool=True), 0),
    "each_rest": (dict(each=dict(act="swish"), outputs=140, size=(5, 4)), 1),
    "each_many": (dict(each=dict(kernel=(3, 3), pad=0), outputs=112, size=(6, 3)), 0),
    # pixels of a window that are apart, which registers of all chips say in the same way
    "apart": (dict(kernel=3, dilation=(2, 3), pad=(2, 3, 2, 3), size=(9, 11)), 0),
    "apart_far": (dict(kernel=(2, 5), dilation=(7, 4), stride=(1, 2), pad=(0, 6, 0, 6), size=(12, 19), channels=16, outputs=24, act="relu"), 0),
    "each_apart": (dict(outputs=40, size=(10, 7), each=dict(dilation=2, pad=2, stride=(2, 1))), 0),
    "scaled": (dict(scaled=True, outputs=40, size=(5, 7)), 1),
    # the operand of the larger scale second, and first
    "chain": (dict(add=lambda x, y: (x, y)), 1), "chain_other": (dict(add=lambda x, y: (y, x)), 1),
    "chain_relu": (dict(add=lambda x, y: (y, x), act="relu"), 1),
    # Planes that are no whole fours of pixels, of models' inputs without gaps and between nodes with them; one block of channels,
    # and blocks that are not full; zero points at the ends.
    "odd": (dict(channels=31, outputs=33, size=(5, 18), kernel=(4, 2), stride=(2, 3), pad=2, quant=Quant(0.05, 17), form="plain"), 0),
    "odd_block": (dict(channels=16, outputs=40, size=(12, 9), kernel=(4, 5), stride=(2, 3), pad=1), 0),
    "odd_lines": (dict(channels=17, outputs=3, size=(19, 3), kernel=(5, 1), pad=0, quant=Quant(0.05, 127), act="relu"), 0),
    "odd_pixel": (dict(channels=100, outputs=1, size=(1, 1), quant=Quant(0.05, -128)), 0),
    "odd_chain": (dict(outputs=40, size=(15, 13), kernel=3, add=lambda x, y: (y, y)), 1),
    "odd_addend": (dict(addend=True, channels=64, outputs=64, size=(5, 7)), 0),
    "odd_between": (dict(addend="between", channels=64, outputs=64, size=(5, 7)), 0),
    "odd_inputs": (dict(size=(5, 7), add=lambda x, y: (x, y)), 1),
}


class Written(unittest.TestCase):
    def judge(self, chip, name):
        options, distance = copy.deepcopy(CASES[name])
        model = convolution(chip, **options)
        rng, real = np.random.default_rng(7), []
        for x in model.inputs:
            _, c, h, w = x.shape
            real.append(x.quant.load(rng.integers(-128, 128, (1, h, w, c)).astype(np.int8)).astype(np.float32))
        expected = reference.outputs(model, real)[0]
        with tempfile.TemporaryDirectory() as folder:
            folder, found = pathlib.Path(folder), []
            model.save(folder / "m.rknn")
            given = []
            for i, values in enumerate(real):
                np.save(folder / f"in{i}.npy", values)
                given += ["-i", folder / f"in{i}.npy"]
            for daemon in self.daemons[chip]:
                ran = daemon.rknnctl("run", folder / "m.rknn", *given, "-o", folder / "out")
                self.assertEqual(ran.returncode, 0, f"{chip} {name} {daemon.backend}: {ran.stderr}")
                got = np.load(next((folder / "out").glob("*.npy")))
                found.append(got)
                steps = np.abs(got - expected) / model.outputs[0].quant.scale
                with self.subTest(chip=chip, case=name, backend=daemon.backend):
                    self.assertLessEqual(np.rint(steps.max()), distance)
            np.testing.assert_array_equal(*found, f"{chip} {name}")

    def all_of(self, chip):
        self.daemons = {chip: []}
        for backend in (f"emu:{chip}", f"sim:{chip},strict"):
            daemon = Daemon("--backend", backend)
            daemon.backend = backend
            self.addCleanup(daemon.stop)
            self.daemons[chip].append(daemon)
        # Every chip has each second case, and every case each second chip.
        at, names = (*CHIPS, *LITE_CHIPS).index(chip), list(CASES)
        for name in of_this_run(names, lambda name: (names.index(name) + at) % 2 == 0):
            if chip not in UNWRITTEN.get(name, ()):
                self.judge(chip, name)


def command(node, register, value):
    """Has a node's program set a register to what comes of its value."""
    task = node.tasks[0]
    task.commands = [(t, r, value(v) if r == register else v) for t, r, v in task.commands]


class Edited(unittest.TestCase):
    """What no shared file has, and registers say by what other operators have in them: programs with other values."""

    def run_on(self, backend, model, inputs):
        daemon = Daemon("--backend", backend)
        self.addCleanup(daemon.stop)
        with tempfile.TemporaryDirectory() as folder:
            folder, given = pathlib.Path(folder), []
            model.save(folder / "m.rknn")
            for i, x in enumerate(inputs):
                np.save(folder / f"in{i}.npy", x)
                given += ["-i", folder / f"in{i}.npy"]
            ran = daemon.rknnctl("run", folder / "m.rknn", *given, "-o", folder / "out")
            self.assertEqual(ran.returncode, 0, f"{backend}: {ran.stderr}")
            return np.load(next((folder / "out").glob("*.npy")))

    def judge(self, chip, model, inputs, expected, steps=1):
        by_chip, by_sim = (self.run_on(b, model, inputs) for b in (f"emu:{chip}", f"sim:{chip}"))
        np.testing.assert_array_equal(by_chip, by_sim)
        self.assertLessEqual(np.rint(np.abs(by_chip - expected).max() / model.outputs[0].quant.scale), steps)
        self.assertGreater(len(np.unique(by_chip)), 20)

    def test_operations_of_two_images(self):
        shape, rng = (1, 5, 7, 32), np.random.default_rng(4)
        operations = {"Max": (0, np.maximum), "Min": (1, np.minimum), "Sub": (4, np.subtract)}
        places = {"rk3588": (0x4070, 16), "rk3566": (0x4070, 3), "rk3562": (0x407C, 16), "rk3576": (0x407C, 16), "rv1126b": (0x407C, 16)}
        for chip, (register, bit) in places.items():
            for name, (code, function) in operations.items():
                if code >> 2 and bit == 3:  # which has two bits for it
                    continue
                m = Model(chip, "edited")
                a, b = (m.input(name, (1, 32, 5, 7), quant) for name, quant in (("a", IN), ("b", MIDDLE)))
                m.output(ops.add(m, a, b, out=OUT), "out")
                programs.complete(m)
                node = next(n for n in m.nodes if n.op == "Add")
                node.op = name
                command(node, register, lambda v, c=code, s=bit: v & ~((0xF if s == 16 else 3) << s) | c << s)
                real = [q.load(rng.integers(-128, 128, shape).astype(np.int8)).astype(np.float32) for q in (IN, MIDDLE)]
                main = next(t for t, at, *_ in node.tasks[0].relocations if node.tasks[0].commands[at][1] == 0x5018)
                expected = OUT.load(OUT.store(function(*(real if main is a else real[::-1])))).transpose(0, 3, 1, 2)
                with self.subTest(chip=chip, operation=name):
                    self.judge(chip, m, real, expected)

    def test_a_slope_for_each_channel(self):
        rng = np.random.default_rng(5)
        real = IN.load(rng.integers(-128, 128, (1, 6, 9, 32)).astype(np.int8)).astype(np.float32)
        slopes = (0.25, 0.5)
        for chip in ("rk3566", "rk3562", "rv1106"):
            models = [convolution(chip, kernel=3, size=(6, 9), act="leaky_relu", alpha=alpha) for alpha in slopes]
            each = [reference.outputs(m, [real])[0] for m in models]
            expected = np.where(np.arange(32)[:, None, None] % 2, each[1], each[0])
            m = models[0]
            programs.complete(m)
            node = next(n for n in m.nodes if n.op == "ConvLeakyRelu")
            node.op = "ConvPRelu"
            words = np.where(np.arange(32) % 2, *(round(s * 2**14) for s in reversed(slopes))).astype("<i2")
            table = m.packed_constant("slopes", [32], "int16", [32], words.tobytes())
            node.inputs.append(table)
            command(node, 0x4068, lambda v: v & 0xFFFF | 1)
            command(node, 0x5028, lambda v: 8)
            at = next(i for i, (_, r, _) in enumerate(node.tasks[0].commands) if r == 0x502C)
            node.tasks[0].relocations.append((table, at))
            with self.subTest(chip=chip):
                self.judge(chip, m, [real], expected)


for one in (*CHIPS, *LITE_CHIPS):
    setattr(Written, f"test_{one}", lambda self, chip=one: self.all_of(chip))

if __name__ == "__main__":
    unittest.main()
