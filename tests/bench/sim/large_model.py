#!/usr/bin/python3
"""A model of int8 convolutions, for bench_sim --load."""
import argparse

import numpy as np

from rknnwriter import ops
from rknnwriter.model import Model, Quant

CHANNELS, KERNEL = 512, 3
LAYER_MB = CHANNELS * CHANNELS * KERNEL * KERNEL / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("megabytes", nargs="?", type=float, default=100)
    args = parser.parse_args()
    rng, m = np.random.default_rng(1), Model("rk3588", "large")
    q = Quant.of_range(-4, 4)
    x = m.input("image", (1, 3, 14, 14), Quant.of_range(-1, 1))
    x = ops.conv(m, x, rng.normal(size=(CHANNELS, 3, 1, 1)), rng.normal(size=CHANNELS), out=q)
    weight = rng.normal(size=(CHANNELS, CHANNELS, KERNEL, KERNEL)) * 0.02
    for _ in range(round(args.megabytes / LAYER_MB)):
        x = ops.conv(m, x, weight, rng.normal(size=CHANNELS), pad=1, act="relu", out=q)
    m.output(x, "out")
    m.save(args.file)


main()
