#!/usr/bin/python3
"""Whole programs of our own writer (npu/write): for each chip, the emulator and the software NPU against numpy."""
import copy
import pathlib
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops, reference
from rknnwriter.chips import CHIPS, LITE_CHIPS
from support.checks.sample import of_this_run
from support.service import Daemon

WITH_PRODUCTS = ("rk3588", "rk3566", "rk3568")
UNWRITTEN = {"scaled": [c for c in (*CHIPS, *LITE_CHIPS) if c not in WITH_PRODUCTS], "leaky": ("rk3588",), "each_leaky": ("rk3588",), "addend_relu": tuple(LITE_CHIPS), "chain_relu": tuple(LITE_CHIPS)}
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
    if pool:
        y = ops.max_pool(m, ops.max_pool(m, y, 3, stride=1), 2)
    if add:
        y = ops.add(m, *add(x, y), out=OUT, act=options.get("act"))
    m.output(y, "out")
    return m


CASES = {  # words: how far from the reference in steps, which counts lookup tables and Add in real numbers
    "plain": (dict(form="plain"), 0), "full": ({}, 0), "kernel": (dict(kernel=3), 0), "stride": (dict(kernel=3, stride=2), 0),
    "relu": (dict(kernel=3, act="relu"), 0), "addend": (dict(addend=True), 0), "addend_relu": (dict(addend=True, act="relu"), 0),
    "channels": (dict(channels=48, outputs=64), 0), "leaky": (dict(act="leaky_relu"), 0), "table": (dict(act="swish"), 1),
    "pool": (dict(pool=True), 0),
    "each": (dict(outputs=64, each={}), 0), "each_relu": (dict(each=dict(act="relu", stride=2), size=(9, 12)), 0),
    "each_leaky": (dict(each=dict(act="leaky_relu"), outputs=128), 0),
    "each_odd": (dict(each=dict(kernel=(5, 2), pad=2, stride=(2, 1)), outputs=40, size=(7, 13)), 0),
    "each_few": (dict(each=dict(kernel=(7, 7), pad=3), outputs=9, size=(10, 6), pool=True), 0),
    "each_many": (dict(each=dict(kernel=(3, 3), pad=0), outputs=112, size=(6, 3)), 0),
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


for one in (*CHIPS, *LITE_CHIPS):
    setattr(Written, f"test_{one}", lambda self, chip=one: self.all_of(chip))

if __name__ == "__main__":
    unittest.main()
