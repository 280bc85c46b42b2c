"""float16 networks, and those that mix both types."""

import numpy as np

from .. import Model, Quant, ops
from ..chips import CHIPS
from . import HALF, case
from .eltwise import A

SHAPE = (1, 20, 6, 7)


def _conv(chip, i, o, kernel=3, size=(8, 9), group=1, **how):
    rng = np.random.default_rng(i * 10 + o)
    m = Model(chip)
    kernel = (kernel, kernel) if np.isscalar(kernel) else kernel
    weight = rng.normal(size=(o, i // group, *kernel)) / np.sqrt(i // group * np.prod(kernel))
    bias = None if how.pop("plain", False) else rng.normal(size=o)
    m.output(ops.conv(m, m.input("x", (1, i, *size)), weight, bias, group=group, **how), "y")
    return m


def _add(name, **options):
    case("float16_conv", name, HALF)(lambda: _conv(**options))


for _chip in CHIPS:
    for _i, _o in ((1, 24), (3, 5), (16, 16), (40, 40), (100, 33)):
        _add(f"{_chip}_{_i}_{_o}", chip=_chip, i=_i, o=_o, pad=1)
    for _c in (16, 24, 40, 72):
        _add(f"{_chip}_depthwise_{_c}", chip=_chip, i=_c, o=_c, group=_c, pad=1)
    _add(f"{_chip}_no_bias", chip=_chip, i=20, o=24, plain=True)
for _act in ("relu", "sigmoid", "swish", "hard_swish"):
    _add(_act, chip="rk3588", i=20, o=24, pad=1, act=_act)
_add("stride_dilation", chip="rk3588", i=20, o=24, pad=2, dilation=2, stride=(2, 1))
_add("kernel_11", chip="rk3588", i=4, o=6, kernel=11, pad=5, size=(12, 12))


def one(function, *args, shape=SHAPE, chip="rk3588", **how):
    m = Model(chip)
    m.output(function(m, m.input("x", shape), *args, **how), "y")
    return m


def _one(name, function, *args, **options):
    case("float16", name, HALF)(lambda: one(function, *args, **options))


def two(function, shapes, **how):
    m = Model("rk3588")
    m.output(function(m, *(m.input(f"x{i}", s) for i, s in enumerate(shapes)), **how), "y")
    return m


def _two(name, function, *shapes, **options):
    case("float16", name, HALF)(lambda: two(function, shapes or (SHAPE, SHAPE), **options))


_two("add", ops.add)
_two("add_relu", ops.add, act="relu")
_two("sub", ops.sub)
_two("mul", ops.mul)
_two("mul_channel", ops.mul, SHAPE, (1, 20, 1, 1))
_two("add_row", ops.add, SHAPE, (1, 20, 1, 7))
_two("conv_add", lambda m, x, y: ops.conv(m, x, np.eye(20)[:, :, None, None], np.ones(20),
                                          addend=y))
_two("conv_add_relu", lambda m, x, y: ops.conv(m, x, np.eye(20)[:, :, None, None], np.ones(20),
                                               addend=y, act="relu"))
_two("matmul", ops.matmul, (1, 12, 1, 5), (1, 12, 1, 9))
_two("matmul_scale", lambda m, a, b: ops.matmul(m, a, b, scale=[0.25]), (1, 12, 1, 5),
     (1, 12, 1, 9))
_two("concat", lambda m, a, b: ops.concat(m, [a, b]), (1, 20, 6, 7), (1, 5, 6, 7))
_one("max_pool", ops.max_pool, 3, stride=2, pad=1)
_one("average_pool", ops.average_pool, 3, stride=2, pad=1)
_one("global", ops.global_average_pool)
_one("softmax", ops.softmax)
_one("reduce_mean", ops.reduce_mean, (2,))
_one("transpose", ops.transpose, (0, 2, 1, 3))
_one("transpose_1203", ops.transpose, (1, 2, 0, 3), shape=(1, 1, 16, 9))
_one("reshape", ops.reshape, (1, 5, 24, 7))
_one("resize", ops.resize, (9, 11))
_one("pad", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1])
_one("sigmoid", ops.sigmoid)
_one("tanh", ops.tanh)
_one("leaky_relu", ops.leaky_relu, 0.2)
_one("batch_norm", ops.batch_norm, np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20),
     np.linspace(-0.2, 0.2, 20), np.linspace(0.5, 2, 20))
_one("deconv", lambda m, x: ops.conv_transpose(
    m, x, np.random.default_rng(2).normal(size=(20, 9, 4, 4)) * 0.1, stride=2, pad=1))
_one("deconv_3x2", lambda m, x: ops.conv_transpose(
    m, x, np.random.default_rng(2).normal(size=(20, 9, 3, 2)) * 0.1, stride=(3, 1), pad=(1, 0)))
_one("deconv_square", lambda m, x: ops.conv_transpose(
    m, x, np.random.default_rng(2).normal(size=(20, 20, 2, 2)) * 0.1, stride=2))


@case("mixed", "there_and_back")
def _there_and_back():
    """int8, to float16 for one layer, and back."""
    m = Model("rk3568")
    x = m.input("x", SHAPE, A)
    y = ops.sigmoid(m, ops.convert(m, x))
    m.output(ops.convert(m, y, out=Quant(1 / 256, -128)), "y")
    return m


@case("mixed", "float_output", HALF)
def _float_output():
    m = Model("rk3588")
    x = m.input("x", SHAPE, A)
    m.output(ops.convert(m, x), "y")
    return m
