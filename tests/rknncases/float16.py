"""float16 networks, and those that mix both types."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.chips import CHIPS
from . import HALF, case
from .eltwise import A

SHAPE = (1, 20, 6, 7)


def _conv(chip, i, o, kernel=3, size=(8, 9), group=1, batch=1, **how):
    rng = np.random.default_rng(i * 10 + o)
    m = Model(chip)
    kernel = (kernel, kernel) if np.isscalar(kernel) else kernel
    weight = rng.normal(size=(o, i // group, *kernel)) / np.sqrt(i // group * np.prod(kernel))
    bias = None if how.pop("plain", False) else rng.normal(size=o)
    m.output(ops.conv(m, m.input("x", (batch, i, *size)), weight, bias, group=group, **how), "y")
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
_two("add_channel_many", ops.add, (2, 20, 9, 70), (1, 20, 1, 1))
_two("conv_add", lambda m, x, y: ops.conv(m, x, np.eye(20)[:, :, None, None], np.ones(20),
                                          addend=y))
_two("conv_add_relu", lambda m, x, y: ops.conv(m, x, np.eye(20)[:, :, None, None], np.ones(20),
                                               addend=y, act="relu"))
for _act in ("relu", "leaky_relu", "swish", "hard_sigmoid_5"):
    _two(f"conv_{_act}_add", lambda m, x, y, act=_act: ops.conv(
        m, x, np.eye(20)[:, :, None, None], np.ones(20), addend=y, act=act, add_last=True))
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
_one("transpose_low", ops.transpose, (0, 2, 1, 3), shape=(1, 24, 5, 11))
_one("transpose_high", ops.transpose, (0, 2, 1, 3), shape=(1, 11, 23, 9))
_one("reshape", ops.reshape, (1, 5, 24, 7))
_one("reshape_rows_to_channels", ops.reshape, (1, 60, 2, 7), shape=(1, 12, 10, 7))
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
    y = ops.sigmoid(m, ops.convert(m, x, op="DataConvert"))
    m.output(ops.convert(m, y, out=Quant(1 / 256, -128)), "y")
    return m


@case("mixed", "float_output", HALF)
def _float_output():
    m = Model("rk3588")
    x = m.input("x", SHAPE, A)
    m.output(ops.convert(m, x), "y")
    return m


# ---- every chip -------------------------------------------------------------------------------

for _chip in CHIPS:
    for _act in ("relu", "sigmoid", "swish", "hard_swish", "tanh", "gelu", "mish", "softplus"):
        if (_chip, _act) != ("rk3588", "relu"):
            _add(f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act)
        case("float16_fused", f"{_chip}_depthwise_{_act}", HALF)(
            lambda chip=_chip, act=_act: _conv(chip, 20, 20, group=20, pad=1, act=act))
    _numbers = ("leaky_relu", "clip", "hard_sigmoid", "hard_sigmoid_5")
    _numbers = ("clip",) if CHIPS[_chip].family == "rk3576" else _numbers
    for _act in ("elu", "swoosh_r", *_numbers):
        _add(f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act)
        case("float16_fused", f"{_chip}_deconv_{_act}", HALF)(lambda chip=_chip, act=_act: one(
            ops.conv_transpose, np.random.default_rng(2).normal(size=(20, 9, 3, 3)) * 0.1,
            chip=chip, stride=2, pad=1, act=act))
    for _k in (1, 2, 5, 7, 11):
        case("float16_kernels", f"{_chip}_{_k}", HALF)(
            lambda chip=_chip, k=_k: _conv(chip, 20, 10, k, (12, 13), pad=k // 2, stride=2))
        case("float16_kernels", f"{_chip}_depthwise_{_k}", HALF)(
            lambda chip=_chip, k=_k: _conv(chip, 20, 20, k, (12, 13), group=20, pad=k // 2))
    case("float16_kernels", f"{_chip}_dilation", HALF)(
        lambda chip=_chip: _conv(chip, 20, 10, dilation=(2, 3), pad=(0, 1, 2, 3)))
    case("float16_kernels", f"{_chip}_group", HALF)(
        lambda chip=_chip: _conv(chip, 32, 24, group=2, pad=1))
    case("float16_kernels", f"{_chip}_batch", HALF)(
        lambda chip=_chip: _conv(chip, 20, 24, batch=3, pad=1))
    for _name, _how in (("deconv", {}), ("deconv_relu", {"act": "relu"}),
                        ("deconv_odd", {"extra": (1, 1)})):
        case("float16_fused", f"{_chip}_{_name}", HALF)(lambda chip=_chip, how=_how: one(
            ops.conv_transpose, np.random.default_rng(2).normal(size=(20, 9, 3, 3)) * 0.1,
            chip=chip, stride=2, pad=1, **how))

for _act in ("sigmoid", "swish", "hard_swish", "tanh", "gelu"):
    _two(f"add_{_act}", ops.add, act=_act)
    _two(f"mul_{_act}", ops.mul, act=_act)
for _act in ("swish", "hard_swish", "gelu", "mish", "elu", "softplus", "swoosh_l", "swoosh_r"):
    _one(f"alone_{_act}", ops.activation, _act)
_one("prelu", ops.prelu, np.linspace(-0.5, 0.5, 20))
_one("clip", ops.clip, -0.5, 1.0)
_one("square", lambda m, x: ops.pow(m, x, [2.0]))
_one("div_channel", lambda m, x: ops.div(m, x, 1 + np.arange(20.0).reshape(1, 20, 1, 1)))
_one("div_into", lambda m, x: ops.div(m, [1.0], ops.add(m, x, [3.0])))
_one("minus_from", lambda m, x: ops.sub(m, [1.0], x))
_one("max_scalar", lambda m, x: ops.maximum(m, x, [0.25]))
_one("min_scalar", lambda m, x: ops.minimum(m, x, [0.25]))
_two("maximum", ops.maximum)
_two("mul_row_left", ops.mul, (1, 20, 1, 7), SHAPE)
_two("add_both_sides", ops.add, (1, 20, 1, 7), (1, 1, 6, 1))
_two("batch", ops.add, (3, 20, 6, 7), (3, 20, 6, 7))
_two("batch_channel", ops.mul, (3, 20, 6, 7), (1, 20, 1, 1))
_one("softmax11", ops.softmax11)
_one("log_softmax", ops.log_softmax, shape=(1, 30))
_one("hardmax", ops.hardmax)
_one("instance_norm", ops.instance_norm, np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20))
_one("instance_norm_3d", ops.instance_norm, [0.5, 1, 2], [0, 1, -1], shape=(2, 3, 50), epsilon=1e-3)
_one("depth_to_space", ops.depth_to_space, 2)
_one("space_to_depth", ops.space_to_depth, 2, shape=(1, 3, 6, 8))
_two("mat_mul", ops.mat_mul, (2, 3, 4, 5), (5, 6))
_two("mat_mul_batches", ops.mat_mul, (2, 3, 4, 5), (3, 5, 6))
_one("mat_mul_constant", ops.mat_mul, np.random.default_rng(3).normal(size=(24, 7)),
     shape=(1, 9, 24))
case("float16", "mat_mul_int8", "1")(lambda: _int8_mat_mul())


def _int8_mat_mul():
    m = Model("rk3568")
    a, b = m.input("a", (1, 3, 4, 5), A), m.input("b", (1, 3, 5, 6), A)
    m.output(ops.mat_mul(m, a, b, out=Quant.of_range(-12, 15)), "y")
    return m


_one("gelu_erf", ops.gelu)
_one("gelu_tanh", ops.gelu, approximate="tanh")
_one("glu", ops.glu)
_one("glu_2d", ops.glu, shape=(7, 30), cpu=True)
_SCALE, _BIAS = np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20)
_one("norm", ops.norm, _SCALE, _BIAS)
_one("norm_bare", ops.norm, shape=(3, 12, 1, 9))
_one("norm_scale", ops.norm, _SCALE, mode="layer", axes=[1], epsilon=1e-3)
_one("norm_bias", ops.norm, None, _BIAS)
_one("norm_rms", ops.norm, _SCALE, mode="rms")
_one("norm_images", ops.norm, _SCALE, _BIAS, axes=[1, 2, 3], shape=(3, 20, 4, 5))
_one("norm_images_rms", ops.norm, _SCALE, axes=[1, 2, 3], mode="rms")
_one("norm_variance", ops.norm, mode="mean_var", axes=[1, 2, 3])
for _third, _shape in (("full", (2, 5, 1, 9)), ("row", (1, 1, 1, 9)), ("column", (1, 5, 1, 1)),
                       ("batch", (2, 1, 1, 9)), ("one", (1,))):
    case("float16", f"matmul_add_{_third}", HALF)(lambda shape=_shape: two(
        ops.matmul, ((2, 12, 1, 5), (2, 12, 1, 9)),
        addend=np.random.default_rng(9).normal(size=shape)))
_two("matmul_times_row", lambda m, a, b: ops.matmul(m, a, b, scale=np.linspace(-1, 1, 9).reshape(
    1, 1, 1, 9)), (1, 12, 1, 5), (1, 12, 1, 9))
_one("softmax_rows", ops.softmax, axis=3)
_two("attention", ops.attention, (2, 8, 1, 5), (2, 8, 1, 9), (2, 12, 1, 9))
_one("softmax_batch", ops.softmax, shape=(3, 10, 4, 5))
_one("max_pool_ceil", ops.max_pool, 3, stride=2, ceil=True, shape=(2, 12, 8, 9))
_one("average_ceil", ops.average_pool, 3, stride=2, pad=1, ceil=True, shape=(1, 12, 7, 9))
_one("average_ceil_members", ops.average_pool, 3, stride=2, pad=1, ceil=True, count_pad=False,
     shape=(1, 12, 7, 9))
_one("mean_without_keepdims", ops.reduce_mean, (2, 3), keep=False)
for _mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
    _one(f"resize_{_mode}", ops.resize, (4, 15), coordinates=_mode)
    _one(f"resize_nearest_{_mode}", ops.resize, (9, 15), mode="nearest", coordinates=_mode)
_one("slice", ops.slice_, [2, 1], [17, 6], [1, 3])
_one("expand", ops.expand, SHAPE, shape=(1, 20, 1, 1))
_one("pad_edge", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1], mode="edge")
_one("pad_reflect", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1], mode="reflect")
for _op in ("LayerNormalization", "exLayerNorm"):
    _one(f"{_op}", ops.layer_norm, np.linspace(0.5, 2, 24), np.linspace(-1, 1, 24), op=_op,
         shape=(1, 9, 24))
_one("layer_norm_two_axes", ops.layer_norm, np.linspace(0.5, 2, 60).reshape(5, 12), axis=-2,
     shape=(3, 5, 12))
_one("layer_norm_cpu", ops.layer_norm, np.linspace(0.5, 2, 24), np.linspace(-1, 1, 24), cpu=True,
     epsilon=1e-3, shape=(2, 9, 24))


@case("mixed", "around_a_float_layer")
def _around_a_float_layer():
    """int8 convolutions around a softmax in half precision."""
    rng = np.random.default_rng(8)
    m = Model("rk3588")
    a = ops.conv(m, m.input("x", SHAPE, A), rng.normal(size=(24, 20, 1, 1)) * 0.2, np.zeros(24),
                 out=Quant.of_range(-4, 4))
    b = ops.softmax(m, ops.convert(m, a))
    c = ops.convert(m, b, out=Quant(1 / 256, -128))
    m.output(ops.conv(m, c, rng.normal(size=(8, 24, 1, 1)), np.zeros(8), out=Quant.of_range(-1, 1)),
             "y")
    return m
