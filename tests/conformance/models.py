#!/usr/bin/python3
"""models.py OUT writes the models that the conformance programs use, with inputs and expected outputs
(as rknnwriter.cases does). A program's model is a function of its name here."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402

from rknnwriter import Model, Quant, cases, examples, ops  # noqa: E402


def two_inputs(chip="rk3588"):
    """Two pictures of different sizes, two outputs of different types' worth of channels."""
    rng, m = np.random.default_rng(5), Model(chip, "two_inputs")
    q = Quant.of_range(-8, 8)
    a = m.input("first", (1, 3, 8, 8), Quant.of_range(0, 1), mean=[0] * 3, std=[255] * 3)
    b = m.input("second", (1, 3, 4, 4), Quant.of_range(-2, 2))
    x = ops.conv(m, a, rng.normal(size=(16, 3, 3, 3)) * 0.3, rng.normal(size=16), stride=2, pad=1,
                 out=q)
    y = ops.conv(m, b, rng.normal(size=(16, 3, 1, 1)), rng.normal(size=16), out=q)
    m.output(ops.add(m, x, y, out=q), "sum")
    m.output(ops.conv(m, y, rng.normal(size=(10, 16, 1, 1)), rng.normal(size=10), out=q), "scores")
    return m


MODELS = {
    "conv": examples.conv,
    "residual": examples.residual,
    "float16": examples.float16,
    "two_inputs": two_inputs,
}


def main(out):
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        cases.write(folder, name, make(), cases.STEP)


if __name__ == "__main__":
    main(*sys.argv[1:])
