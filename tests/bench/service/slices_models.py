#!/usr/bin/python3
"""slices_models.py FOLDER: chains of equal layers, 4 (slices_short.rknn) and 200 (slices_long.rknn)."""
import pathlib
import sys

import numpy as np

from rknnwriter import Model, Quant, ops


def chain(layers):
    rng, m, q = np.random.default_rng(3), Model("rk3588", "chain"), Quant.of_range(-4, 4)
    x = m.input("numbers", (1, 32, 16, 16), q)
    weight = rng.normal(size=(32, 32, 3, 3)) * 0.1
    for _ in range(layers):
        x = ops.conv(m, x, weight, rng.normal(size=32), pad=1, act="relu", out=q)
    m.output(x, "out")
    return m


def main():
    folder = pathlib.Path(sys.argv[1])
    chain(4).save(folder / "slices_short.rknn")
    chain(200).save(folder / "slices_long.rknn")


main()
