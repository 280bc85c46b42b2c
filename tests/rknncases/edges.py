"""What deployed files have and the other groups do not: sounds as one line of pixels, channels around
each chip's blocks, operators between networks and their ends, operators under several names."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.chips import CHIPS, LITE_CHIPS
from . import EXACT, HALF, STEP, case
from .conv import _RANGES, padded_automatically, single
from .deployed import STEPS, text_detector
from .eltwise import A, B, OUT, SHAPE, one, two
from .float16 import _conv as half_conv
from .float16 import one as half
from .nets import REAL, Net, classifier, segmenter


def _edge(name, function, *args, error=EXACT, **options):
    case("edges", name, error)(lambda: function(*args, **options))


def _stacked(chip):
    """Two pictures in one input: as many channels as have no means of their own, and the same for all."""
    m = Model(chip)
    x = m.input("x", (1, 6, 5, 7), Quant(0.02, -9), mean=[127.5] * 6, std=[64.0] * 6)
    m.output(ops.relu(m, x), "y")
    return m


for _chip in ("rk3588", "rk3566", "rv1106"):
    _edge(f"{_chip}_stacked", _stacked, _chip)

# ---- convolutions -----------------------------------------------------------------------------

_LINE = dict(size=(1, 50), batch=2)
_HALF_CHANNELS = ((17, 1), (1, 1), (31, 65), (65, 33), (3, 64), (12, 100))
for _chip in (*CHIPS, *LITE_CHIPS):
    _edge(f"{_chip}_line", single, _chip, 40, 24, (1, 5), pad=(0, 4), dilation=(1, 2), **_LINE)
    _edge(f"{_chip}_line_past_only", single, _chip, 40, 24, (1, 3), pad=(0, 8, 0, 0),
          dilation=(1, 4), **_LINE)
    # of the one line of the kernel, none is as good as three
    _edge(f"{_chip}_line_apart", single, _chip, 40, 24, (1, 5), pad=(0, 4), dilation=(3, 2), **_LINE)
    _edge(f"{_chip}_line_depthwise", single, _chip, 40, 40, (1, 11), group=40, pad=(0, 5),
          stride=(1, 2), **_LINE)
    for _i, _o in (*_HALF_CHANNELS, (8, 8), (64, 64), (4, 16), (256, 513)):
        _edge(f"{_chip}_{_i}_{_o}", single, _chip, _i, _o, 1 if _i == 256 else 3, (5, 4), pad=1)
    for _c in (2, 9, 15, 33, 48, 65, 96, 112):
        _edge(f"{_chip}_depthwise_{_c}", single, _chip, _c, _c, group=_c, pad=(0, 1, 1, 0), stride=2)
    _edge(f"{_chip}_leaky_shift", single, _chip, 20, 24, pad=1, act="leaky_relu", alpha=0.2,
          leaky_shift=3, out=Quant.of_range(-1, 5), error=STEP)
for _chip in CHIPS:
    _edge(f"{_chip}_half_line", half_conv, _chip, 40, 24, (1, 5), pad=(0, 4), dilation=(1, 2),
          error=HALF, **_LINE)
    _edge(f"{_chip}_half_line_depthwise", half_conv, _chip, 40, 40, (1, 11), group=40, pad=(0, 5),
          stride=(1, 2), error=HALF, **_LINE)
    for _i, _o in _HALF_CHANNELS:
        _edge(f"{_chip}_half_{_i}_{_o}", half_conv, _chip, _i, _o, pad=1, size=(5, 4), error=HALF)
    for _c in (2, 9, 33, 65, 112):
        _edge(f"{_chip}_half_depthwise_{_c}", half_conv, _chip, _c, _c, group=_c,
              pad=(0, 1, 1, 0), stride=2, error=HALF)


def _ends(name, function, *args, error=STEP, **options):
    case("ends", name, error)(lambda: function(*args, **options))


for _chip in CHIPS:
    _ends(f"{_chip}_groups_of_half_a_block", single, _chip, 16, 32, group=2, pad=1, error=EXACT)
    _ends(f"{_chip}_half_groups", half_conv, _chip, 16, 32, group=2, pad=1, error=HALF)
    for _act in ("relu", "sigmoid", "hard_swish"):
        _ends(f"{_chip}_depthwise_{_act}", single, _chip, 24, 24, group=24, pad=1, act=_act,
              batch=2, out=Quant.of_range(*_RANGES[_act]))
        _ends(f"{_chip}_picture_{_act}", single, _chip, 3, 24, pad=(0, 0, 1, 1), stride=2, act=_act,
              picture=True, batch=2, out=Quant.of_range(*_RANGES[_act]))
for _chip in ("rk3588", "rk3566", "rk3568"):
    for _act in ("swish", "hard_swish", "gelu", "softplus", "elu"):
        _ends(f"{_chip}_short_table_{_act}", single, _chip, 20, 24, pad=1, act=_act, lut_reach=1.5,
              out=Quant.of_range(*_RANGES[_act]))
for _chip in LITE_CHIPS:
    for _act in ("sigmoid", "swish", "hard_swish"):
        _ends(f"{_chip}_depthwise_{_act}", single, _chip, 24, 24, group=24, pad=1, act=_act,
              out=Quant.of_range(*_RANGES[_act]))
    _ends(f"{_chip}_text", text_detector, _chip, error=STEPS)
    _ends(f"{_chip}_classifier", classifier, _chip, error=STEPS)


# ---- batches ----------------------------------------------------------------------------------


def _batch(build, chip, *how):
    """A network on three pictures at a time."""

    def picture(net, h, w):
        quant = net.quant(0, 1)
        return net.m.input("image", (3, 3, h, w), quant, mean=[0] * 3, std=[255] * 3)

    alone = Net.picture
    Net.picture = picture
    try:
        return build(chip, *how)
    finally:
        Net.picture = alone


for _chip in CHIPS:
    _ends(f"{_chip}_segmenter_batch", _batch, segmenter, _chip, error=STEPS)
    _ends(f"{_chip}_text_half_batch", _batch, text_detector, _chip, False, error=REAL)

# ---- pools, on every chip ---------------------------------------------------------------------

for _chip in (*CHIPS, *LITE_CHIPS):
    _ends(f"{_chip}_max_5", one, ops.max_pool, 5, stride=1, pad=2, chip=_chip, error=EXACT)
    _ends(f"{_chip}_max_ceil", one, ops.max_pool, 3, stride=2, pad=(0, 1, 1, 0), ceil=True,
          chip=_chip, shape=(2, 19, 11, 10), error=EXACT)
    _ends(f"{_chip}_average", one, ops.average_pool, 3, stride=2, pad=(0, 1, 1, 0), chip=_chip,
          shape=(2, 19, 11, 10))
    _ends(f"{_chip}_global", one, ops.global_average_pool, chip=_chip)
for _op, _error in (("GlobalMaxPool", EXACT), ("GlobalAveragePool", STEP)):
    _ends(_op, one, lambda m, x, op=_op: ops.global_pool(m, op, x), shape=(2, 19, 5, 7),
          error=_error)

for _mode, _pads in (("SAME_UPPER", (0, 1, 1, 1)), ("SAME_LOWER", (1, 1, 0, 1))):
    for _name, _pool in (("max", ops.max_pool), ("average", ops.average_pool)):
        _ends(f"{_name}_{_mode.lower()}", lambda mode, pool, pads: padded_automatically(
            mode, one(pool, 3, stride=2, pad=pads)), _mode, _pool, _pads)

# ---- what RV1103 and RV1106 have besides convolutions ------------------------------------------

for _chip in LITE_CHIPS:
    for _name, _function, _how in (
            ("concat", lambda m, a, b, out: ops.concat(m, [a, b], out=out), {}),
            ("add", ops.add, {}), ("add_relu", ops.add, {"act": "relu", "out": Quant.of_range(0, 4)}),
            ("gate", ops.mul, {"shapes": (SHAPE, (1, 20, 1, 1)), "out": Quant.of_range(-16, 11)})):
        _ends(f"{_chip}_{_name}", two, _function, chip=_chip, **_how)
    for _name, _function, _args, _how in (
            ("split", lambda m, x: ops.split(m, x, (3, 17))[1], (), {}),
            ("nearest", ops.resize, ((12, 14),), {"mode": "nearest", "coordinates": "asymmetric"}),
            ("linear", ops.resize, ((12, 14),), {}),
            ("softmax", ops.softmax, (), {"out": Quant(1 / 256, -128)}),
            ("sigmoid", ops.sigmoid, (), {"out": Quant(1 / 256, -128)}),
            ("prelu", ops.prelu, (np.linspace(-0.5, 0.5, 20),), {"out": Quant.of_range(-1, 3)}),
            ("transpose", ops.transpose, ((0, 2, 3, 1),), {}),
            ("mean", ops.reduce_mean, ((2, 3),), {"out": Quant.of_range(-1, 2)})):
        _ends(f"{_chip}_{_name}", one, _function, *_args, chip=_chip, **_how)

# ---- the ends of networks -----------------------------------------------------------------------

_NORM = (np.linspace(0.5, 2, 20), np.linspace(-1, 1, 20), np.linspace(-0.2, 0.2, 20),
         np.linspace(0.5, 2, 20))
_ROWS = (np.linspace(0.5, 1.5, 24), np.linspace(-0.2, 0.2, 24))
_ends("batch_norm_of_vectors", one, ops.batch_norm, *_NORM, shape=(2, 20), out=OUT)
_ends("batch_norm_of_rows", half, ops.batch_norm, *_NORM, shape=(2, 20, 5), error=HALF)
_ends("norm", one, ops.norm, *_NORM[:2], out=Quant.of_range(-5, 5))
_ends("norm_images", one, ops.norm, *_NORM[:2], axes=[1, 2, 3], out=Quant.of_range(-5, 5))
_ends("layer_norm", one, ops.layer_norm, *_ROWS, shape=(1, 9, 24), out=Quant.of_range(-4, 4))
_ends("layer_norm_in_image", one, ops.layer_norm, *_ROWS, shape=(2, 3, 9, 24),
      out=Quant.of_range(-4, 4))
_ends("layer_norm_in_half_image", half, ops.layer_norm, *_ROWS, shape=(1, 3, 9, 24),
      epsilon=1e-3, error=HALF)
_ends("layer_norm_two_axes_of_image", half, ops.layer_norm, np.linspace(0.5, 2, 30).reshape(5, 6),
      axis=2, shape=(2, 7, 5, 6), error=HALF)
_ends("softmax_rows", one, ops.softmax, axis=-1, shape=(2, 9, 24), out=Quant(1 / 256, -128))
_ends("softmax_middle", one, ops.softmax, axis=1, shape=(2, 9, 24), out=Quant(1 / 256, -128))
for _axis in (1, 2, 3):
    _ends(f"argmax_gone_{_axis}", one, ops.argmax, axis=_axis, keep=False, shape=(2, 20, 6, 7),
          error=EXACT)
    _ends(f"gather_one_{_axis}", one, ops.gather, 2, axis=_axis, shape=(2, 20, 6, 7), error=EXACT)
_ends("gather_one_3d", one, ops.gather, 0, axis=1, shape=(1, 9, 24), error=EXACT)
_ends("times_planes", one, ops.mul, np.linspace(-1, 1, 20).reshape(20, 1, 1), out=OUT)
_ends("times_row", one, ops.mul, np.linspace(-1, 1, 7), out=OUT)
_ends("hard_sigmoid", one, ops.hard_sigmoid, 0.2, 0.5, out=Quant(1 / 256, -128))
_ends("half_hard_sigmoid", half, ops.hard_sigmoid, 1 / 6, 0.5, error=HALF)
_ends("concat_batches_without_bson", two, lambda m, a, b, out: ops.concat(
    m, [a, b], axis=0, bare=True, out=out))
for _bounds in ((0.5, None), (None, 1.0)):
    _ends(f"clip_above_{_bounds[0]}", half, ops.clip, *_bounds, error=HALF)
for _cubic in ((-0.5, False), (-0.75, True), (-0.5, True)):
    _ends(f"cubic_{-_cubic[0]}_{_cubic[1]}", half, ops.resize, (9, 15), mode="cubic", cubic=_cubic,
          error=HALF)
for _op, _shape in (("Squeeze", (20, 6, 7)), ("Unsqueeze", (1, 1, *SHAPE[1:])),
                    ("Flatten", (1, 840))):
    _ends(_op, one, lambda m, x, op=_op, to=_shape: ops.squeeze(m, x, op, to), error=EXACT)
for _mode in ("linear", "nearest"):
    for _how in ("half_pixel", "asymmetric"):
        _ends(f"resize_scales_{_mode}_{_how}", half, ops.resize, scales=(1.7, 0.7), mode=_mode,
              coordinates=_how, error=HALF)
_ends("resize_whole_scales", one, ops.resize, scales=(2, 4), mode="nearest",
      coordinates="asymmetric", error=EXACT)


def _unread(function, which, keep):
    """An operator of several outputs, of which the file leaves some out and one goes on."""
    m = Model("rk3588")
    outputs = function(m, m.input("x", (1, 20, 6, 7), A))
    for i in which:
        m.nodes[-1].outputs[i] = None
        m.tensors.remove(outputs[i])
    m.output(outputs[keep], "y")
    return m


_SIZES = (3, 16, 1)
for _which, _keep in (((0,), 2), ((1,), 0), ((2,), 1), ((0, 1), 2), ((0, 2), 1)):
    _name = "".join(map(str, _which))
    _ends(f"split_unread_{_name}", _unread, lambda m, x: ops.split(m, x, _SIZES), _which, _keep,
          error=EXACT)
for _which in (0, 1):
    _ends(f"top_k_unread_{_which}", _unread, lambda m, x: ops.top_k(m, x, 3, axis=1), (_which,),
          1 - _which, error=EXACT)

# ---- operators of the CPU and their names -------------------------------------------------------

def _positive(m, x, op):
    return ops.unary(m, op, ops.add(m, ops.relu(m, x), [0.5]))


for _op in ("Exp", "Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos", "Erf", "Identity", "PassThrough"):
    _ends(f"half_{_op}", half, lambda m, x, op=_op: ops.unary(m, op, x), error=HALF)
for _op in ("Log", "Sqrt", "Reciprocal"):
    _ends(f"half_{_op}", half, _positive, _op, error=HALF)
for _op, _range in (("Exp", (0, 20)), ("Abs", (0, 3)), ("Neg", (-3, 2)), ("Erf", (-1, 1))):
    _ends(_op, one, lambda m, x, op=_op, out=Quant.of_range(*_range): ops.unary(m, op, x, out=out))


def _logic(op):
    m = Model("rk3588")
    x, z = m.input("x", (1, 12), A), m.input("z", (1, 12), B)
    a, b = ops.compare(m, "Greater", x, [0.0]), ops.compare(m, "LessOrEqual", z, [-1.0])
    m.output(ops.cast(m, ops.logic(m, op, a, None if op == "Not" else b), "float32"), "y")
    return m


for _op in ("And", "Or", "Xor", "Not"):
    _ends(_op, _logic, _op, error=EXACT)
