#!/usr/bin/python3
"""Batches in dma-bufs of programs: each part stays where it is, and gives what copies give (test_direct holds the values and
the bytes beside each tensor); what cannot stay is said with its reason."""
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops
from support.service import BUILD

DIRECT = BUILD / "tests/unit/test_direct"
LAYOUT, STEP = "the NPU has its elements in other places", "parts of its batch begin at no multiple of 64 bytes"


def model(chip, shape, outputs):
    """Three at a time."""
    rng, m = np.random.default_rng(4), Model(chip, "batch")
    m.batch = 3
    x = m.input("x", shape, Quant(1.0, -128 if shape[1] < 5 else 0))
    y = ops.conv(m, x, rng.normal(size=(outputs, shape[1], 3, 3)) * 0.1, rng.normal(size=outputs), pad=1, out=Quant(2.0, 3))
    m.output(y, "y")
    return m


class Batches(unittest.TestCase):
    def said(self, chip, shape, outputs=32):
        """{(which, form): "in place", or why not}."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "batch.rknn"
            model(chip, shape, outputs).save(path)
            done = subprocess.run([DIRECT, chip, path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("FAILED", done.stdout)
        return {(m[1], m[2]): m[3] for m in re.finditer(r"^  (input|output) +\d (.{14}) (.*)$", done.stdout, re.M)}

    def check(self, said, **expected):
        found = {which: {form.strip(): why for (w, form), why in said.items() if w == which} for which in ("input", "output")}
        for name, why in expected.items():
            which, form = name.split("_")
            self.assertEqual(found[which][form], why, name)

    def test_blocks_of_channels(self):
        for chip in ("rk3588", "rk3576", "rv1126b", "rk3562"):
            with self.subTest(chip):
                said = self.said(chip, (1, 32, 8, 8))
                self.check(said, input_native="in place", output_native="in place", output_NHWC=LAYOUT)

    def test_pixels(self):
        said = self.said("rk3588", (1, 3, 16, 16))
        self.check(said, input_native="in place", input_converted="in place", output_native="in place")

    def test_parts_that_begin_anywhere(self):
        self.check(self.said("rk3588", (1, 1, 6, 6)), input_native=STEP, output_native="in place")
        self.check(self.said("rk3588", (1, 32, 3, 3), 64), input_native=STEP, output_native=LAYOUT)

    def test_more_channels_than_it_has(self):
        self.check(self.said("rk3588", (1, 32, 8, 8), 16), input_native="in place",
                   output_native="the NPU writes more channels than it has")


if __name__ == "__main__":
    unittest.main()
