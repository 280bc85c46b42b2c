"""Small quantized networks of random weights: each operator that has a form on 8-bit numbers, signed and
unsigned, one scale for a weight or one for each output, odd zero points, pads, strides, groups."""
import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """With every_tensor each quantized tensor is an output of the network."""

    def __init__(self, activation, weight=np.int8, per_channel=False, every_tensor=True):
        self.rng = np.random.default_rng(7)
        self.activation, self.weight, self.per_channel = activation, weight, per_channel
        self.every_tensor = every_tensor
        self.low = -128 if activation == np.int8 else 0
        self.nodes, self.constants, self.outputs, self.scales = [], [], [], {}

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def form(self, scale, zp):
        return [self.constant(np.float32(scale)),
                self.constant(np.array(self.low + zp, self.activation))]

    def quantized(self, x, scale, zp=121):
        """The tensor after QuantizeLinear and DequantizeLinear."""
        form = self.form(scale, zp)
        stored = self.node("QuantizeLinear", [x, *form])
        if self.every_tensor:
            self.outputs.append(stored)
        y = self.node("DequantizeLinear", [stored, *form])
        self.scales[y] = np.float32(scale)
        return y

    def stored_constant(self, shape, scale, zp=100):
        values = self.rng.integers(0, 256, shape) + self.low
        form = self.form(scale, zp)
        return self.node("DequantizeLinear", [self.constant(values.astype(self.activation)), *form])

    def weights(self, x, shape, axis, bias=True):
        """A weight and a bias with a scale for all or for each output, for the input x."""
        n = (shape[axis],) if self.per_channel else ()
        scale = self.rng.uniform(.001, .02, n).astype(np.float32)
        signed = self.weight == np.int8
        values = self.rng.integers(-127 if signed else 0, 128 if signed else 256, shape)
        zp = np.full(n, 0 if signed else 117, self.weight)
        w = [self.constant(values.astype(self.weight)), self.constant(scale), self.constant(zp)]
        made = [self.node("DequantizeLinear", w, axis=axis)]
        if bias:
            b = self.rng.integers(-2000, 2000, shape[axis]).astype(np.int32)
            b = [self.constant(b), self.constant((self.scales[x] * scale).astype(np.float32)),
                 self.constant(np.zeros(n, np.int32))]
            made.append(self.node("DequantizeLinear", b, axis=0))
        return made

    def conv(self, x, shape, bias=True, **attributes):
        return self.node("Conv", [x, *self.weights(x, shape, 0, bias)], **attributes)

    def model(self, inputs, last, opset=13):
        outputs = self.outputs + [last]
        graph = helper.make_graph(
            self.nodes, "net",
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()],
            [helper.make_empty_tensor_value_info(o) for o in outputs], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        return model


IMAGE = {"x": [1, 3, 20, 20]}


def convolutions(net):
    x = net.quantized("x", .0157, 131)
    a = net.quantized(net.node("Relu", [net.conv(x, (16, 3, 3, 3), pads=[1] * 4)]), .05, 0)
    b = net.quantized(net.conv(a, (16, 1, 3, 3), pads=[1] * 4, group=16), .13)
    c = net.quantized(net.conv(b, (24, 8, 3, 3), pads=[0, 1, 2, 1], strides=[2, 1], group=2), .9)
    d = net.quantized(net.conv(c, (8, 24, 1, 1), bias=False), 2.2, 99)
    e = net.quantized(net.conv(b, (16, 1, 5, 5), pads=[2] * 4, strides=[2, 2], group=16), .5, 77)
    f = net.quantized(net.conv(e, (8, 16, 3, 3), dilations=[2, 2]), 1.7)
    top = net.constant(np.float32(6))
    g = net.node("Clip", [net.conv(f, (5, 8, 2, 3)), net.constant(np.float32(0)), top])
    g = net.quantized(g, 6 / 255, 0)
    return net.model(IMAGE, net.node("Concat", [net.node("Flatten", [t]) for t in (d, g)], axis=1))


