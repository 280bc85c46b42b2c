#!/usr/bin/python3
"""Nets that nobody thought of, by npu/write: a few convolutions, pools and additions of any size. The emulator, which sees their
programs, and the software NPU, which goes by their operators, compute the same. RKNND_SEED chooses the nets; by hand:
test_random_nets.py CHIP FIRST-SEED COUNT."""
import collections
import itertools
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
ACTIVATIONS = (*[None] * 4, *["relu"] * 4, "swish", "swish", "leaky_relu", "sigmoid", "hard_sigmoid", "tanh", "hard_swish", "gelu", "mish", "elu",
               "softplus")
KINDS = ("conv", "conv", "conv", "depthwise", "depthwise", "pool", "average", "add", "addend")
FORMS = (None, None, "plain", "symmetric")  # of a convolution's scales: of each channel, one for all, without zero points
LINES = 1 / 6  # of nets, those whose images are lines


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

    def one_of(self, n):
        return self.number(1, n) == 1

    def window(self, size):
        """Kernel, strides and padding that fit: seldom a large kernel, and often padding that is not the same on all sides."""
        most = 15 if self.one_of(8) else 7
        kernel = tuple(self.number(1, min(most, side + 2)) for side in size)
        pads = [self.number(0, k // 2) for k in (*kernel, *kernel)]
        stride = 4 if self.one_of(8) else 3
        return kernel, dict(stride=(self.number(1, stride), self.number(1, stride)), pad=pads if self.one_of(2) else pads[:2])

    def pool(self, kind, x):
        most = 13 if self.one_of(4) else 5
        kernel = tuple(self.number(1, min(most, side)) for side in x.shape[2:])
        stride = (self.number(1, 3), self.number(1, 3))
        self.words[-1] += f" {kernel} {stride}"
        if kind == "average":
            return ops.average_pool(self.model, x, kernel, stride=stride)
        return ops.max_pool(self.model, x, kernel, stride=stride, pad=[self.number(0, k // 2) for k in (*kernel, *kernel)])

    def operator(self, x, earlier):
        kind, act, channels = self.choice(KINDS), self.choice(ACTIVATIONS), x.shape[1]
        self.words.append(kind)
        if kind in ("pool", "average"):
            return self.pool(kind, x)
        if kind == "add":
            other = self.choice([t for t in earlier if t.shape == x.shape])
            return ops.add(self.model, x, other, act=act if act == "relu" else None, out=self.quant())
        kernel, window = self.window(x.shape[2:])
        outputs, shares = (channels, channels) if kind == "depthwise" else (self.number(1, 600 if self.one_of(10) else 130), 1)
        if kind == "addend":
            kernel, window, outputs = (1, 1), {"addend": x}, channels
        elif self.one_of(4):
            window["dilation"] = (self.number(1, 4), self.number(1, 4))
        form = self.choice(FORMS) if kind == "conv" else None
        window |= {"symmetric": True} if form == "symmetric" else {"form": form}
        self.words[-1] += f" {kernel} {window} {act} to {outputs}"
        weight = self.rng.normal(0, 0.25, (outputs, channels // shares, *kernel))
        return ops.conv(self.model, x, weight, self.rng.normal(size=outputs), act=act, out=self.quant(), group=shares, **window)

    def net(self):
        channels = self.choice((self.choice((1, 3, 4)), 32, 64, self.number(5, 40), self.number(40, 200), self.number(200, 600)))
        lines = self.rng.random() < LINES
        made = [self.model.input("x", (1, channels, 1 if lines else self.number(1, 30), self.number(1, 200 if lines else 30)), self.quant())]
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

    def compare(self, seeds, written=None):
        """How many nets were equal, refused and unwritten, and words about those that differ. `written`: ends with as many."""
        counts, found = collections.Counter(), []
        for seed in seeds:
            if written is not None and counts.total() - counts["unwritten"] == written:
                break
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
        first, equal = chosen_seed() + 1000 * REST, 0
        for chip in (*CHIPS, *LITE_CHIPS):
            both = Both(chip)
            counts, found = both.compare(itertools.count(first), EACH)
            both.stop()
            print(chip, dict(counts))
            self.assertEqual(found, [])
            equal += counts["equal"]
        self.assertGreater(equal, EACH * len((*CHIPS, *LITE_CHIPS)) / 2)


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
