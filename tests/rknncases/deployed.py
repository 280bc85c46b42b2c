"""More whole networks in small: YOLOv5, SCRFD, the text detector of PP-OCR, ArcFace, a conformer."""

import numpy as np

from rknnwriter import ops
from rknnwriter.chips import CHIPS, LITE_CHIPS
from . import case
from .nets import REAL, STEPS, Net

DEEP = "6"  # of two dozen layers, with steep sigmoids at the end


def _bottleneck(net, x, o, act):
    """C3: two branches, one of them with a residual."""
    left, right = net.conv(x, o, 1, act), net.conv(x, o, 1, act)
    inner = net.conv(net.conv(left, o, 1, act), o, 3, act)
    left = net.apply(ops.add, left, inner, out=(-1, 7))
    return net.conv(net.apply(ops.concat, [left, right], out=(-1, 7)), o * 2, 1, act)


def yolov5(chip, act="swish"):
    """Anchors: three outputs of sigmoids that are fused into the last convolutions."""
    net = Net(chip)
    m = net.m
    last = None if chip in LITE_CHIPS else "sigmoid"
    x = net.conv(net.picture(64, 32), 8, 6, act, stride=2, pad=2)
    x = _bottleneck(net, net.conv(x, 16, 3, act, stride=2), 8, act)
    fine = _bottleneck(net, net.conv(x, 24, 3, act, stride=2), 12, act)
    coarse = net.conv(net.conv(fine, 32, 3, act, stride=2), 20, 1, act)
    pools = [coarse]
    for _ in range(3):
        pools.append(ops.max_pool(m, pools[-1], 5, stride=1, pad=2))
    coarse = net.conv(net.apply(ops.concat, pools, out=(-1, 5)), 20, 1, act)
    up = ops.resize(m, coarse, fine.shape[2:], mode="nearest", coordinates="asymmetric")
    fine = _bottleneck(net, net.apply(ops.concat, [up, fine], out=(-1, 5)), 10, act)
    down = net.conv(fine, 20, 3, act, stride=2)
    coarse = _bottleneck(net, net.apply(ops.concat, [down, coarse], out=(-1, 5)), 12, act)
    for i, scale in enumerate((fine, coarse)):
        m.output(net.conv(scale, 21, act=last), f"output{i}")
    return m


