"""The probes: models whose outputs tell apart what a chip may do. Inputs have a scale of 1 and a zero point of 0, so a
program's real numbers are the stored ones whatever converts them."""
from dataclasses import dataclass

import numpy as np

from rknnwriter import ConvParams, Model, Quant, ops, reference
from rknnwriter.lut import Lut
from rknnwriter.quantize import shifted

ONE = Quant(1.0, 0)
EVERY = np.arange(-128, 128)
SIDE = 16  # of images: all 256 numbers, one a pixel


@dataclass
class Probe:
    id: str
    title: str
    model: Model
    inputs: list  # real numbers, NHWC
    hypotheses: list  # (id, words, the switch's choice or None, {tensor's name: stored values, NCHW})
    switch: str = ""
    risk: str = ""
    cores: int = 0  # mask; 0: whichever
    nodes: bool = False  # each node is compared
    tolerance: float = 0.0  # of float16


class Unwritten(Exception):
    """The chip's programs for it are not known to the writer."""


# ---- rounding -------------------------------------------------------------------------------


def down(x, shift):
    return np.asarray(x, np.int64) >> shift


def half_up(x, shift):
    return np.asarray(x, np.int64) + (1 << shift - 1) >> shift


def half_away(x, shift):
    x = np.asarray(x, np.int64)
    return np.sign(x) * (np.abs(x) + (1 << shift - 1) >> shift)


def to_zero(x, shift):
    x = np.asarray(x, np.int64)
    return np.sign(x) * (np.abs(x) >> shift)


def int8(x):
    return np.clip(x, -128, 127).astype(np.int8)


ROUNDINGS = [
    ("even", "to the nearest, halves to even", 0, shifted), ("down", "rounded down", 1, down),
    ("up", "to the nearest, halves up", None, half_up), ("away", "to the nearest, halves away from 0", None, half_away),
    ("zero", "towards 0", None, to_zero),
]


# ---- models ---------------------------------------------------------------------------------


def _channels(chip):
    return 32


def _image(values, channels):
    """One number a pixel, in each channel: NHWC, real."""
    plane = np.zeros(SIDE * SIDE)
    plane[: len(values)] = values
    return np.repeat(plane.reshape(1, SIDE, SIDE, 1), channels, -1).astype(np.float32)


def _identity(model, x, channels, weight=1, **fields):
    """A convolution that passes `weight` times each channel to the output conversion."""
    made = ConvParams(
        (np.eye(channels) * weight).astype(np.int8).reshape(channels, channels, 1, 1), np.zeros(channels, int),
        np.full(channels, 1 << 14), np.zeros(channels, np.int64), fields.pop("scale", 1), fields.pop("shift", 0),
        fields.pop("offset", 0), form="plain", lut=fields.pop("lut", None))
    return ops.conv(model, x, None, params=made, **fields)


def _start(chip, name, channels):
    model = Model(chip, name)
    return model, model.input("x", (1, channels, SIDE, SIDE), ONE)


def _spread(values, channels):
    """Stored values of an image's pixels as the output has them: NCHW."""
    return np.repeat(np.asarray(values).reshape(1, 1, SIDE, SIDE), channels, 1)


def output_zero_point(chip):
    channels = _channels(chip)
    model, x = _start(chip, "out-zp", channels)
    model.output(_identity(model, x, channels, shift=1, offset=1, out=Quant(2.0, 1)), "y")
    ways = [("before", "the zero point is added before the shift, and halves go to even", 0, shifted(EVERY + 2, 1)),
            ("behind", "the zero point is added behind the shift, and halves go to even", 1, shifted(EVERY, 1) + 1)]
    ways += [(name, f"the shift is {words}, with the zero point behind it", None, how(EVERY, 1) + 1)
             for name, words, _, how in ROUNDINGS[1:] if name != "away"]
    ways += [("away", "halves go away from 0, with the zero point before the shift", None, half_away(EVERY + 2, 1))]
    return Probe("out-zp", "where the zero point joins, and how the last stage rounds", model,
                 [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(v), channels)}) for i, w, c, v in ways], switch="out-zp")


def addend_shift(chip):
    channels = _channels(chip)
    model, x = _start(chip, "ew-shift", channels)
    model.output(_identity(model, x, channels, weight=0, addend=x, out=Quant(2.0, 0)), "y")
    scale, shift = model.nodes[0].params.addend.scale, model.nodes[0].params.addend.shift
    return Probe("ew-shift", "how the shift of an addend rounds", model, [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(how(EVERY * scale, shift)), channels)}) for i, w, c, how in ROUNDINGS],
                 switch="ew-shift")


