"""Whole nets of the kinds that people run and that no shared file is, with random weights, in floats and quantized (QDQ):
files for table.py, bench_sim --layers and bench_sim --sums.

  /usr/bin/python3 tests/bench/sim/whole_nets.py FOLDER
"""
import pathlib
import sys

import numpy as np
from sweep import Net


def const(n, value):
    return n.constant(np.asarray(value))


def source(n):
    return "x_d" if n.quantized else "x"


def silu(n, x):
    return n.add("Mul", x, n.add("Sigmoid", x))


def gelu(n, x):
    e = n.add("Erf", n.add("Div", x, const(n, np.float32(2**.5)), quantize=False), quantize=False)
    y = n.add("Mul", x, n.add("Add", e, const(n, np.float32(1)), quantize=False), quantize=False)
    return n.add("Mul", y, const(n, np.float32(.5)))


def linear(n, x, inputs, outputs):
    return n.add("Add", n.add("MatMul", x, const(n, n.weight(inputs, outputs)), quantize=False),
                 const(n, np.zeros(outputs, np.float32)))


def layer_norm(n, x, size):
    return n.add("LayerNormalization", x, const(n, np.ones(size, np.float32)), const(n, np.zeros(size, np.float32)))


def attention(n, x, tokens, size, heads):
    def split(y, perm):
        y = n.add("Reshape", y, const(n, np.int64([-1, tokens, heads, size // heads])))
        return n.add("Transpose", y, perm=perm)

    q, k, v = (linear(n, x, size, size) for _ in range(3))
    s = n.add("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
    s = n.add("Softmax", n.add("Mul", s, const(n, np.float32((size / heads)**-.5))), axis=-1)
    y = n.add("Transpose", n.add("MatMul", s, split(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    return linear(n, n.add("Reshape", y, const(n, np.int64([-1, tokens, size]))), size, size)


def vit(n):
    x = n.conv(source(n), 3, 192, 16, strides=[16, 16])
    x = n.add("Transpose", n.add("Reshape", x, const(n, np.int64([1, 192, 196]))), perm=[0, 2, 1])
    x = n.add("Add", x, const(n, np.zeros((1, 196, 192), np.float32)))
    for _ in range(3):
        x = n.add("Add", x, attention(n, layer_norm(n, x, 192), 196, 192, 3))
        x = n.add("Add", x, linear(n, gelu(n, linear(n, layer_norm(n, x, 192), 192, 768)), 768, 192))
    linear(n, n.add("ReduceMean", layer_norm(n, x, 192), const(n, np.int64([1])), keepdims=0), 192, 1000)


def squeeze_excite(n, x, channels):
    y = n.conv(n.add("GlobalAveragePool", x), channels, channels // 4)
    return n.add("Mul", x, n.add("HardSigmoid", n.conv(n.add("Relu", y), channels // 4, channels)))


def mobilenet_v3(n):
    x = n.add("HardSwish", n.conv(source(n), 3, 16, 3, strides=[2, 2], pads=[1] * 4))
    at = 16
    for to, kernel, stride, wide, act in ((16, 3, 1, 16, "Relu"), (24, 3, 2, 64, "Relu"), (24, 3, 1, 72, "Relu"), (40, 5, 2, 72, "Relu"),
                                          (40, 5, 1, 120, "Relu"), (80, 3, 2, 240, "HardSwish"), (80, 3, 1, 200, "HardSwish"),
                                          (112, 3, 1, 480, "HardSwish"), (160, 5, 2, 672, "HardSwish"), (160, 5, 1, 960, "HardSwish")):
        y = n.add(act, n.conv(x, at, wide))
        y = n.add(act, n.conv(y, wide, wide, kernel, group=wide, strides=[stride] * 2, pads=[kernel // 2] * 4))
        if kernel == 5:
            y = squeeze_excite(n, y, wide)
        y = n.conv(y, wide, to)
        x, at = (n.add("Add", x, y) if stride == 1 and at == to else y), to
    x = n.add("GlobalAveragePool", n.add("HardSwish", n.conv(x, 160, 960)))
    n.conv(n.add("HardSwish", n.conv(x, 960, 1280)), 1280, 1000)


def efficientnet(n):
    x = silu(n, n.conv(source(n), 3, 32, 3, strides=[2, 2], pads=[1] * 4))
    at = 32
    for to, kernel, stride, times in ((16, 3, 1, 1), (24, 3, 2, 6), (24, 3, 1, 6), (40, 5, 2, 6), (80, 3, 2, 6), (112, 5, 1, 6), (192, 5, 2, 6)):
        wide = at * times
        y = silu(n, n.conv(x, at, wide)) if times > 1 else x
        y = silu(n, n.conv(y, wide, wide, kernel, group=wide, strides=[stride] * 2, pads=[kernel // 2] * 4))
        z = silu(n, n.conv(n.add("GlobalAveragePool", y), wide, at // 4))
        y = n.conv(n.add("Mul", y, n.add("Sigmoid", n.conv(z, at // 4, wide))), wide, to)
        x, at = (n.add("Add", x, y) if stride == 1 and at == to else y), to
    n.add("GlobalAveragePool", silu(n, n.conv(x, 192, 1280)))


def convnext(n):
    x = n.conv(source(n), 3, 96, 4, strides=[4, 4])
    at = 96
    for stage in range(3):
        for _ in range(2):
            y = n.conv(x, at, at, 7, group=at, pads=[3] * 4)
            y = layer_norm(n, n.add("Transpose", y, perm=[0, 2, 3, 1]), at)
            y = linear(n, gelu(n, linear(n, y, at, 4 * at)), 4 * at, at)
            y = n.add("Mul", y, const(n, np.full(at, .5, np.float32)))
            x = n.add("Add", x, n.add("Transpose", y, perm=[0, 3, 1, 2]))
        if stage < 2:
            x, at = n.conv(x, at, 2 * at, 2, strides=[2, 2]), 2 * at


def conv1d(n, x, inputs, outputs, kernel, stride=1, dilation=1, groups=1):
    w = n.weight(outputs, inputs // groups, kernel)
    if n.quantized:
        top = np.float32(abs(w).max() / 127)
        q = const(n, np.round(w / top).astype(np.int8))
        w = n.add("DequantizeLinear", q, const(n, top), const(n, np.int8(0)), quantize=False)
    else:
        w = const(n, w)
    pad = (kernel - 1) * dilation // 2
    return n.add("Conv", x, w, kernel_shape=[kernel], strides=[stride], dilations=[dilation], pads=[pad, pad], group=groups)


def tcn(n):
    x = n.add("Relu", conv1d(n, source(n), 40, 128, 5, 2))
    for k in range(6):
        y = n.add("PRelu", conv1d(n, x, 128, 256, 1), const(n, np.full((256, 1), .25, np.float32)))
        y = n.add("PRelu", conv1d(n, y, 256, 256, 3, 1, 2**k, 256), const(n, np.full((256, 1), .25, np.float32)))
        x = n.add("Add", x, conv1d(n, y, 256, 128, 1))
    n.add("Softmax", conv1d(n, x, 128, 32, 1), axis=1)


def lstm(n):
    x = n.add("Relu", conv1d(n, source(n), 40, 128, 3, 2))
    x = n.add("Transpose", x, perm=[2, 0, 1])
    for at in (128, 128):
        y, _, _ = n.add("LSTM", x, const(n, n.weight(1, 512, at)), const(n, n.weight(1, 512, 128)),
                        outputs=3, quantize=False, hidden_size=128)
        x = n.add("Squeeze", y, const(n, np.int64([1])))
    n.add("LogSoftmax", linear(n, x, 128, 64), axis=-1)


def resize(n, x, mode="linear"):
    extra = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"} if mode == "nearest" else {}
    return n.add("Resize", x, "", const(n, np.float32([1, 1, 2, 2])), mode=mode, **extra)


def segmentation(n):
    x, skips, at = source(n), [], 3
    for to in (16, 32, 64, 96):
        x = n.add("Relu", n.conv(x, at, to, 3, strides=[2, 2], pads=[1] * 4))
        x = n.add("Relu", n.conv(x, to, to, 3, pads=[1] * 4, group=to))
        x, at = n.add("Relu", n.conv(x, to, to)), to
        skips.append((x, to))
    for skip, wide in skips[-2::-1]:
        x = n.add("Concat", resize(n, x), skip, axis=1)
        x, at = n.add("Relu", n.conv(x, at + wide, wide, 3, pads=[1] * 4)), wide
    n.add("ArgMax", resize(n, n.conv(x, at, 21)), axis=1, quantize=False)


def unet(n):
    x, skips, at = source(n), [], 3
    for to in (16, 32, 64, 128):
        x = n.add("Relu", n.conv(x, at, to, 3, pads=[1] * 4))
        x, at = n.add("Relu", n.conv(x, to, to, 3, pads=[1] * 4)), to
        skips.append((x, to))
        x = n.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for skip, wide in skips[-2::-1]:
        if at == 128 and wide == 64:
            x = skips[-1][0]
        x = n.conv(x, at, wide, 2, kind="ConvTranspose", strides=[2, 2])
        x, at = n.add("Relu", n.conv(n.add("Concat", x, skip, axis=1), 2 * wide, wide, 3, pads=[1] * 4)), wide
    n.add("Sigmoid", n.conv(x, at, 1))


def shufflenet(n):
    x, at = n.add("Relu", n.conv(source(n), 3, 24, 3, strides=[2, 2], pads=[1] * 4)), 24
    x = n.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    size = 56
    for to in (116, 232):
        half, size = to // 2, size // 2
        left = n.conv(n.conv(x, at, at, 3, group=at, strides=[2, 2], pads=[1] * 4), at, half)
        right = n.add("Relu", n.conv(x, at, half))
        right = n.conv(n.conv(right, half, half, 3, group=half, strides=[2, 2], pads=[1] * 4), half, half)
        for k in range(4):
            x = n.add("Concat", left, right, axis=1)
            x = n.add("Reshape", x, const(n, np.int64([1, 2, half, size, size])))
            x = n.add("Reshape", n.add("Transpose", x, perm=[0, 2, 1, 3, 4]), const(n, np.int64([1, to, size, size])))
            if k < 3:
                left, right = n.add("Split", x, outputs=2, axis=1, num_outputs=2)
                right = n.add("Relu", n.conv(right, half, half))
                right = n.add("Relu", n.conv(n.conv(right, half, half, 3, group=half, pads=[1] * 4), half, half))
        at = to
    n.add("GlobalAveragePool", n.add("Relu", n.conv(x, at, 512)))


def yolo(n):
    def block(x, inputs, outputs, kernel=1, stride=1):
        return silu(n, n.conv(x, inputs, outputs, kernel, strides=[stride] * 2, pads=[kernel // 2] * 4))

    def c2f(x, inputs, outputs):
        half = outputs // 2
        a, b = n.add("Split", block(x, inputs, outputs), outputs=2, axis=1, num_outputs=2)
        c = n.add("Add", b, block(block(b, half, half, 3), half, half, 3))
        return block(n.add("Concat", a, b, c, axis=1), 3 * half, outputs)

    x = block(block(source(n), 3, 16, 3, 2), 16, 32, 3, 2)
    x = c2f(x, 32, 32)
    p3 = c2f(block(x, 32, 64, 3, 2), 64, 64)
    p4 = c2f(block(p3, 64, 128, 3, 2), 128, 128)
    y = block(p4, 128, 64)
    pools = [y]
    for _ in range(3):
        pools.append(n.add("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    p4 = block(n.add("Concat", *pools, axis=1), 256, 128)
    p3 = c2f(n.add("Concat", resize(n, p4, "nearest"), p3, axis=1), 192, 64)
    outputs = []
    for p, at, side in ((p3, 64, 40), (p4, 128, 20)):
        y = n.add("Concat", n.conv(block(p, at, 64, 3), 64, 64), n.conv(block(p, at, 80, 3), 80, 80), axis=1)
        outputs.append(n.add("Reshape", y, const(n, np.int64([1, 144, side * side]))))
    boxes, scores = n.add("Split", n.add("Concat", *outputs, axis=2), const(n, np.int64([64, 80])), outputs=2, axis=1)
    boxes = n.add("Reshape", boxes, const(n, np.int64([1, 4, 16, 2000])))
    boxes = n.add("Transpose", n.add("Softmax", n.add("Transpose", boxes, perm=[0, 3, 1, 2]), axis=3), perm=[0, 3, 2, 1])
    boxes = n.add("Reshape", n.conv(boxes, 16, 1), const(n, np.int64([1, 4, 2000])))
    n.add("Concat", boxes, n.add("Sigmoid", scores), axis=1)


def resnet(n):
    x, at = n.add("Relu", n.conv(source(n), 3, 32, 3, strides=[2, 2], pads=[1] * 4)), 32
    for to, stride in ((32, 1), (64, 2), (128, 2)):
        y = n.add("Relu", n.conv(x, at, to, 3, strides=[stride] * 2, pads=[1] * 4))
        y = n.conv(y, to, to, 3, pads=[1] * 4)
        x = n.add("Relu", n.add("Add", y, x if at == to else n.conv(x, at, to, strides=[stride] * 2)))
        at = to
    n.conv(n.add("GlobalAveragePool", x), at, 100)


def inception(n):
    x = n.add("Relu", n.conv(source(n), 3, 32, 3, strides=[2, 2], pads=[1] * 4))
    for at in (32, 96, 96):
        parts = [n.add("Relu", n.conv(x, at, 32)),
                 n.add("Relu", n.conv(n.add("Relu", n.conv(x, at, 16)), 16, 32, 3, pads=[1] * 4)),
                 n.conv(n.add("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4), at, 32)]
        x = n.add("Concat", *parts, axis=1)
        x = n.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    n.add("Softmax", n.add("Flatten", n.conv(n.add("GlobalAveragePool", x), 96, 100)), axis=-1)


NETS = {
    "vit": (vit, [1, 3, 224, 224]), "mobilenet_v3": (mobilenet_v3, [1, 3, 224, 224]),
    "efficientnet": (efficientnet, [1, 3, 160, 160]), "convnext": (convnext, [1, 3, 128, 128]), "tcn": (tcn, [1, 40, 400]),
    "lstm": (lstm, [1, 40, 100]), "segmentation": (segmentation, [1, 3, 256, 256]), "unet": (unet, [1, 3, 128, 128]),
    "shufflenet_v2": (shufflenet, [1, 3, 224, 224]), "yolo": (yolo, [1, 3, 320, 320]), "resnet_batch8": (resnet, [8, 3, 64, 64]),
    "inception": (inception, [1, 3, 128, 128]),
}


def main(folder):
    for name, (build, shape) in NETS.items():
        for quantized in (False, True):
            net = Net(shape, quantized)
            build(net)
            net.save(pathlib.Path(folder, name + ("_int8" if quantized else "_float") + ".onnx"))


if __name__ == "__main__":
    main(*sys.argv[1:])