def lines(net):
    """Convolutions of images of one dimension."""
    x = net.quantized("x", .0157, 131)
    a = net.quantized(net.node("Relu", [net.conv(x, (16, 3, 5), pads=[2, 2])]), .05, 0)
    b = net.quantized(net.conv(a, (16, 1, 3), pads=[2, 2], dilations=[2], group=16), .13)
    c = net.quantized(net.conv(b, (24, 8, 3), pads=[0, 1], strides=[2], group=2), .6)
    return net.model({"x": [2, 3, 41]}, net.quantized(net.conv(c, (8, 24, 1), bias=False), 1.4, 99))


def products(net):
    x = net.quantized("x", .0079, 126)
    w, = net.weights(x, (48, 40), 1, bias=False)
    a = net.quantized(net.node("MatMul", [x, w]), .07)
    b = net.quantized(net.node("Gemm", [a, *net.weights(a, (24, 40), 0)], transB=1), .6, 90)
    c = net.quantized(net.node("Relu", [net.node("Gemm", [b, *net.weights(b, (24, 33), 1)])]), 2, 0)
    return net.model({"x": [5, 48]}, net.node("Gemm", [c, *net.weights(c, (10, 33), 0)], transB=1))


def batches(net):
    x = net.quantized("x", .0079, 126)
    w, = net.weights(x, (48, 40), 1, bias=False)
    a = net.quantized(net.node("MatMul", [x, w]), .07)
    return net.model({"x": [2, 3, 5, 48]}, a)


def residual(net):
    """What a network is made of, together."""
    x = net.quantized("x", .0157, 131)
    a = net.quantized(net.node("Relu", [net.conv(x, (16, 3, 3, 3), pads=[1] * 4)]), .05, 0)
    b = net.quantized(net.conv(a, (16, 1, 3, 3), pads=[1] * 4, group=16), .13)
    s = net.quantized(net.node("Add", [a, b]), .15, 101)
    m = net.quantized(net.node("MaxPool", [s], kernel_shape=[2, 2], strides=[2, 2]), .15, 101)
    f = net.quantized(net.conv(m, (8, 16, 1, 1)), .9, 128)
    g = net.quantized(net.node("Relu", [net.conv(m, (8, 8, 3, 3), pads=[1] * 4, group=2)]), .7, 0)
    k = net.quantized(net.node("Concat", [f, g], axis=1), .95, 125)
    return net.model(IMAGE, net.quantized(net.node("GlobalAveragePool", [k]), .3, 128))


def arithmetic(net):
    a, b = net.quantized("a", .0079, 126), net.quantized("b", .0063, 155)
    for i in range(6):
        op, scales = ("Add", "Mul")[i % 2], net.rng.uniform(.004, .02, 2)
        b = net.quantized(net.node(op, [a, b]), scales[0], int(net.rng.integers(40, 220)))
        a = net.quantized(net.node(op, [b, a]), scales[1], int(net.rng.integers(40, 220)))
    for op in ("Add", "Mul"):
        for shape in ((), (1, 7, 1, 1), (13,), (1, 1, 13, 13)):
            constant = net.stored_constant(shape, .011)
            a = net.quantized(net.node(op, [a, constant]), .013, 111)
            b = net.quantized(net.node(op, [constant, b]), .012, 133)
    c = net.quantized(net.node("Relu", [net.node("Add", [a, b])]), .009, 0)
    return net.model({"a": [1, 7, 13, 13], "b": [1, 7, 13, 13]}, c)