def sum_shift(chip):
    channels = _channels(chip)
    model, x = _start(chip, "sum-shift", channels)
    if model.chip.family != "rk3576":
        raise Unwritten("only RK3576 and RV1126B shift sums in front of the bias")
    model.output(_identity(model, x, channels, shift=1, sum_shift=1, out=Quant(2.0, 0)), "y")
    return Probe("sum-shift", "how the shift of sums in front of the bias rounds", model, [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(how(EVERY, 1)), channels)}) for i, w, c, how in ROUNDINGS],
                 switch="sum-shift")


# ---- tables ---------------------------------------------------------------------------------


def _table(chip, name, gain, shift, table, slopes=None):
    """Through a table of both sides (1025 numbers) to a stored number that is the table's."""
    channels = _channels(chip)
    model, x = _start(chip, name, channels)
    table = np.asarray(table, int)
    lut = Lut(gain << 16 | shift << 8, [table[:513], table[512:]], slopes)
    model.output(_identity(model, x, channels, act="swish", lut=lut, out=Quant(1.0, 0)), "y")
    return model, channels


def table_rounding(chip):
    """Numbers 16 x / 32 on the way in: a table with a slope of 1 in its middle would hide it behind the steps of 32, so
    the gain makes odd halves, and steep points around 0 show where each lands."""
    table = np.zeros(1025, int)
    table[512 - 4 : 512 + 5] = np.arange(-4, 5) * 32  # a slope of 1 around 0
    table[: 512 - 4], table[512 + 5 :] = -128, 128
    model, channels = _table(chip, "lut-in", 1, 1, table)
    ways = [(i, w, c, how(EVERY, 1)) for i, w, c, how in ROUNDINGS]
    return Probe("lut-in", "how the shift in front of a table rounds", model, [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(v), channels)}) for i, w, c, v in ways], switch="lut-in")


def table_line(chip):
    """A falling line of 1 over 32 numbers, and a rising one: floors show between the points."""
    table = np.zeros(1025, int)
    points = np.arange(-512, 513)
    table[:] = -np.clip(np.abs(points), 0, 4)
    model, channels = _table(chip, "lut-line", 1, 0, table)

    def line(how):
        out = []
        for v in EVERY:
            side = 0 if v < 0 else 512
            u = int(v) + 16384 if v < 0 else int(v)
            i = min(u >> 5, 511)
            step = int(table[side + i + 1] - table[side + i])
            out.append(int(table[side + i]) + int(how(step * (u - (i << 5)), 5)))
        return np.array(out)

    return Probe("lut-line", "how a table's line between two points rounds", model, [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(line(how)), channels)}) for i, w, c, how in
                  [("down", "rounded down", 0, down), ("zero", "towards zero", 1, to_zero),
                   ("even", "to the nearest, halves to even", None, shifted), ("up", "to the nearest, halves up", None, half_up)]],
                 switch="lut-line")


def table_slope(chip):
    """Beyond the upper end, 16384, a falling slope of 1/2: numbers are 161 times the input."""
    if Model(chip).chip.family not in ("rk3588", "rk356x"):
        raise Unwritten("where slopes beyond a table stand is known of RK3588, RK3566 and RK3568")
    table = np.zeros(1025, int)
    model, channels = _table(chip, "lut-slope", 161, 0, table, ((0, 12), (-1, 5)))
    beyond = np.maximum(EVERY * 161 - 16384, 0)
    return Probe("lut-slope", "how the slope beyond a table's end rounds", model, [_image(EVERY, channels)],
                 [(i, w, c, {"y": _spread(int8(how(-beyond, 5)), channels)}) for i, w, c, how in
                  [("down", "rounded down", 0, down), ("zero", "towards zero", 1, to_zero),
                   ("even", "to the nearest, halves to even", None, shifted)]], switch="lut-slope")


# ---- leaky, products ------------------------------------------------------------------------


def leaky(chip):
    """LeakyRelu with a shift of its own: values that are not negative keep the multiplier's bits, or do not."""
    channels = _channels(chip)
    model, x = _start(chip, "leaky", channels)
    if model.chip.family == "rk3588":
        raise Unwritten("no file shows how RK3588's programs make an int8 LeakyRelu")
    y = ops.conv(model, x, np.eye(channels).reshape(channels, channels, 1, 1) * 0.75, np.zeros(channels), act="leaky_relu",
                 alpha=0.1, out=Quant(1.0, 0))
    model.output(y, "y")
    return _checked("leaky", "LeakyRelu keeps the multiplier's bits", model, [_image(EVERY, channels)])


