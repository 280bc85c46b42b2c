"""Small named models: seeds for fuzzing, files for tests. Each is a function of the chip."""

import numpy as np

from . import ops
from .model import Model, Quant


def _random(seed=1):
    return np.random.default_rng(seed)


def conv(chip="rk3588", container=None):
    """One int8 convolution of a picture."""
    rng, m = _random(), Model(chip, "conv", container)
    x = m.input("image", (1, 3, 8, 8), Quant.of_range(0, 255))
    y = ops.conv(m, x, rng.normal(size=(8, 3, 3, 3)), rng.normal(size=8), pad=1,
                 out=Quant.of_range(-1500, 1500))
    m.output(y, "out")
    return m


def conv2(chip="rk3588"):
    """… in container 2."""
    return conv(chip, 2)


def lite(chip="rv1106"):
    """… in container 0x1004."""
    return conv(chip)


def residual(chip="rk3588"):
    """Fused Add and Relu, depthwise, pool, nodes of the CPU: most of what int8 files hold."""
    rng, m = _random(2), Model(chip, "residual")
    q = Quant.of_range(-4, 4)
    x = m.input("image", (1, 3, 12, 12), Quant.of_range(0, 1), mean=[0] * 3, std=[255] * 3)
    a = ops.conv(m, x, rng.normal(size=(20, 3, 3, 3)) * 0.3, rng.normal(size=20), stride=2, pad=1,
                 act="relu", out=q)
    b = ops.conv(m, a, rng.normal(size=(20, 1, 3, 3)) * 0.3, rng.normal(size=20), pad=1, group=20,
                 out=q)
    c = ops.conv(m, b, rng.normal(size=(20, 20, 1, 1)) * 0.3, rng.normal(size=20), addend=a,
                 act="relu", out=q)
    d = ops.conv(m, ops.max_pool(m, c, 2), rng.normal(size=(10, 20, 3, 3)) * 0.1,
                 rng.normal(size=10), out=q)
    e = ops.softmax(m, d, out=Quant(1 / 256, -128), cpu=True)
    m.output(ops.reshape(m, e, (1, 10), cpu=True), "scores")
    return m


def float16(chip="rk3588"):
    """A float16 network: a depthwise convolution and an Add."""
    rng, m = _random(3), Model(chip, "float16")
    x = m.input("sound", (1, 1, 10, 12))
    a = ops.conv(m, x, rng.normal(size=(24, 1, 3, 3)), rng.normal(size=24), pad=1, act="relu")
    b = ops.conv(m, a, rng.normal(size=(24, 1, 3, 1)), rng.normal(size=24), pad=(1, 0), group=24,
                 act="relu")
    m.output(ops.add(m, a, b, act="relu"), "out")
    return m


EXAMPLES = {
    "conv": conv, "conv2": conv2, "float16": float16, "lite": lite, "residual": residual,
}
