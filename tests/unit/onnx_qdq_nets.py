"""Small quantized networks of random weights, in every mixture of signed and unsigned 8-bit numbers,
with one scale for a weight and with one for each channel."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self, activation, weight, per_channel):
        self.rng = np.random.default_rng(7)
        self.activation, self.weight, self.per_channel = activation, weight, per_channel
        self.low = -128 if activation == np.int8 else 0
        self.nodes, self.constants = [], []

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def qdq(self, x, scale, zp):
        form = [self.constant(np.float32(scale)),
                self.constant(np.array(self.low + zp, self.activation))]
        self.node("QuantizeLinear", [x, *form], x + "_q")
        return self.node("DequantizeLinear", [x + "_q", *form], x + "_dq")

    def weights(self, shape):
        if self.weight == np.int8:
            return self.rng.integers(-127, 128, shape).astype(np.int8), 0
        return self.rng.integers(0, 256, shape).astype(np.uint8), 117

    def conv(self, x, x_scale, y, inputs, outputs, kernel, groups, relu):
        n = (outputs,) if self.per_channel else ()
        scale = self.rng.uniform(.001, .02, n).astype(np.float32)
        values, zp = self.weights((outputs, inputs // groups, kernel, kernel))
        w = [self.constant(values), self.constant(scale),
             self.constant(np.full(n, zp, self.weight))]
        b = [self.constant(self.rng.integers(-2000, 2000, outputs).astype(np.int32)),
             self.constant((np.float32(x_scale) * scale).astype(np.float32)),
             self.constant(np.zeros(n, np.int32))]
        self.node("DequantizeLinear", w, y + "_w", axis=0)
        self.node("DequantizeLinear", b, y + "_b", axis=0)
        self.node("Conv", [x, y + "_w", y + "_b"], y + "_sum" if relu else y,
                  pads=[kernel // 2] * 4, group=groups)
        if relu:
            self.node("Relu", [y + "_sum"], y)


def build(activation, weight, per_channel):
    net = Net(activation, weight, per_channel)
    x = net.qdq("x", .0157, 131)
    net.conv(x, .0157, "a", 3, 16, 3, 1, True)
    a = net.qdq("a", .05, 0)
    net.conv(a, .05, "b", 16, 16, 3, 16, False)
    b = net.qdq("b", .13, 120)
    s = net.qdq(net.node("Add", [a, b], "s"), .15, 101)
    m = net.qdq(net.node("MaxPool", [s], "m", kernel_shape=[2, 2], strides=[2, 2]), .15, 101)
    net.conv(m, .15, "f", 16, 8, 1, 1, False)
    net.conv(m, .15, "g", 16, 8, 3, 2, True)
    f, g = net.qdq("f", .9, 128), net.qdq("g", .9, 128)
    k = net.qdq(net.node("Concat", [f, g], "k", axis=1), .9, 128)
    p = net.qdq(net.node("GlobalAveragePool", [k], "p"), .3, 128)
    net.node("Identity", [k], "all")
    net.node("Identity", [p], "mean")
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("all", "mean")]
    graph = helper.make_graph(
        net.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 20, 20])],
        outputs, net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def write_all(folder):
    for activation in (np.uint8, np.int8):
        for weight in (np.uint8, np.int8):
            for per_channel in (False, True):
                scales = "channels" if per_channel else "tensor"
                name = f"qdq_{activation.__name__}_{weight.__name__}_{scales}.onnx"
                onnx.save(build(activation, weight, per_channel), folder / name)
                yield folder / name
