#!/usr/bin/python3
"""Whole programs of our own writer (npu/write): for each chip, the emulator and the software NPU against numpy."""
import pathlib
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops, reference
from rknnwriter.chips import CHIPS, LITE_CHIPS
from support.service import Daemon

UNWRITTEN = {"chain": ("rk3576", "rv1126b"), "leaky": ("rk3588",), "addend_relu": tuple(LITE_CHIPS)}
IN, MIDDLE, OUT = Quant(0.05, -3), Quant(0.08, 5), Quant(0.1, 7)


def convolution(chip, kernel=1, stride=1, channels=32, outputs=32, add=False, **options):
    rng, m = np.random.default_rng(3), Model(chip, "written")
    x = m.input("x", (1, channels, 8, 8), IN)
    if options.pop("addend", False):
        options["addend"] = x
    y = ops.conv(m, x, rng.normal(size=(outputs, channels, kernel, kernel)) * 0.2, rng.normal(size=outputs),
                 pad=kernel // 2, stride=stride, out=MIDDLE, **options)
    m.output(ops.add(m, y, x, out=OUT) if add else y, "out")
    return m


CASES = {  # words: how far from the reference in steps, which counts lookup tables and Add in real numbers
    "plain": (dict(form="plain"), 0), "full": ({}, 0), "kernel": (dict(kernel=3), 0), "stride": (dict(kernel=3, stride=2), 0),
    "relu": (dict(kernel=3, act="relu"), 0), "addend": (dict(addend=True), 0), "addend_relu": (dict(addend=True, act="relu"), 0),
    "channels": (dict(channels=48, outputs=64), 0), "leaky": (dict(act="leaky_relu"), 0), "table": (dict(act="swish"), 1),
    "chain": (dict(add=True), 1),
}


class Written(unittest.TestCase):
    def judge(self, chip, name):
        options, distance = CASES[name]
        model = convolution(chip, **options)
        stored = np.random.default_rng(7).integers(-128, 128, (1, 8, 8, model.inputs[0].shape[1])).astype(np.int8)
        real = IN.load(stored).astype(np.float32)
        expected = reference.outputs(model, [real])[0]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save(folder / "m.rknn")
            np.save(folder / "in.npy", real)
            for daemon in self.daemons[chip]:
                daemon.rknnctl("run", folder / "m.rknn", "-i", folder / "in.npy", "-o", folder / "out")
                got = np.load(next((folder / "out").glob("*.npy")))
                steps = np.abs(got - expected) / model.outputs[0].quant.scale
                with self.subTest(chip=chip, case=name, backend=daemon.backend):
                    self.assertLessEqual(np.rint(steps.max()), distance)

    def all_of(self, chip):
        self.daemons = {chip: []}
        for backend in (f"emu:{chip}", f"sim:{chip},strict"):
            daemon = Daemon("--backend", backend)
            daemon.backend = backend
            self.addCleanup(daemon.stop)
            self.daemons[chip].append(daemon)
        for name in CASES:
            if chip not in UNWRITTEN.get(name, ()):
                self.judge(chip, name)


for one in (*CHIPS, *LITE_CHIPS):
    setattr(Written, f"test_{one}", lambda self, chip=one: self.all_of(chip))

if __name__ == "__main__":
    unittest.main()