def pools(net):
    x, ends = net.quantized("x", .0079, 126), []
    windows = [{"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]},
               {"kernel_shape": [3, 2], "strides": [1, 2]},
               {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}]
    for window, zp in itertools.product(windows, (99, 130)):
        ends.append(net.quantized(net.node("AveragePool", [x], **window), .0041, zp))
        ends.append(net.quantized(
            net.node("AveragePool", [x], count_include_pad=1, **window), .0052, zp))
        ends.append(net.quantized(net.node("MaxPool", [x], **window), .0079, 126))
    ends.append(net.quantized(net.node("GlobalAveragePool", [x]), .0011, 126))
    ends.append(net.quantized(net.node("AveragePool", [x], kernel_shape=[20, 20]), .0009, 120))
    return net.model(IMAGE, net.node("Concat", [net.node("Flatten", [e]) for e in ends], axis=1))


def gates(net):
    """One number for each channel times its image, as squeeze-and-excitation has it; bounds that keep the scale."""
    x, ends = net.quantized("x", .0079, 126), []
    mean = net.quantized(net.node("GlobalAveragePool", [x]), .0031, 120)
    gate = net.quantized(net.node("HardSigmoid", [mean]), 1 / 255, 0)
    for op, a, b in (("Mul", x, gate), ("Mul", gate, x), ("Add", x, mean), ("Add", mean, x)):
        ends.append(net.quantized(net.node(op, [a, b]), .0083, 119))
    ends.append(net.quantized(net.node("Relu", [x]), .0079, 126))
    ends.append(net.quantized(net.node("Clip", [x, *(net.constant(np.float32(v)) for v in (-.5, .5))]), .0079, 126))
    ends.append(net.quantized(net.node("AveragePool", [x], kernel_shape=[3, 3], pads=[1] * 4), .0041, 99))
    return net.model({"x": [2, 41, 12, 13]}, net.node("Concat", ends, axis=1))


def moves(net):
    x = net.quantized("x", .0079, 126)
    a, b = net.node("Split", [x, net.constant(np.array([1, 2]))], 2, axis=1)
    a, b = net.quantized(a, .0079, 126), net.quantized(b, .0079, 126)
    c = net.quantized(net.node("Concat", [b, a, x], axis=1), .0091, 117)
    same = dict(scale=.0091, zp=117)
    starts, ends = net.constant(np.array([1, 2])), net.constant(np.array([5, 19]))
    c = net.quantized(net.node("Slice", [c, starts, ends, net.constant(np.array([1, 3]))]), **same)
    c = net.quantized(net.node("Transpose", [c], perm=[0, 2, 3, 1]), **same)
    c = net.quantized(net.node("Reshape", [c, net.constant(np.array([1, 10, 34, 4]))]), **same)
    sizes = net.constant(np.array([1, 1, 2, 2], np.float32))
    c = net.quantized(net.node("Resize", [c, "", sizes], mode="nearest"), **same)
    c = net.quantized(net.node("MaxPool", [c], kernel_shape=[2, 2]), .0083, 120)
    c = net.quantized(net.node("Flatten", [c]), .0083, 120)
    return net.model(IMAGE, net.node("Unsqueeze", [c, net.constant(np.array([0]))]))


def functions(net):
    x = net.quantized("x", .031, 126)
    ends = [net.quantized(net.node("Sigmoid", [x]), 1 / 256, 0),
            net.quantized(net.node("LeakyRelu", [x], alpha=.1), .021, 44),
            net.quantized(net.node("Tanh", [x]), 1 / 128, 128),
            net.quantized(net.node("HardSigmoid", [x]), 1 / 255, 0),
            net.quantized(net.node("Relu", [x]), .017, 3),
            net.quantized(net.node("Mul", [x, net.node("Sigmoid", [x])]), .019, 30)]
    ends += [net.quantized(net.node("Mul", [x, ends[0]]), .0185, 33),
             net.quantized(net.node("Mul", [ends[0], x]), .02, 31)]
    return net.model(IMAGE, net.node("Concat", ends, axis=1))


def numbers(net):
    """Functions of a tensor and of single numbers that have no int8 node of their own."""
    x = net.quantized("x", .031, 126)

    def number(value):
        return net.constant(np.float32(value))

    ends = [net.quantized(net.node(*of), scale, zp) for of, scale, zp in (
        (("Sin", [x]), 1 / 128, 128), (("Celu", [x]), .021, 50), (("Selu", [x]), .022, 80),
        (("Softsign", [x]), 1 / 128, 126), (("Pow", [x, number(3)]), .4, 126), (("Max", [x, number(.5)]), .0171, 3),
        (("Min", [number([1]), x]), .0173, 220), (("PRelu", [x, number([.2])]), .0211, 40))]
    ends.append(net.quantized(net.node("Cos", [net.node("Pow", [number(2), x])]), 1 / 127, 128))
    return net.model(IMAGE, net.node("Concat", ends, axis=1))


def softmax(net):
    x = net.quantized("x", .05, 126)
    a = net.quantized(net.node("Softmax", [x], axis=1), 1 / 255, 0)
    b = net.quantized(net.node("Softmax", [net.node("Flatten", [x])], axis=-1), 1 / 400, 0)
    ends = [net.quantized(net.node("Softmax", [x], axis=axis), 1 / 300, 0) for axis in (2, 3)]
    return net.model(IMAGE, net.node("Concat", [*(net.node("Flatten", [e]) for e in (a, *ends)), b], axis=1))


def heads(net):
    """Attention of three heads: 4-dimensional tensors that are no images, with rows of 37 in the softmax."""
    def turned(x, perm):
        return net.node("Transpose", [net.node("Reshape", [x, net.constant(np.array([1, 37, 3, 16]))])], perm=perm)

    x = net.quantized("x", .0079, 126)
    q, k, v = (net.quantized(net.node("MatMul", [x, net.weights(x, (48, 48), 1, bias=False)[0]]), .05)
               for _ in range(3))
    s = net.node("MatMul", [turned(q, [0, 2, 1, 3]), turned(k, [0, 2, 3, 1])])
    # Of sums of .05 * .05 * .25, none is near the middle of two steps of .1236875.
    s = net.quantized(net.node("Mul", [s, net.constant(np.float32(.25))]), .1236875, 126)
    s = net.quantized(net.node("Softmax", [s], axis=-1), 1 / 255, 0)
    y = net.node("MatMul", [s, turned(v, [0, 2, 1, 3])])
    return net.model({"x": [1, 37, 48]}, net.node("Flatten", [net.node("Transpose", [y], perm=[0, 2, 1, 3])]))


def pieces(net):
    """Functions of one tensor in several nodes, all of them quantized: GELU, and what follows on a table."""
    x = net.quantized("x", .031, 126)
    a = net.quantized(net.node("Div", [x, net.constant(np.float32(2**.5))]), .0222, 125)
    a = net.quantized(net.node("Erf", [a]), 1 / 128, 128)
    a = net.quantized(net.node("Add", [a, net.constant(np.float32([1]))]), 2 / 255, 0)
    a = net.quantized(net.node("Mul", [x, a]), .058, 30)
    a = net.quantized(net.node("Mul", [net.constant(np.float32(.5)), a]), .029, 31)
    b = net.quantized(net.node("Sub", [net.constant(np.float32(1)), net.node("Sigmoid", [a])]), 1 / 256, 3)
    c = net.quantized(net.node("Mul", [b, a]), .01, 77)
    d = net.quantized(net.node("Add", [c, b]), .012, 70)
    # what takes these has channels first, where the table's input has them last
    lines = net.quantized(net.node("Atan", [x]), .012, 127)
    chosen = net.node("Where", [net.constant(np.arange(20) % 3 == 0), lines, net.constant(np.float32(.3))])
    e = net.quantized(chosen, .012, 128)
    return net.model(IMAGE, net.node("Concat", [a, b, c, d, e], axis=1))


def reals():
    """Floats: normalizations, transposed convolutions of windows of all kinds, averages, softmax over channels."""
    net = Net(np.uint8)
    ends = []

    def end(op, inputs, **attributes):
        ends.append(net.node("Flatten", [net.node(op, inputs, **attributes)]))

    def normal(*shape):
        return net.constant(net.rng.normal(size=shape).astype(np.float32))

    pixels = net.node("Transpose", ["x"], perm=[0, 2, 3, 1])
    end("LayerNormalization", [pixels, normal(3), normal(3)])
    end("LayerNormalization", ["x", normal(20, 20), normal(20, 20)], axis=2)
    end("LayerNormalization", [net.node("Reshape", ["x", net.constant(np.array([1, 60, 20]))]), normal(20)])
    end("InstanceNormalization", ["x", normal(3), normal(3)])
    groups = net.node("Reshape", ["x", net.constant(np.array([1, 3, -1]))])
    end("InstanceNormalization", [groups, normal(3), normal(3)])
    for kernel, stride, attributes in (
            (2, 2, {}), (3, 2, {"pads": [1] * 4, "output_padding": [1, 1]}), (4, 2, {"pads": [1] * 4}), (5, 3, {}),
            (4, 4, {}), (3, 1, {}), (3, 2, {"dilations": [2, 2]}), (1, 2, {})):
        for outputs, group in ((5, 1), (1, 3)):
            w = normal(3, outputs, kernel, kernel)
            x = net.node("ConvTranspose", ["x", w, normal(outputs * group)], strides=[stride] * 2, group=group,
                         **attributes)
            end("Relu", [x])
    for attributes in ({"pads": [1] * 4}, {"strides": [2, 1], "pads": [0, 1, 1, 0], "count_include_pad": 1}, {}):
        end("AveragePool", ["x"], kernel_shape=[3, 3], **attributes)
    end("Softmax", ["x"], axis=1)
    end("Softmax", ["x"], axis=3)
    wide = net.node("Concat", [x for _ in range(4) for x in ("x", net.node("Neg", ["x"]))][:7], axis=1)
    pooled = net.node("MaxPool", [wide], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for image in (wide, pooled):
        end("GlobalAveragePool", [image])
        end("PRelu", [image, normal(21, 1, 1)])
        for axis, keep in ((1, 1), (1, 0), (3, 1)):
            index = net.node("ArgMax", [image], axis=axis, keepdims=keep)  # most channels have an equal one
            ends.append(net.node("Flatten", [net.node("Cast", [index], to=TensorProto.FLOAT)]))
    net.outputs = ends[:-1]
    return net.model(IMAGE, ends[-1], opset=17)


def resizes():
    """Sizes and scales of some axes, and sizes that are a frame."""
    net = Net(np.uint8)
    image = net.node("Relu", ["x"])
    ends = []
    for mode in ("nearest", "linear", "cubic"):
        for axes, form, attributes in (
                ([2, 3], {"sizes": [33, 9]}, {}), ([-1, -2], {"scales": [.7, 2.3]}, {}), ([3], {"scales": [1.7]}, {}),
                ([2, 3], {"sizes": [33, 50]}, {"keep_aspect_ratio_policy": "not_larger"}),
                ([2, 3], {"sizes": [13, 50]}, {"keep_aspect_ratio_policy": "not_smaller"})):
            scales = net.constant(np.array(form["scales"], np.float32)) if "scales" in form else ""
            sizes = [net.constant(np.array(form["sizes"], np.int64))] if "sizes" in form else []
            made = net.node("Resize", [image, "", scales, *sizes], axes=axes, mode=mode, **attributes)
            ends.append(net.node("Flatten", [made]))
    for rounding in ("round_prefer_ceil", "round_prefer_floor"):  # 20 pixels become 16: each second one is between two
        made = net.node("Resize", [image, "", "", net.constant(np.array([16, 32]))], axes=[2, 3], mode="nearest", nearest_mode=rounding,
                        coordinate_transformation_mode="asymmetric")
        ends.append(net.node("Flatten", [made]))
    net.outputs = ends[:-1]
    return net.model(IMAGE, ends[-1], opset=18)


def groups(opset):
    """GroupNormalization: factors of groups or (from set 21 on) of channels, constant and computed, of lines, images and volumes."""
    net = Net(np.uint8)
    ends = []
    wide = net.node("Concat", ["x", net.node("Abs", ["x"])], axis=1)
    for shape in ([1, 6, 20, 20], [2, 6, 200], [1, 12, 5, 10, 4]):
        x = net.node("Reshape", [wide, net.constant(np.array(shape))])
        for n in (1, 3, shape[1]):
            each = shape[1] if opset >= 21 else n
            factors = [net.constant(net.rng.normal(size=each).astype(np.float32)) for _ in range(2)]
            computed = net.node("Add", [factors[0], net.node("ReduceMax", ["x"], keepdims=0)])
            for scale in (factors[0], computed):
                ends.append(net.node("Flatten", [net.node("GroupNormalization", [x, scale, factors[1]], num_groups=n, epsilon=1e-3)]))
    net.outputs = ends[:-1]
    return net.model(IMAGE, ends[-1], opset=opset)


def integers(net):
    """ConvInteger and MatMulInteger of what is quantized while it runs: windows, pads, groups, depthwise,
    lines, one zero point for a weight or one for each output; sums as they are and as real numbers."""
    def quantized(x):
        return net.node("DynamicQuantizeLinear", [x], 3)

    def weight(shape, n):
        limits = np.iinfo(net.weight)
        values = net.rng.integers(limits.min, limits.max + 1, shape).astype(net.weight)
        zp = net.rng.integers(-9 if net.weight == np.int8 else 100, 131 if limits.min == 0 else 9, n)
        return [net.constant(values), net.constant(zp.astype(net.weight))]

    def conv(x, shape, **attributes):
        bytes_of_x, scale, zp = quantized(x)
        w, w_zp = weight(shape, ())  # ONNX Runtime has no others
        sums = net.node("ConvInteger", [bytes_of_x, w, zp, w_zp], **attributes)
        real = net.node("Mul", [net.node("Cast", [sums], to=TensorProto.FLOAT), scale])
        added = net.constant(net.rng.normal(size=(1, shape[0]) + (1,) * (len(shape) - 2))
                             .astype(np.float32))
        return sums, net.node("Add", [added, real])

    def flat(x):
        return net.node("Cast", [net.node("Flatten", [x])], to=TensorProto.FLOAT)

    ends = []
    sums, a = conv("x", (16, 3, 3, 3), pads=[1] * 4)
    ends += [flat(sums), flat(a)]
    relu = net.node("Relu", [conv(a, (16, 1, 3, 3), pads=[1, 0, 2, 1], group=16)[1]])
    b = net.node("Neg", [conv(relu, (24, 8, 3, 3), strides=[2, 1], group=2)[1]])
    ends += [flat(relu), flat(conv(b, (8, 24, 1, 1))[1])]
    ends.append(flat(conv(b, (8, 24, 2, 2), dilations=[2, 1], pads=[2, 0, 0, 1])[0]))
    lines = net.node("Reshape", [a, net.constant(np.array([1, 16, 400]))])
    ends.append(flat(conv(lines, (8, 16, 5), pads=[2, 1], strides=[3])[1]))
    for shape in ([20, 320], [4, 5, 320], [2, 2, 5, 320]):
        matrix = net.node("Reshape", [a, net.constant(np.array(shape))])
        bytes_of_x, _, zp = quantized(matrix)
        w, w_zp = weight((320, 33), (33,) if net.per_channel else ())
        sums = net.node("MatMulInteger", [bytes_of_x, w, zp, w_zp])
        ends.append(net.node("Reshape", [flat(sums), net.constant(np.array([1, -1]))]))
    return net.model(IMAGE, net.node("Concat", ends, axis=1))


WITH_WEIGHTS = [convolutions, lines, products, batches, residual, heads]
WITHOUT = [arithmetic, pools, gates, moves, functions, numbers, softmax, pieces]


def write_all(folder):
    """Each network's file; every quantized tensor is an output."""
    for name, net in (("reals", reals()), ("resizes", resizes()), ("groups_18", groups(18)), ("groups_21", groups(21))):
        path = folder / f"{name}.onnx"
        onnx.save(net, path)
        yield path
    for activation in (np.uint8, np.int8):
        kinds = [(b, w, c) for b in WITH_WEIGHTS for w in (np.uint8, np.int8) for c in (False, True)]
        for build, weight, per_channel in kinds + [(b, np.int8, False) for b in WITHOUT]:
            for every in (True, False):
                parts = [build.__name__, activation.__name__, weight.__name__]
                parts += ["channels"] * per_channel + ["inside"] * every
                path = folder / ("qdq_" + "_".join(parts) + ".onnx")
                onnx.save(build(Net(activation, weight, per_channel, every)), path)
                yield path
    for weight, per_channel in ((np.uint8, False), (np.uint8, True), (np.int8, False), (np.int8, True)):
        path = folder / f"integers_{weight.__name__}{'_channels' * per_channel}.onnx"
        onnx.save(integers(Net(np.uint8, weight, per_channel)), path)
        yield path
