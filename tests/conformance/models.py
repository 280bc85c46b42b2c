#!/usr/bin/python3
"""models.py OUT writes the models that the conformance programs use, with inputs and expected outputs
(as rknnwriter.cases does). A program's model is a function of its name here."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402

from rknnwriter import Model, Quant, cases, examples, ops, reference  # noqa: E402


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


@reference.reference("cstDualResidual")
def _dual_residual(node, a, b):
    alpha = node.attrs["alpha"]
    return a + alpha * b, b - alpha * a


@reference.reference("cstShift")
def _shift(_, numbers, by):
    return numbers + by


# Every type of attribute that a program can ask for.
ATTRIBUTES = {"alpha": 0.5, "axis": -1, "large": -(1 << 40), "counts": [3, -4, 1 << 33],
              "weights": [0.25, -2.0], "mode": "mirror", "names": ["a", "bcd"], "truth": True,
              "truths": [False, True, True]}


def custom(chip="rk3588", quantized=False):
    """Two convolutions, a custom operator of two inputs and outputs, one output through an Add."""
    rng, m = np.random.default_rng(7), Model(chip, "custom_int8" if quantized else "custom")
    q = [Quant.of_range(-5 - i, 4 + i) if quantized else None for i in range(4)]
    x = m.input("x", (1, 3, 6, 5), Quant.of_range(-1, 1) if quantized else None)
    a = ops.conv(m, x, rng.normal(size=(20, 3, 1, 1)), rng.normal(size=20), out=q[0])
    b = ops.conv(m, x, rng.normal(size=(20, 3, 1, 1)), rng.normal(size=20), out=q[1])
    y, z = ops.custom(m, "cstDualResidual", [a, b], [a.shape] * 2, ATTRIBUTES, outs=q[2:],
                      name="residual")
    m.output(ops.add(m, y, a, out=q[2]), "sum")
    m.output(z, "rest")
    return m


def custom_int64(chip="rk3588"):
    """ArgMax, a custom operator on its int64 numbers and a constant, two such nodes."""
    rng, m = np.random.default_rng(8), Model(chip, "custom_int64")
    x = m.input("x", (1, 3, 6, 5))
    a = ops.argmax(m, ops.conv(m, x, rng.normal(size=(9, 3, 1, 1)), rng.normal(size=9)))
    by = m.constant("by", rng.integers(-(1 << 50), 1 << 50, a.shape), "int64")
    once = ops.custom(m, "cstShift", [a, by], [a.shape], {}, name="first")[0]
    m.output(ops.custom(m, "cstShift", [once, by], [a.shape], {}, name="second")[0], "shifted")
    return m


MODELS = {
    "conv": examples.conv,
    "residual": examples.residual,
    "float16": examples.float16,
    "two_inputs": two_inputs,
    "custom": custom,
    "custom_int8": lambda: custom(quantized=True),
    "custom_int64": custom_int64,
}


def main(out):
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        cases.write(folder, name, make(), cases.STEP)


if __name__ == "__main__":
    main(*sys.argv[1:])
