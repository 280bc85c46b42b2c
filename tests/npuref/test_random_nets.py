#!/usr/bin/python3
"""Nets that nobody thought of, by npu/write: a few convolutions, pools and additions of any size. The emulator, which sees their
programs, and the software NPU, which goes by their operators, compute the same. RKNND_SEED chooses the nets; by hand:
test_random_nets.py CHIP FIRST-SEED COUNT."""
import collections
import pathlib
import sys
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops, programs
from rknnwriter.chips import CHIPS, LITE_CHIPS
from support.checks.sample import REST
from support.seed import seed as chosen_seed
from support.service import Daemon

EACH = 6
ACTIVATIONS = (None, None, None, "relu", "relu", "relu", "swish", "leaky_relu", "sigmoid", "hard_sigmoid", "tanh")
KINDS = ("conv", "conv", "conv", "depthwise", "pool", "add", "addend")


class Unwritten(Exception):
    """The writer does not have what was drawn."""


class Drawing:
    """What a net is made of, by chance. Int8 only: sums of halves depend on their order."""

    def __init__(self, chip, seed):
        self.rng = np.random.default_rng(seed)
        self.model = Model(chip, "random")
        self.words = []

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def choice(self, values):
        return values[self.number(0, len(values) - 1)]

    def quant(self):
        return Quant(float(self.rng.uniform(0.01, 0.2)), self.choice((-128, 127, 0, self.number(-128, 127))))

    def window(self, size):
        """Kernel, strides and padding that fit."""
        kernel = tuple(self.number(1, min(7, side + 2)) for side in size)
        return kernel, dict(stride=(self.number(1, 3), self.number(1, 3)), pad=tuple(self.number(0, k // 2) for k in kernel))

    def operator(self, x, earlier):
        kind, act, channels = self.choice(KINDS), self.choice(ACTIVATIONS), x.shape[1]
        kernel, window = self.window(x.shape[2:])
        self.words.append(f"{kind} {kernel} {window} {act}")
        if kind == "pool":
            return ops.max_pool(self.model, x, self.number(2, 3), stride=self.number(1, 3))
        if kind == "add":
            other = self.choice([t for t in earlier if t.shape == x.shape])
            return ops.add(self.model, x, other, act=act if act == "relu" else None, out=self.quant())
        outputs, shares = (channels, channels) if kind == "depthwise" else (self.number(1, 130), 1)
        if kind == "addend":
            kernel, window, outputs = (1, 1), {"addend": x}, channels
        elif self.number(1, 5) == 1:
            window["dilation"] = self.number(1, 3)
        weight = self.rng.normal(0, 0.25, (outputs, channels // shares, *kernel))
        return ops.conv(self.model, x, weight, self.rng.normal(size=outputs), act=act, out=self.quant(), group=shares, **window)

    def net(self):
        channels = self.choice((self.choice((1, 3, 4)), 32, 64, self.number(5, 40), self.number(40, 200)))
        made = [self.model.input("x", (1, channels, self.number(1, 30), self.number(1, 30)), self.quant())]
        self.words.append(str(made[0].shape))
        try:
            for _ in range(self.number(1, 4)):
                made.append(self.operator(made[-1], made))
        except (ValueError, KeyError) as e:
            raise Unwritten(f"{self.words[-1]}: {e}") from e
        self.model.output(made[-1], "out")
        if not programs.complete(self.model):  # what its tasks do not set, tasks before may have left in the registers
            raise Unwritten("a node's program is not known")
        return self.model


class Both:
    """The two NPUs, of one chip."""

    def __init__(self, chip):
        self.chip = chip
        self.daemons = [Daemon("--backend", f"{backend}:{chip}") for backend in ("emu", "sim")]

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()

    def differing(self, seed, folder):
        """Nodes whose tensors differ, with words; None: one of the two refuses the net. Raises Unwritten."""
        drawing = Drawing(self.chip, seed)
        model = drawing.net()
        x = model.inputs[0]
        model.save(folder / "net.rknn")
        values = drawing.rng.integers(-128, 128, [x.shape[i] for i in (0, 2, 3, 1)])
        np.save(folder / "x.npy", x.quant.load(values.astype(np.int8)).astype(np.float32))
        tensors = []
        for i, daemon in enumerate(self.daemons):
            to = folder / str(i)
            ran = daemon.rknnctl("dump", folder / "net.rknn", "-i", folder / "x.npy", "--raw", "-o", to)
            if ran.returncode:
                return None
            tensors.append({p.name.split("_", 1)[-1]: np.load(p) for p in to.glob("*.npy")})
        emulated, simulated = tensors
        bad = {n for n in emulated.keys() | simulated.keys()
               if n not in emulated or n not in simulated or not np.array_equal(emulated[n], simulated[n])}
        return [f"{self.chip} {seed}: {n} of {'; '.join(drawing.words)}" for n in sorted(bad)]

    def compare(self, seeds):
        """How many nets were equal, refused and unwritten, and words about those that differ."""
        counts, found = collections.Counter(), []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    bad = self.differing(seed, pathlib.Path(folder))
                except Unwritten:
                    counts["unwritten"] += 1
                    continue
            counts["refused" if bad is None else "different" if bad else "equal"] += 1
            found += bad or []
        return counts, found


class RandomNets(unittest.TestCase):
    def test_both_compute_the_same(self):
        first, equal = chosen_seed() + EACH * REST, 0
        for chip in (*CHIPS, *LITE_CHIPS):
            both = Both(chip)
            counts, found = both.compare(range(first, first + EACH))
            both.stop()
            print(chip, dict(counts))
            self.assertEqual(found, [])
            equal += counts["equal"]
        self.assertGreater(equal, EACH)

    def test_nets_that_were_refused(self):
        """Pools of odd widths, and of one pixel, whose lines and planes are no whole sixteens of bytes on RK3566."""
        both = Both("rk3566")
        counts, found = both.compare((20159, 20269))
        both.stop()
        self.assertEqual((found, dict(counts)), ([], {"equal": 2}))


def main(chip, first, count):
    both = Both(chip)
    counts, found = both.compare(range(int(first), int(first) + int(count)))
    both.stop()
    print("\n".join([*found, f"{chip}: {dict(counts)}"]))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    else:
        unittest.main()