def scrfd(chip, int8=True):
    """Faces: for each scale a score, a box and five points, as rows of a table."""
    net = Net(chip, int8)
    m = net.m
    x = net.conv(net.picture(32, 48), 16, 3, "relu", stride=2)
    fine = net.conv(net.depthwise(x, act="relu", stride=2), 24, 1, "relu")
    coarse = net.conv(net.depthwise(fine, act="relu", stride=2), 32, 1, "relu")
    side = net.conv(coarse, 24)
    up = ops.resize(m, side, fine.shape[2:], mode="nearest", coordinates="asymmetric")
    fine = net.apply(ops.add, net.conv(fine, 24), up, out=(-6, 6))
    for i, scale in enumerate((fine, coarse)):
        head = net.conv(net.depthwise(scale, act="relu"), 24, 1, "relu")
        for name, channels in (("score", 2), ("box", 8), ("points", 20)):
            y = net.conv(head, channels, 3)
            rows = ops.reshape(m, ops.transpose(m, y, (0, 2, 3, 1)), (1, -1, channels // 2),
                               cpu=True)
            m.output(net.apply(ops.sigmoid, rows, out=(0, 1)) if name == "score" else rows,
                     f"{name}{i}")
    return m


def text_detector(chip, int8=True):
    """DBNet: features of all scales joined, made larger by transposed convolutions."""
    net = Net(chip, int8)
    m = net.m
    x = net.conv(net.picture(32, 32), 8, 3, "hard_swish", stride=2)
    scales = []
    for o in (12, 16, 24):
        wide = net.conv(x, o * 2, 1, "relu")
        x = net.conv(net.depthwise(wide, act="hard_swish", stride=2), o)
        scales.append(net.conv(x, 8))
    large = scales[0].shape[2:]
    joined = [scales[0]] + [ops.resize(m, s, large, mode="nearest", coordinates="asymmetric")
                            for s in scales[1:]]
    x = net.conv(net.apply(ops.concat, joined, out=(-4, 4)), 8, 3, "relu")
    for o, act in ((8, "relu"), (1, "sigmoid")):
        scale = 1 / np.sqrt(x.shape[1])
        weight = net.rng.normal(size=(x.shape[1], o, 2, 2)) * scale
        x = ops.conv_transpose(m, x, weight, stride=2, act=act,
                               out=net.quant(0, 4 if act == "relu" else 1))
    m.output(x, "map")
    return m


def embedder(chip, int8=True):
    """ArcFace: residuals with a slope for each channel, then one vector of length 1."""
    net = Net(chip, int8)
    m = net.m
    x = net.conv(net.picture(16, 16), 16, 3)
    for o, stride in ((16, 1), (24, 2), (24, 2)):
        slopes = np.linspace(-0.2, 0.4, o)
        y = net.apply(ops.prelu, net.conv(x, o, 3), slopes, out=(-2, 4))
        short = x if stride == 1 else net.conv(x, o, stride=stride)
        x = net.apply(ops.add, net.conv(y, o, 3, stride=stride), short, out=(-6, 6))
    whole = net.conv(x, 32, x.shape[2:], pad=0)
    vector = ops.reshape(m, whole, (1, 32), cpu=True)
    length = net.apply(ops.reduce, "ReduceL2", vector, (1,), out=(0, 20))
    m.output(net.apply(ops.div, vector, length, out=(-1, 1)), "embedding")
    return m


def conformer(chip):
    """Speech in half precision: attention and a gated convolution over time, norms between."""
    net = Net(chip, int8=False)
    m, channels, steps = net.m, 24, 20
    scale, bias = np.linspace(0.5, 1.5, channels), np.linspace(-0.2, 0.2, channels)
    x = m.input("frames", (1, channels, 1, steps))
    x = ops.add(m, x, net.conv(net.conv(ops.norm(m, x, scale, bias), 48, act="swoosh_l"), channels))
    y = ops.norm(m, x, scale, bias, mode="layer", axes=[1])
    query, key, value = (net.conv(y, channels) for _ in range(3))
    places = net.rng.normal(size=(1, steps, 1, steps)) * 0.2
    weights = ops.softmax(m, ops.matmul(m, key, query, addend=places))
    mixed = ops.matmul(m, ops.transpose(m, value, (0, 3, 2, 1)), weights)
    x = ops.add(m, x, net.conv(mixed, channels))
    gated = ops.glu(m, net.conv(ops.norm(m, x, scale, mode="rms"), 2 * channels))
    deep = net.depthwise(gated, (1, 7), act="swish")
    x = ops.add(m, x, net.conv(deep, channels))
    m.output(ops.log_softmax(m, ops.transpose(m, ops.reshape(
        m, net.conv(x, 10), (1, 10, steps), cpu=True), (0, 2, 1), cpu=True)), "letters")
    return m


for _chip in (*CHIPS, *LITE_CHIPS):
    _act = "leaky_relu" if _chip in LITE_CHIPS else "swish"
    case("deployed", f"yolov5_{_chip}", DEEP)(lambda chip=_chip, act=_act: yolov5(chip, act))
    case("deployed", f"scrfd_{_chip}", STEPS)(lambda chip=_chip: scrfd(chip))
    case("deployed", f"embedder_{_chip}", STEPS)(lambda chip=_chip: embedder(chip))
for _chip in CHIPS:
    case("deployed", f"yolov5_relu_{_chip}", DEEP)(lambda chip=_chip: yolov5(chip, "relu"))
    case("deployed", f"scrfd_half_{_chip}", REAL)(lambda chip=_chip: scrfd(chip, False))
    case("deployed", f"text_{_chip}", STEPS)(lambda chip=_chip: text_detector(chip))
    case("deployed", f"text_half_{_chip}", REAL)(lambda chip=_chip: text_detector(chip, False))
    case("deployed", f"embedder_half_{_chip}", REAL)(lambda chip=_chip: embedder(chip, False))
    case("deployed", f"conformer_{_chip}", REAL)(lambda chip=_chip: conformer(chip))