def product(chip):
    """Three times each number, and then a fourth of that: halves, and what lies beyond int8 before."""
    channels = _channels(chip)
    model, x = _start(chip, "ew-product", channels)
    if model.chip.family not in ("rk3588", "rk356x"):
        raise Unwritten("products of two tensors are written for RK3588, RK3566 and RK3568")
    by = model.input("by", (1, channels, 1, 1), ONE)
    model.output(ops.mul(model, x, by, out=Quant(4.0, 0)), "y")
    ways = [*((i, f"the product whole, then {w}", c, how(EVERY * 3, 2)) for i, w, c, how in ROUNDINGS),
            ("early", "the product saturates at 8 bits in front of the conversion", None, shifted(int8(EVERY * 3), 2))]
    return Probe("ew-product", "products are whole until the output conversion, which rounds", model,
                 [_image(EVERY, channels), np.full((1, 1, 1, channels), 3, np.float32)],
                 [(i, w, None, {"y": _spread(int8(v), channels)}) for i, w, _, v in ways])


# ---- what is no question: everything has to come right --------------------------------------


def _checked(name, title, model, inputs, **options):
    values = reference.run(model, inputs)
    wanted = {t.name: values[t] for node in model.nodes for t in node.outputs if t is not None}
    return Probe(name, title, model, inputs, [("as", "as the reference", None, wanted)], **options)


def _random_image(rng, channels, side):
    return rng.integers(-128, 128, (1, side, side, channels)).astype(np.float32)


