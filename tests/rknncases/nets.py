"""Whole networks in small: what detectors, classifiers, readers of text, speech and segmentation
nets are made of, as their files have it."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.chips import CHIPS, LITE_CHIPS
from . import case

STEPS = "4"  # a step of one layer grows in those behind it
REAL = "0.01"
_OUT = {None: (-4, 4), "relu": (0, 4), "swish": (-0.3, 4), "hard_swish": (-0.4, 4),
        "sigmoid": (0, 1), "hard_sigmoid": (0, 1), "leaky_relu": (-1, 4), "gelu": (-0.2, 4),
        "swoosh_l": (-0.1, 4)}


class Net:
    """Layers with random weights, int8 or float16."""

    def __init__(self, chip, int8=True):
        self.m, self.int8, self.rng = Model(chip), int8, np.random.default_rng(11)

    def quant(self, low, high):
        return Quant.of_range(low, high) if self.int8 else None

    def picture(self, h, w):
        quant = self.quant(0, 1)
        return self.m.input("image", (1, 3, h, w), quant, mean=[0] * 3, std=[255] * 3)

    def conv(self, x, o, kernel=1, act=None, group=1, addend=None, **how):
        kernel = (kernel, kernel) if np.isscalar(kernel) else kernel
        how.setdefault("pad", tuple(k // 2 for k in kernel))
        inputs = x.shape[1] // group
        scale = 1.2 / np.sqrt(inputs * np.prod(kernel))
        weight = self.rng.normal(size=(o, inputs, *kernel)) * scale
        return ops.conv(self.m, x, weight, self.rng.normal(size=o) * 0.2, act=act, group=group,
                        addend=addend, out=self.quant(*_OUT[act]), **how)

    def depthwise(self, x, kernel=3, **how):
        return self.conv(x, x.shape[1], kernel, group=x.shape[1], **how)

    def apply(self, function, *args, out=None, **how):
        """An operator whose output has a range of its own."""
        return function(self.m, *args, out=self.quant(*out), **how)


def detector(chip, act="swish"):
    """YOLOv8: C2f, SPPF, upsampling, a head with the distribution of box sides."""
    if act == "swish" and chip in LITE_CHIPS:
        act = "leaky_relu"
    net = Net(chip)
    m = net.m
    x = net.conv(net.picture(32, 48), 16, 3, act, stride=2)
    fine = net.conv(x, 32, 3, act, stride=2)
    left, right = ops.split(m, net.conv(fine, 32, 1, act), (16, 16))
    inner = net.conv(net.conv(right, 16, 3, act), 16, 3, act)
    joined = net.apply(ops.add, right, inner, out=(-1, 7))
    fine = net.conv(net.apply(ops.concat, [left, right, joined], out=(-1, 7)), 24, 1, act)
    coarse = net.conv(net.conv(fine, 40, 3, act, stride=2), 20, 1, act)
    pools = [coarse]
    for _ in range(3):
        pools.append(ops.max_pool(m, pools[-1], 5, stride=1, pad=2))
    coarse = net.conv(net.apply(ops.concat, pools, out=(-1, 4)), 24, 1, act)
    up = ops.resize(m, coarse, fine.shape[2:], mode="nearest", coordinates="asymmetric")
    fine = net.conv(net.apply(ops.concat, [up, fine], out=(-1, 4)), 32, 3, act)
    for i, scale in enumerate((fine, net.conv(coarse, 32, 3, act))):
        _head(net, scale, act, i)
    return m


def _head(net, x, act, i):
    m, (_, _, h, w) = net.m, x.shape
    box = net.conv(net.conv(x, 32, 3, act), 32)
    sides = ops.transpose(m, ops.reshape(m, box, (1, 4, 8, h * w)), (0, 2, 1, 3))
    shares = net.apply(ops.softmax, sides, out=(0, 1))
    side = ops.conv(m, shares, np.arange(8.0).reshape(1, 8, 1, 1), np.zeros(1),
                    out=net.quant(0, 8))
    m.output(ops.reshape(m, side, (1, 4, h, w)), f"boxes{i}")
    score = net.conv(net.conv(x, 24, 3, act), 10, act=None)
    m.output(net.apply(ops.sigmoid, score, out=(0, 1)), f"scores{i}")


def classifier(chip, int8=True):
    """MobileNetV3: squeeze and excitation, hard swish, a classifier of 1×1 convolutions."""
    net = Net(chip, int8)
    m = net.m
    x = net.conv(net.picture(32, 32), 16, 3, "hard_swish", stride=2)
    for o, kernel, act, stride in ((16, 3, "relu", 1), (24, 5, "hard_swish", 2),
                                   (24, 5, "hard_swish", 1)):
        wide = net.conv(x, 40, 1, act)
        deep = net.depthwise(wide, kernel, act=act, stride=stride)
        pooled = ops.global_average_pool(m, deep, out=net.quant(-1, 2))
        gate = net.conv(net.conv(pooled, 12, 1, "relu"), 40)
        gate = _hard_sigmoid(net, gate)
        scaled = net.apply(ops.mul, deep, gate, out=_OUT[act])
        same = stride == 1 and o == x.shape[1]
        x = net.conv(scaled, o, addend=x if same else None)
    y = net.conv(ops.global_average_pool(m, net.conv(x, 64, 1, "hard_swish"),
                                         out=net.quant(-1, 2)), 32, 1, "hard_swish")
    logits = ops.reshape(m, net.conv(y, 10), (1, 10), cpu=True)
    m.output(net.apply(ops.softmax, logits, axis=1, out=(0, 1)), "scores")
    return m


def _hard_sigmoid(net, x):
    """As exporters write it: add, clip, multiply."""
    shifted = net.apply(ops.clip, net.apply(ops.add, x, [3.0], out=(-1, 7)), 0.0, 6.0, out=(0, 6))
    return net.apply(ops.mul, shifted, [1 / 6], out=(0, 1))


def reader(chip):
    """Lines of text in half precision: convolutions, then attention over the columns."""
    net = Net(chip, int8=False)
    m = net.m
    x = net.conv(net.picture(16, 64), 24, 3, "hard_swish", stride=2)
    x = net.conv(net.depthwise(x, 5, act="hard_swish", stride=(2, 1)), 32, 1, "hard_swish")
    x = ops.average_pool(m, x, (4, 2), stride=(4, 2))
    columns = x.shape[3]
    steps = ops.transpose(m, ops.reshape(m, x, (1, 32, columns), cpu=True), (0, 2, 1), cpu=True)
    normal = ops.layer_norm(m, steps, np.linspace(0.5, 1.5, 32), np.linspace(-0.2, 0.2, 32))
    image = ops.reshape(m, ops.transpose(m, normal, (0, 2, 1), cpu=True), (1, 32, 1, columns),
                        cpu=True)
    query, key, value = (net.conv(image, 32) for _ in range(3))
    weights = ops.softmax(m, ops.matmul(m, key, query, scale=[32**-0.5]))
    back = ops.transpose(m, value, (0, 3, 2, 1))
    mixed = ops.add(m, image, ops.matmul(m, back, weights))
    hidden = net.conv(net.conv(mixed, 64, 1, "gelu"), 20, 1)
    letters = ops.transpose(m, ops.reshape(m, hidden, (1, 20, columns), cpu=True), (0, 2, 1),
                            cpu=True)
    m.output(ops.softmax(m, letters, axis=2), "letters")
    return m


def speech(chip, int8=True):
    """Separable convolutions over time only, and a decoder of transposed ones."""
    net = Net(chip, int8)
    m = net.m
    x = m.input("sound", (1, 40, 1, 64), net.quant(-2, 2))
    x = net.conv(x, 32, (1, 5), "relu", stride=(1, 2))
    skips = []
    for kernel, dilation in ((9, 1), (9, 2), (11, 4)):
        skips.append(x)
        y = net.depthwise(x, (1, kernel), pad=(0, kernel // 2 * dilation), dilation=(1, dilation),
                          act="relu")
        x = net.conv(y, 32, addend=x, act="relu")
    x = net.apply(ops.concat, skips + [x], out=(0, 6))
    x = net.conv(x, 24, 1, "sigmoid" if int8 else "swish")
    scale = 0.8 / np.sqrt(24 * 2)
    up = ops.conv_transpose(m, x, net.rng.normal(size=(24, 16, 1, 4)) * scale, stride=(1, 2),
                            pad=(0, 1), out=net.quant(-2, 2))
    up = net.apply(ops.add, up, np.linspace(-0.5, 0.5, 16).reshape(1, 16, 1, 1), out=(-3, 3))
    m.output(net.apply(ops.tanh, up, out=(-1, 1)), "wave")
    m.output(net.apply(ops.reduce_mean, up, (3,), out=(-1, 1)), "mean")
    return m


def segmenter(chip):
    """Dilated branches, a global one, linear upsampling, the best class of each pixel."""
    net = Net(chip)
    m = net.m
    x = net.conv(net.picture(32, 32), 24, 3, "relu", stride=2)
    x = net.conv(net.depthwise(x, 3, act="relu", stride=2), 32, 1, "relu")
    branches = [net.conv(x, 16, 1, "relu")]
    branches += [net.conv(x, 16, 3, "relu", dilation=d, pad=d) for d in (2, 3)]
    pooled = net.conv(ops.global_average_pool(m, x, out=net.quant(0, 2)), 16, 1, "relu")
    branches.append(ops.resize(m, pooled, x.shape[2:], coordinates="align_corners"))
    x = net.conv(net.apply(ops.concat, branches, out=(0, 4)), 5)
    m.output(ops.resize(m, x, (32, 32)), "classes")
    return m


for _chip in (*CHIPS, "rv1106"):
    case("nets", f"detector_{_chip}", STEPS)(lambda chip=_chip: detector(chip))
    case("nets", f"detector_relu_{_chip}", STEPS)(lambda chip=_chip: detector(chip, "relu"))
    case("nets", f"segmenter_{_chip}", STEPS)(lambda chip=_chip: segmenter(chip))
    case("nets", f"speech_{_chip}", STEPS)(lambda chip=_chip: speech(chip))
for _chip in CHIPS:
    case("nets", f"classifier_{_chip}", STEPS)(lambda chip=_chip: classifier(chip))
    case("nets", f"classifier_half_{_chip}", REAL)(lambda chip=_chip: classifier(chip, False))
    case("nets", f"speech_half_{_chip}", REAL)(lambda chip=_chip: speech(chip, False))
    case("nets", f"reader_{_chip}", REAL)(lambda chip=_chip: reader(chip))
