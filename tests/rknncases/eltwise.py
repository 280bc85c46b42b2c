"""int8 element-wise operators, activations on their own, pools, softmax, reductions."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.chips import CHIPS
from . import EXACT, case

A, B, OUT = Quant.of_range(-2, 3), Quant.of_range(-5, 1), Quant.of_range(-6, 6)
SHAPE = (1, 20, 6, 7)


def two(function, out=OUT, shapes=(SHAPE, SHAPE), quants=(A, B), chip="rk3588", **how):
    m = Model(chip)
    a, b = (m.input(n, s, q) for n, s, q in zip("ab", shapes, quants))
    m.output(function(m, a, b, out=out, **how), "y")
    return m


def one(function, *args, shape=SHAPE, quant=A, chip="rk3588", **how):
    m = Model(chip)
    m.output(function(m, m.input("x", shape, quant), *args, **how), "y")
    return m


def _two(name, function, **options):
    case("eltwise", name)(lambda: two(function, **options))


def _one(group, name, function, *args, **options):
    case(group, name)(lambda: one(function, *args, **options))


for _chip in CHIPS:
    _two(f"add_{_chip}", ops.add, chip=_chip)
    _two(f"mul_{_chip}", ops.mul, chip=_chip, out=Quant.of_range(-16, 11))
_two("add_relu", ops.add, act="relu", out=Quant.of_range(0, 4))
_two("sub", ops.sub)
_two("add_channel", ops.add, shapes=(SHAPE, (1, 20, 1, 1)))
_two("mul_channel", ops.mul, shapes=(SHAPE, (1, 20, 1, 1)), out=Quant.of_range(-16, 11))
_two("mul_pixel", ops.mul, shapes=(SHAPE, (1, 1, 6, 7)), out=Quant.of_range(-16, 11))
_two("sub_other_way", ops.sub, shapes=((1, 20, 1, 1), SHAPE))
_two("add_row", ops.add, shapes=(SHAPE, (1, 20, 1, 7)))
_two("batch", ops.add, shapes=((2, 20, 6, 7), (2, 20, 6, 7)))
_two("batch_channel", ops.mul, shapes=((3, 20, 6, 7), (1, 20, 1, 1)), out=Quant.of_range(-16, 11))
_two("channel_left", ops.mul, shapes=((1, 20, 1, 1), SHAPE), out=Quant.of_range(-16, 11))
_two("row_left", ops.sub, shapes=((1, 20, 1, 7), SHAPE))
_two("both_sides", ops.add, shapes=((1, 20, 1, 7), (1, 1, 6, 1)))
_two("column", ops.add, shapes=(SHAPE, (1, 20, 6, 1)))
_two("scalar", ops.mul, shapes=(SHAPE, (1, 1, 1, 1)), out=Quant.of_range(-16, 11))
_two("three_dims", ops.mul, shapes=((1, 9, 24), (1, 1, 24)), out=Quant.of_range(-16, 11))
# A step of the sum is up to two of the quotient.
case("eltwise", "div", "2")(lambda: two(
    lambda m, a, b, out: ops.div(m, a, ops.add(m, b, [6.0], out=Quant.of_range(0, 8)), out=out),
    out=Quant.of_range(-3, 3)))
_MATRICES = ((2, 12, 1, 5), (2, 12, 1, 9))
for _chip in CHIPS:
    _two(f"matmul_{_chip}", ops.matmul, shapes=_MATRICES, out=Quant.of_range(-40, 40), chip=_chip)
_two("matmul_scale", ops.matmul, shapes=_MATRICES, out=Quant.of_range(-12, 12), scale=[0.25])
_two("matmul_addend", ops.matmul, shapes=_MATRICES, out=Quant.of_range(-40, 40),
     addend=np.linspace(-5, 5, 9).reshape(1, 1, 1, 9))
_two("maximum", ops.maximum)
_two("minimum", ops.minimum)
for _chip in CHIPS:
    _two(f"sub_{_chip}", ops.sub, chip=_chip)
    _two(f"mul_channel_{_chip}", ops.mul, chip=_chip, shapes=(SHAPE, (1, 20, 1, 1)),
         out=Quant.of_range(-16, 11))
for _act, _range in (("relu", (0, 4)), ("sigmoid", (0, 1)), ("swish", (-0.3, 4)),
                     ("hard_swish", (-0.4, 4)), ("tanh", (-1, 1)), ("gelu", (-0.2, 4))):
    _two(f"add_{_act}_fused", ops.add, act=_act, out=Quant.of_range(*_range))
    _two(f"mul_{_act}_fused", ops.mul, act=_act, out=Quant.of_range(*_range))

# Half of these sums lie between two output steps: the even stored value is taken.
for _zp in (4, 7, -9):
    case("eltwise", f"ties_{_zp}", EXACT)(lambda zp=_zp: two(
        ops.add, quants=(Quant(1, 3), Quant(1, -6)), out=Quant(2, zp)))
    case("eltwise", f"average_ties_{_zp}", EXACT)(lambda zp=_zp: one(
        ops.average_pool, 2, quant=Quant(1, zp), out=Quant(1, zp)))

_CONSTANT = np.random.default_rng(1).normal(size=(1, 20, 1, 1))
_one("eltwise", "add_constant", lambda m, x: ops.add(m, x, _CONSTANT, out=OUT))
_one("eltwise", "mul_constant", lambda m, x: ops.mul(m, x, _CONSTANT, out=OUT))
_one("eltwise", "mul_constant_scale_left_over", lambda m, x: ops.mul(m, x, m.constant(
    "c", _CONSTANT, "float32", Quant(0.25)), out=OUT))
_one("eltwise", "mul_int32_constant", lambda m, x: ops.mul(m, x, m.constant(
    "c", [[[[3]], [[-2]]] * 10], "int32", Quant(0.25)), out=OUT))
_one("eltwise", "div_constant", lambda m, x: ops.div(m, x, 1 + abs(_CONSTANT), out=OUT))
_one("eltwise", "constant_minus", lambda m, x: ops.sub(m, _CONSTANT, x, out=OUT))
_one("eltwise", "square", lambda m, x: ops.pow(m, x, [2.0], out=Quant.of_range(0, 9)))
_one("eltwise", "native_constant", lambda m, x: ops.add(
    m, x, m.native_constant("c", _CONSTANT, Quant.of_range(-3, 3)), out=OUT))

for _act, _range in (("swish", (-0.3, 3)), ("hard_swish", (-0.4, 3)), ("gelu", (-0.2, 3)),
                     ("mish", (-0.4, 3)), ("elu", (-1, 3)), ("softplus", (0, 3.1)),
                     ("swoosh_l", (-0.2, 0.3)), ("swoosh_r", (-0.3, 2))):
    _one("activations", _act, ops.activation, _act, out=Quant.of_range(*_range))
_one("activations", "relu", ops.relu)
_one("activations", "sigmoid", ops.sigmoid, out=Quant(1 / 256, -128))
_one("activations", "tanh", ops.tanh, out=Quant(1 / 128, 0))
_one("activations", "leaky_relu", ops.leaky_relu, 0.1, out=Quant.of_range(-0.2, 3))
_one("activations", "prelu", ops.prelu, np.linspace(-0.5, 0.5, 20), out=Quant.of_range(-1, 3))
_one("activations", "clip", ops.clip, -1.0, 2.0, out=Quant.of_range(-1, 2))
_one("activations", "batch_norm", ops.batch_norm, np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20),
     np.linspace(-0.2, 0.2, 20), np.linspace(0.5, 2, 20), out=Quant.of_range(-5, 7))
for _chip in CHIPS:
    for _act in (None, "relu"):
        _one("activations", f"batch_norm_int8_{_chip}_{_act or 'plain'}", ops.batch_norm_int8,
             np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20), act=_act, chip=_chip,
             out=Quant.of_range(0 if _act else -5, 7))
_one("activations", "batch_norm_relu", ops.batch_norm, np.linspace(0.5, 2, 20),
     np.linspace(-1, 1, 20), np.linspace(-0.2, 0.2, 20), np.linspace(0.5, 2, 20), act="relu",
     out=Quant.of_range(0, 7))

for _chip in CHIPS:
    _one("pool", f"max_{_chip}", ops.max_pool, 2, chip=_chip)
    _one("pool", f"average_{_chip}", ops.average_pool, 2, chip=_chip)
    _one("pool", f"average_ceil_{_chip}", ops.average_pool, 3, stride=2, pad=1, ceil=True,
         chip=_chip, shape=(2, 20, 7, 9))
_one("pool", "average_ceil_members", ops.average_pool, 3, stride=2, pad=1, ceil=True,
     count_pad=False, shape=(1, 20, 7, 9))
_one("pool", "average_pads_differ", ops.average_pool, (3, 2), stride=(1, 2), pad=(1, 0, 0, 1))
_one("pool", "average_many_taps", ops.average_pool, 17, shape=(1, 8, 20, 18))
_one("pool", "average_most_in_16_bits", ops.average_pool, 16, pad=3, shape=(1, 8, 20, 18))
_one("pool", "average_batch", ops.average_pool, 2, shape=(3, 8, 6, 6))
_one("pool", "global_batch", ops.global_average_pool, shape=(3, 8, 6, 6))
for _k in (1, 4, 5, 9, 13):
    _one("pool", f"max_kernel_{_k}", ops.max_pool, _k, stride=1, pad=_k // 2, shape=(1, 8, 20, 13))
_one("pool", "max_dilation", ops.max_pool, 3, stride=1, dilation=2, pad=2)
_one("pool", "max_dilations_differ", ops.max_pool, (3, 2), stride=(2, 1), dilation=(1, 3))
_one("pool", "max_pad", ops.max_pool, 3, stride=2, pad=1)
_one("pool", "max_pads_differ", ops.max_pool, (3, 2), stride=(1, 2), pad=(1, 0, 0, 1))
_one("pool", "max_ceil", ops.max_pool, 2, stride=2, ceil=True, shape=(1, 20, 7, 9))
_one("pool", "max_ceil_last_window_in_pad", ops.max_pool, 2, stride=3, pad=1, ceil=True,
     shape=(1, 8, 6, 7))
_one("pool", "average_counts_pad", ops.average_pool, 3, stride=2, pad=1)
_one("pool", "average_without_pad", ops.average_pool, 3, stride=2, pad=1, count_pad=False)
_one("pool", "average_ceil", ops.average_pool, 2, stride=2, ceil=True, shape=(1, 20, 7, 9))
_one("pool", "average_other_scale", ops.average_pool, 2, out=Quant.of_range(-1, 2))
_one("pool", "global", ops.global_average_pool)
_one("pool", "max_11", ops.max_pool, 11, stride=1, pad=5, shape=(1, 8, 12, 12))
_one("pool", "batch", ops.max_pool, 2, shape=(3, 8, 6, 6))

for _chip in CHIPS:
    _one("activations", f"glu_{_chip}", ops.glu, out=A, chip=_chip)
_one("activations", "glu_wide", ops.glu, out=A, shape=(2, 2100, 1, 3))
_one("activations", "glu_rows", ops.glu, axis=2, out=A, shape=(3, 5, 8), cpu=True)
_one("activations", "gelu_by_tanh", ops.gelu, approximate="tanh", out=Quant.of_range(-0.2, 3))

_PROBABILITY = Quant(1 / 256, -128)
_one("reduce", "softmax_channels", ops.softmax, out=_PROBABILITY)
_one("reduce", "softmax_rows", ops.softmax, axis=3, out=_PROBABILITY)
_one("reduce", "softmax_2d", ops.softmax, shape=(1, 10), out=_PROBABILITY)
_one("reduce", "softmax_cpu", ops.softmax, cpu=True, out=_PROBABILITY)
_one("reduce", "mean_pixels", ops.reduce_mean, (2, 3), out=Quant.of_range(-1, 2))
_one("reduce", "mean_channels", ops.reduce_mean, (1,), out=Quant.of_range(-1, 2))
_one("reduce", "mean_all", ops.reduce_mean, (1, 2, 3), out=Quant.of_range(-1, 2))
_one("reduce", "mean_without_keepdims", ops.reduce_mean, (2, 3), keep=False,
     out=Quant.of_range(-1, 2))
_one("reduce", "mean_batch", ops.reduce_mean, (2, 3), shape=(3, 8, 6, 6),
     out=Quant.of_range(-1, 2))
for _op, _range in (("Max", (-2, 3)), ("Min", (-2, 3)), ("Sum", (-15, 20)), ("L1", (0, 25)),
                    ("L2", (0, 8)), ("SumSquare", (0, 60)), ("Prod", (-50, 50))):
    _one("reduce", f"{_op.lower()}", lambda m, x, op="Reduce" + _op, r=_range: ops.reduce(
        m, op, x, (2,), out=Quant.of_range(*r)))
_one("reduce", "max_without_keepdims", lambda m, x: ops.reduce(m, "ReduceMax", x, (1,), keep=False,
                                                               out=A))
_one("reduce", "softmax11", ops.softmax11, out=_PROBABILITY)
_one("reduce", "softmax11_pixels", ops.softmax11, cpu=False, out=_PROBABILITY)
_one("reduce", "softmax11_last", ops.softmax11, axis=-1, shape=(3, 12), out=_PROBABILITY)
_one("reduce", "log_softmax", ops.log_softmax, shape=(3, 12), out=Quant.of_range(-8, 0))
_one("reduce", "hardmax", ops.hardmax, out=Quant(1, 0))
_one("reduce", "hardmax_rows", ops.hardmax, axis=3, out=Quant(1, -5))
_one("reduce", "instance_norm", ops.instance_norm, np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20),
     out=Quant.of_range(-5, 5))
_one("reduce", "argmin", ops.argmin)
_one("reduce", "argmin_rows", ops.argmin, axis=3)
_one("reduce", "argmax", ops.argmax)
_one("reduce", "argmax_rows", ops.argmax, axis=2)
for _op in ("ArgMax", "ArgMin"):
    for _last in (False, True):
        _one("reduce", f"{_op}_last_{_last}", ops.argmax, op=_op, axis=3, last=_last, shape=(1, 2, 3, 900))