def _conv(model, rng, x, outputs, kernel=1, **options):
    weight = rng.normal(size=(outputs, x.shape[1], kernel, kernel)) * 0.1
    return ops.conv(model, x, weight, rng.normal(size=outputs) * 20, pad=kernel // 2, **options)


def simplest(chip):
    """The first one, by which it is seen whether a device still lives."""
    rng, model = np.random.default_rng(1), Model(chip, "conv")
    x = model.input("x", (1, 32, 8, 8), ONE)
    model.output(_conv(model, rng, x, 32, out=Quant(2.0, 3)), "y")
    return _checked("conv", "one convolution", model, [_random_image(rng, 32, 8)])


def chain(chip):
    """Kernels, strides, a Relu and an addend, one behind the other: each node is compared."""
    rng, model = np.random.default_rng(2), Model(chip, "chain")
    x = model.input("x", (1, 32, 16, 16), ONE)
    a = _conv(model, rng, x, 32, 3, act="relu", out=Quant(3.0, -20))
    b = _conv(model, rng, a, 64, 3, stride=2, out=Quant(4.0, 5))
    c = _conv(model, rng, b, 64, addend=b, out=Quant(5.0, -7))
    model.output(_conv(model, rng, c, 32, out=Quant(6.0, 0)), "y")
    return _checked("chain", "four convolutions: kernels, strides, Relu, addend", model, [_random_image(rng, 32, 16)],
                    nodes=True)


def addition(chip):
    """Two tensors of different scales and zero points, of which the smaller comes first: 2 b + a, and nothing to round."""
    rng, model = np.random.default_rng(3), Model(chip, "add")
    a, b = model.input("a", (1, 32, 8, 8), Quant(0.5, 3)), model.input("b", (1, 32, 8, 8), ONE)
    y = ops.add(model, a, b, out=Quant(0.5, -1))
    model.output(y, "y")
    stored = rng.integers(-128, 128, (1, 8, 8, 32)), rng.integers(-64, 64, (1, 8, 8, 32))
    wanted = int8(stored[0] - 3 + 2 * stored[1] - 1).transpose(0, 3, 1, 2)
    return Probe("add", "a sum of two tensors of different scales and zero points", model,
                 [((stored[0] - 3) * 0.5).astype(np.float32), stored[1].astype(np.float32)],
                 [("as", "as computed", None, {"y": wanted})])


def half(chip):
    rng, model = np.random.default_rng(4), Model(chip, "half")
    if model.chip.family not in ("rk3588", "rk356x"):
        raise Unwritten("float16 programs are written for RK3588, RK3566 and RK3568")
    whole, channels = chip == "rk3588", 32 if chip == "rk3588" else 16
    x, weight = model.input("x", (1, channels, 8, 8)), rng.normal(size=(32, channels, 3, 3)) * 0.05
    y = ops.conv(model, x, weight, rng.normal(size=32) if whole else None, pad=1, act="relu" if whole else None)
    model.output(y, "y")
    return _checked("half", "a convolution of float16", model, [rng.normal(size=(1, 8, 8, channels)).astype(np.float16).astype(np.float32)],
                    tolerance=2.0**-9)


def depthwise(chip):
    rng, model = np.random.default_rng(5), Model(chip, "depthwise")
    x = model.input("x", (1, 64, 8, 8), ONE)
    y = ops.conv(model, x, rng.normal(size=(64, 1, 3, 3)) * 0.3, rng.normal(size=64) * 20, pad=1, group=64,
                 out=Quant(2.0, 1))
    model.output(ops.max_pool(model, y, 2), "y")
    return _checked("depthwise", "a depthwise convolution and a pool of largest values", model,
                    [_random_image(rng, 64, 8)], nodes=True)


def pool(chip):
    rng, model = np.random.default_rng(9), Model(chip, "pool")
    x = model.input("x", (1, 32, 8, 8), ONE)
    y = _conv(model, rng, x, 32, out=Quant(2.0, 3))
    model.output(ops.max_pool(model, ops.max_pool(model, y, 3, stride=1), 2), "y")
    return _checked("pool", "pools of largest values, of three lines and of two", model, [_random_image(rng, 32, 8)],
                    nodes=True)


def dilation(chip):
    """Windows whose pixels are apart, otherwise down than across, and those of a depthwise convolution."""
    rng, model = np.random.default_rng(10), Model(chip, "dilation")
    x = model.input("x", (1, 32, 16, 16), ONE)
    y = ops.conv(model, x, rng.normal(size=(32, 32, 3, 3)) * 0.1, rng.normal(size=32) * 20, pad=(2, 3), dilation=(2, 3), out=Quant(3.0, 3))
    y = ops.conv(model, y, rng.normal(size=(32, 1, 3, 3)) * 0.3, rng.normal(size=32) * 20, pad=2, dilation=2, group=32, out=Quant(2.0, 1))
    model.output(y, "y")
    return _checked("dilation", "where dilations are told", model, [_random_image(rng, 32, 16)], nodes=True)


def cores(count):
    def several(chip):
        rng, model = np.random.default_rng(6), Model(chip, f"cores-{count}")
        most = {"rk3588": 3, "rk3576": 2}.get(chip, 1)
        if count > most:
            raise Unwritten(f"{chip} has {most} core{'s' * (most > 1)}")
        x = model.input("x", (1, 32, 16, 16), ONE)
        a = _conv(model, rng, x, 32, 3, out=Quant(3.0, -20))
        model.output(_conv(model, rng, a, 32, out=Quant(5.0, 0)), "y")
        return _checked(f"cores-{count}", f"two convolutions that {count} cores begin together, and compute alike", model,
                        [_random_image(rng, 32, 16)], cores=(1 << count) - 1,
                        risk="cores that do not find each other may hang until the driver resets them")

    return several


def barrier(count):
    """The first core is soon done with its two rows, and its rows of the next layer are made of those which others compute
    last. If it does not wait it reads what the run before has left, whose input was all zeros. All others have their own
    rows, or some that are there long before."""
    def shared(chip):
        rng, model = np.random.default_rng(8), Model(chip, f"barrier-{count}")
        model.apart = True
        if chip != "rk3588":
            raise Unwritten("how cores share the rows of a layer is written for RK3588 alone")
        x = model.input("x", (1, 32, 32, 32), ONE)
        a = _conv(model, rng, x, 32, 3, out=Quant(3.0, -20))
        model.output(_conv(model, rng, a, 32, 3, out=Quant(5.0, 0)), "y")
        first, second = model.nodes
        first.shares = {2: [(0, 2), (2, 32)]} if count == 2 else {3: [(0, 2), (2, 12), (12, 32)]}
        second.shares = {2: [(24, 32), (0, 24)]} if count == 2 else {3: [(24, 32), (0, 11), (11, 24)]}
        inputs = [_random_image(rng, 32, 32)]
        values = reference.run(model, inputs)
        own, early = second.shares[count][0], dict(values)
        early[a] = values[a].copy()
        early[a][:, :, 2:] = reference.run(model, [np.zeros_like(inputs[0])])[a][:, :, 2:]
        wrong, y = values[model.outputs[0]].copy(), model.outputs[0]
        wrong[:, :, slice(*own)] = reference.run_from(model, second, early)[y][:, :, slice(*own)]
        return Probe(f"barrier-{count}", f"whether {count} cores wait for each other where they share the rows of two layers", model,
                     inputs, [("wait", "they wait at each layer that they share", None, {"y": values[y]}),
                              ("run-on", "the first core goes on before others have written what it reads", None, {"y": wrong})],
                     cores=(1 << count) - 1, risk="cores that do not find each other may hang until the driver resets them")

    return shared


PROBES = {
    "conv": simplest, "chain": chain, "add": addition, "pool": pool, "depthwise": depthwise, "half": half, "out-zp": output_zero_point,
    "ew-shift": addend_shift, "sum-shift": sum_shift, "lut-in": table_rounding, "lut-line": table_line,
    "lut-slope": table_slope, "ew-product": product, "leaky": leaky, "dilation": dilation, "cores-2": cores(2), "cores-3": cores(3),
    "barrier-2": barrier(2), "barrier-3": barrier(3),
}
