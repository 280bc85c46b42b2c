"""int8 convolutions: chips, packings, forms of the bias table, shapes, fused forms."""

import numpy as np

from rknnwriter import Model, Quant, lut, ops
from rknnwriter.chips import CHIPS, LITE_CHIPS
from rknnwriter.container import attribute_table
from . import EXACT, STEP, case

IN = Quant.of_range(-2, 3)
PICTURE = Quant.of_range(0, 1)


def single(chip, i, o, kernel=3, size=(8, 9), batch=1, picture=False, container=None, group=1,
           **how):
    """A model of one convolution, its output range fitted to what comes out."""
    rng = np.random.default_rng(i * 100 + o)
    kernel = (kernel, kernel) if np.isscalar(kernel) else kernel
    m = Model(chip, container=container)
    if picture:
        x = m.input("x", (batch, i, *size), PICTURE, mean=[0] * i, std=[255] * i)
    else:
        x = m.input("x", (batch, i, *size), IN)
    weight = rng.normal(size=(o, i // group, *kernel)) / np.sqrt(i // group * np.prod(kernel))
    how.setdefault("out", Quant.of_range(-4, 5))
    y = ops.conv(m, x, weight, rng.normal(size=o), group=group, **how)
    m.output(y, "y")
    return m


def bare(chip):
    """No bias table: its two inputs are an image with zero point 0 and weights of one scale."""
    m = Model(chip)
    x = m.input("x", (1, 20, 8, 9), Quant(1 / 64, 0))
    weight = np.random.default_rng(6).normal(size=(12, 20, 3, 3)) * 0.1
    m.output(ops.conv(m, x, weight, None, pad=1, form="plain", symmetric=True, bare=True,
                      out=Quant.of_range(-4, 5)), "y")
    return m


def transposed(chip, i, o, kernel=4, size=(5, 6), batch=1, stride=2, pad=1, group=1, **how):
    rng = np.random.default_rng(i * 100 + o)
    kernel = (kernel, kernel) if np.isscalar(kernel) else kernel
    m = Model(chip)
    x = m.input("x", (batch, i, *size), IN)
    weight = rng.normal(size=(i, o // group, *kernel)) / np.sqrt(i // group * np.prod(kernel) / 4)
    how.setdefault("out", Quant.of_range(-4, 5))
    m.output(ops.conv_transpose(m, x, weight, stride=stride, pad=pad, group=group, **how), "y")
    return m


def _add(family, name, **options):
    # Sums are scaled without a rounding that counts; addends and tables may meet ties.
    error = STEP if family in ("fused", "lookup", "lite_lookup", "deconv_fused") else EXACT
    build = transposed if "deconv" in family else single
    case(family, name, error)(lambda: build(**options))


for _chip in CHIPS:
    for _i, _o in ((16, 16), (5, 7), (33, 31), (48, 41), (100, 70), (2, 1)):
        _add("conv", f"{_chip}_{_i}_{_o}", chip=_chip, i=_i, o=_o, pad=1)
    for _i in (1, 3, 4):
        for _o in (8, 20, 40):
            _add("conv", f"{_chip}_picture_{_i}_{_o}", chip=_chip, i=_i, o=_o, picture=True,
                 stride=2, pad=1)
    for _c in (16, 20, 32, 72, 140):
        _add("depthwise", f"{_chip}_{_c}", chip=_chip, i=_c, o=_c, group=_c, pad=1)
    _add("depthwise", f"{_chip}_stride", chip=_chip, i=40, o=40, group=40, pad=1, stride=2)
    _add("depthwise", f"{_chip}_relu", chip=_chip, i=40, o=40, group=40, kernel=5, pad=2,
         act="relu")
    if _chip != "rk3562":
        case("forms", f"{_chip}_bare", EXACT)(lambda chip=_chip: bare(chip))
        _add("forms", f"{_chip}_plain", chip=_chip, i=20, o=40, form="plain")
        _add("forms", f"{_chip}_plain_symmetric", chip=_chip, i=20, o=40, form="plain",
             symmetric=True)
    _add("forms", f"{_chip}_symmetric", chip=_chip, i=20, o=40, symmetric=True)
    _add("forms", f"{_chip}_tasks", chip=_chip, i=20, o=40, tasks=3)
    for _container in (1, 2):
        _add("forms", f"{_chip}_container{_container}", chip=_chip, i=20, o=40, pad=1, container=_container)
        _add("lookup", f"{_chip}_table_container{_container}", chip=_chip, i=20, o=40, pad=1, act="swish",
             container=_container)

for _chip in ("rk3576", "rv1126b"):
    for _k in (1, 3, 5, 7):
        _add("forms", f"{_chip}_rows_{_k}", chip=_chip, i=3, o=24, kernel=_k, picture=True,
             pad=_k // 2, packed_first=True)
    _add("forms", f"{_chip}_rows_64", chip=_chip, i=3, o=64, picture=True, packed_first=True)
    _add("forms", f"{_chip}_rows_gray", chip=_chip, i=1, o=32, picture=True, packed_first=True)

for _chip in ("rk3576", "rv1126b"):
    for _shift in (1, 2):
        _add("forms", f"{_chip}_sums_shifted_{_shift}", chip=_chip, i=20, o=24, pad=1,
             sum_shift=_shift)
for _chip in ("rk3562", "rk3576", "rv1126b"):
    _add("forms", f"{_chip}_gain", chip=_chip, i=20, o=24, pad=1, gain=(3, 7))
_add("forms", "rk3562_plain", chip="rk3562", i=20, o=24, pad=1, form="plain")

for _chip in CHIPS:
    for _k in (1, 2, 4, 5, 7, 11):
        _add("kernels", f"{_chip}_{_k}", chip=_chip, i=20, o=10, kernel=_k, pad=_k // 2, stride=2,
             size=(12, 13))
        _add("kernels", f"{_chip}_depthwise_{_k}", chip=_chip, i=20, o=20, group=20, kernel=_k,
             pad=_k // 2, size=(12, 13))
    _add("kernels", f"{_chip}_dilation", chip=_chip, i=20, o=10, dilation=(2, 3), pad=(2, 3))
    _add("kernels", f"{_chip}_depthwise_dilation", chip=_chip, i=20, o=20, group=20, dilation=3,
         pad=3)
    _add("groups", f"{_chip}_2", chip=_chip, i=32, o=24, group=2, pad=1)
    _add("groups", f"{_chip}_5", chip=_chip, i=20, o=35, group=5, pad=1)
    _add("groups", f"{_chip}_plain", chip=_chip, i=32, o=24, group=4, kernel=1, symmetric=True)
    _add("lookup", f"{_chip}_groups", chip=_chip, i=32, o=32, group=2, pad=1, act="swish")
    _add("groups", f"{_chip}_leaky", chip=_chip, i=32, o=32, group=2, pad=1, act="leaky_relu")
    _add("batch", f"{_chip}_conv", chip=_chip, i=20, o=12, batch=3, pad=1)
    _add("batch", f"{_chip}_depthwise", chip=_chip, i=20, o=20, group=20, batch=3, pad=1)
    _add("batch", f"{_chip}_picture", chip=_chip, i=3, o=12, batch=2, pad=1, picture=True)
    case("batch", f"{_chip}_add")(lambda chip=_chip: _with_addend(chip, "relu", batch=2))
    _add("deconv", f"{_chip}", chip=_chip, i=20, o=12)
    for _c in (16, 40, 72):
        _add("deconv", f"{_chip}_depthwise_{_c}", chip=_chip, i=_c, o=_c, group=_c, kernel=(4, 3), pad=(1, 0))
    _add("deconv", f"{_chip}_batch", chip=_chip, i=5, o=40, batch=2, act="relu",
         out=Quant.of_range(0, 5))

for _k in range(1, 12):
    _add("shapes", f"kernel_{_k}", chip="rk3588", i=6, o=5, kernel=_k, pad=_k // 2, size=(12, 13))
_add("shapes", "kernel_1x7", chip="rk3588", i=6, o=5, kernel=(1, 7), pad=(0, 3))
_add("shapes", "kernel_5x2", chip="rk3566", i=6, o=5, kernel=(5, 2), pad=(2, 1, 2, 0))
_add("shapes", "stride_2_3", chip="rk3588", i=6, o=5, stride=(2, 3), pad=1)
_add("shapes", "stride_beyond", chip="rk3588", i=6, o=5, kernel=1, stride=3)
_add("shapes", "pads_differ", chip="rk3588", i=6, o=5, pad=(0, 1, 2, 3))
_add("shapes", "dilation", chip="rk3588", i=6, o=5, dilation=2, pad=2)
_add("shapes", "dilation_1_3", chip="rk3576", i=6, o=5, dilation=(1, 3), pad=(1, 3))
_add("shapes", "depthwise_dilation", chip="rk3588", i=24, o=24, group=24, dilation=2, pad=2)
_add("shapes", "batch_2", chip="rk3588", i=20, o=12, batch=2, pad=1)
_add("shapes", "batch_3_picture", chip="rk3568", i=3, o=12, batch=3, pad=1, picture=True)
_add("shapes", "one_pixel", chip="rk3588", i=40, o=10, kernel=1, size=(1, 1))
_add("shapes", "fully_connected", chip="rk3588", i=32, o=10, kernel=4, size=(4, 4))
_add("shapes", "one_row", chip="rk3588", i=16, o=16, kernel=(1, 3), pad=(0, 1), size=(1, 33))



def padded_automatically(mode, m):
    """A model of one window, whose file says `mode` instead of the pads that come of it."""
    node = m.nodes[-1]
    table = attribute_table(node)
    table.slots[0] = mode
    del table.slots[4]
    node.slots.update({8: table, 9: None})
    return m


for _mode, _even, _odd in (("SAME_UPPER", (0, 1, 1, 1), (1, 0, 2, 1)),
                           ("SAME_LOWER", (1, 1, 0, 1), (2, 1, 1, 0))):
    case("shapes", _mode.lower(), EXACT)(lambda mode=_mode, pads=_even: padded_automatically(
        mode, single("rk3588", 6, 5, 3, pad=pads, stride=2)))
    case("shapes", _mode.lower() + "_even", EXACT)(lambda mode=_mode, pads=_odd: (
        padded_automatically(mode, single("rk3588", 6, 5, (4, 2), pad=pads))))


# ---- fused forms ----------------------------------------------------------------------------

_RANGES = {"relu": (0, 5), "clip": (0, 6), "leaky_relu": (-1, 5), "sigmoid": (0, 1),
           "swish": (-0.4, 5), "hard_swish": (-0.4, 5), "hard_sigmoid": (0, 1), "tanh": (-1, 1),
           "gelu": (-0.2, 5), "mish": (-0.4, 5), "elu": (-1, 5), "softplus": (0, 5),
           "swoosh_l": (-0.1, 4), "swoosh_r": (-0.3, 4)}

for _chip in CHIPS:
    for _act in ("relu", "clip", "leaky_relu"):
        _add("fused", f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act,
             out=Quant.of_range(*_RANGES[_act]))
    for _act in lut.FUNCTIONS:
        _add("lookup", f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act,
             out=Quant.of_range(*_RANGES[_act]))
    for _act in ("clip", "leaky_relu", "sigmoid", "hard_swish"):
        _add("deconv_fused", f"{_chip}_{_act}", chip=_chip, i=20, o=12, act=_act,
             out=Quant.of_range(*_RANGES[_act]))
    _add("lookup", f"{_chip}_depthwise", chip=_chip, i=24, o=24, group=24, pad=1, act="swish",
         out=Quant.of_range(*_RANGES["swish"]))
_add("lookup", "plain", chip="rk3576", i=20, o=24, pad=1, form="plain", act="sigmoid",
     out=Quant.of_range(0, 1))
_add("lookup", "tasks", chip="rk3568", i=20, o=24, pad=1, tasks=3, act="swish",
     out=Quant.of_range(*_RANGES["swish"]))


_add("deconv", "3x2", chip="rk3588", i=20, o=9, kernel=(3, 2), stride=(3, 1), pad=(1, 0))
_add("deconv", "odd", chip="rk3568", i=20, o=9, kernel=3, extra=(1, 1))
_add("deconv", "dilation", chip="rk3588", i=8, o=9, kernel=3, stride=1, dilation=2)
_add("deconv", "stride_beyond", chip="rk3576", i=8, o=9, kernel=2, stride=3, pad=0)


def _with_addend(chip, act, batch=1, add_last=False):
    rng = np.random.default_rng(3)
    m = Model(chip)
    x = m.input("x", (batch, 20, 6, 7), IN)
    other = m.input("other", (batch, 24, 6, 7), Quant.of_range(-5, 1))
    y = ops.conv(m, x, rng.normal(size=(24, 20, 3, 3)) * 0.1, rng.normal(size=24), pad=1,
                 addend=other, act=act, add_last=add_last,
                 out=Quant.of_range(0 if act and not add_last else -6, 6))
    m.output(y, "y")
    return m


for _chip in CHIPS:
    for _act in (None, "relu"):
        case("fused", f"{_chip}_add_{_act or 'plain'}")(
            lambda chip=_chip, act=_act: _with_addend(chip, act))
    for _act in ("relu", "leaky_relu", "swish", "sigmoid", "hard_swish"):
        case("fused", f"{_chip}_{_act}_add")(
            lambda chip=_chip, act=_act: _with_addend(chip, act, add_last=True))


# ---- container 0x1004: convolutions have no attributes -------------------------------------

for _chip in LITE_CHIPS:
    for _i, _o in ((16, 16), (5, 7), (33, 31), (48, 41), (100, 70), (2, 1)):
        _add("lite", f"{_chip}_{_i}_{_o}", chip=_chip, i=_i, o=_o, pad=1)
    for _i in (1, 3, 4):
        _add("lite", f"{_chip}_picture_{_i}", chip=_chip, i=_i, o=20, picture=True, stride=2,
             pad=1)
    for _c in (8, 16, 20, 32, 72):
        _add("lite", f"{_chip}_depthwise_{_c}", chip=_chip, i=_c, o=_c, group=_c, pad=1)
    for _k in (1, 2, 5, 7, 11):
        _add("lite", f"{_chip}_kernel_{_k}", chip=_chip, i=20, o=10, kernel=_k, pad=_k // 2,
             stride=2, size=(12, 13))
        _add("lite", f"{_chip}_depthwise_kernel_{_k}", chip=_chip, i=20, o=20, group=20, kernel=_k,
             pad=_k // 2, size=(12, 13))
    _add("lite", f"{_chip}_plain", chip=_chip, i=20, o=24, pad=1, form="plain")
    _add("lite", f"{_chip}_batch", chip=_chip, i=20, o=12, batch=3, pad=1)
    _add("lite", f"{_chip}_tasks", chip=_chip, i=20, o=12, pad=1, tasks=3)
    for _act in ("clip", "sigmoid", "swish", "hard_swish", "tanh"):
        _add("lite_lookup", f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act,
             out=Quant.of_range(*_RANGES[_act]))
    _add("lite_deconv", _chip, chip=_chip, i=20, o=12)
    _add("lite_deconv", f"{_chip}_relu", chip=_chip, i=5, o=40, act="relu", out=Quant.of_range(0, 5))
    for _act in ("relu", "leaky_relu"):
        _add("lite", f"{_chip}_{_act}", chip=_chip, i=20, o=24, pad=1, act=_act,
             out=Quant.of_range(*_RANGES[_act]))
    _add("lite", f"{_chip}_depthwise_leaky_relu", chip=_chip, i=24, o=24, group=24, pad=1,
         act="leaky_relu", out=Quant.of_range(*_RANGES["leaky_relu"]))
    case("lite", f"{_chip}_add")(lambda chip=_chip: _with_addend(chip, None))
    for _act in ("leaky_relu", "swish"):
        case("lite_lookup", f"{_chip}_{_act}_add")(
            lambda chip=_chip, act=_act: _with_addend(chip, act, add_last=True))
_add("lite", "stride_2_3", chip="rv1106", i=6, o=5, stride=(2, 3), pad=1)
_add("lite", "pads_differ", chip="rv1106", i=6, o=5, pad=(0, 1, 2, 3))
_add("lite", "kernel_1x7", chip="rv1106", i=6, o=5, kernel=(1, 7), pad=(0, 3))
_add("lite", "dilation", chip="rv1106", i=6, o=5, dilation=(1, 2), pad=(1, 2))


@case("fused", "chain", "2")
def _chain():
    """Several layers whose memory is used again."""
    rng = np.random.default_rng(4)
    m = Model("rk3588")
    q = Quant.of_range(-4, 4)
    x = m.input("x", (1, 3, 16, 16), PICTURE, mean=[127.5] * 3, std=[127.5] * 3)
    a = ops.conv(m, x, rng.normal(size=(20, 3, 3, 3)) * 0.3, rng.normal(size=20), pad=1, stride=2,
                 act="relu", out=q)
    b = ops.conv(m, a, rng.normal(size=(20, 1, 3, 3)) * 0.3, rng.normal(size=20), pad=1, group=20,
                 out=q)
    c = ops.conv(m, b, rng.normal(size=(20, 20, 1, 1)) * 0.2, rng.normal(size=20), addend=a,
                 act="relu", out=q)
    d = ops.max_pool(m, c, 2)
    m.output(ops.conv(m, d, rng.normal(size=(7, 20, 4, 4)) * 0.03, rng.normal(size=7), out=q), "y")
    return m
