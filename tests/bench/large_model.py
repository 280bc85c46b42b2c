#!/usr/bin/python3
"""large_model.py FILE [MB]: a model of int8 convolutions that is about 100 MB, for bench_sim --load."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from rknnwriter import ops  # noqa: E402
from rknnwriter.model import Model, Quant  # noqa: E402

CHANNELS, KERNEL = 512, 3
LAYER_MB = CHANNELS * CHANNELS * KERNEL * KERNEL / 1e6


def main():
    megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 100
    rng, m = np.random.default_rng(1), Model("rk3588", "large")
    q = Quant.of_range(-4, 4)
    x = m.input("image", (1, 3, 14, 14), Quant.of_range(-1, 1))
    x = ops.conv(m, x, rng.normal(size=(CHANNELS, 3, 1, 1)), rng.normal(size=CHANNELS), out=q)
    weight = rng.normal(size=(CHANNELS, CHANNELS, KERNEL, KERNEL)) * 0.02
    for _ in range(round(megabytes / LAYER_MB)):
        x = ops.conv(m, x, weight, rng.normal(size=CHANNELS), pad=1, act="relu", out=q)
    m.output(x, "out")
    m.save(sys.argv[1])


main()
