"""Nets of one kind of operator each, at the sizes that vision and speech nets have, in floats and quantized (QDQ),
through bench_sim: a line each, the farthest from its bound first, in which products of
matrices and transposed convolutions are counted as oneDNN does them. None of them is a shared file, so they say how fast
nets are that nobody has looked at.

  /usr/bin/python3 tests/bench/sim/sweep.py build/release/tests/bench/bench_sim [WORD IN A NET'S NAME]
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGE = [1, 64, 56, 56]
TOKENS = [1, 196, 192]
ACTIVATIONS = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "HardSwish", "leakyrelu": "LeakyRelu",
    "hardsigmoid": "HardSigmoid", "elu": "Elu", "softplus": "Softplus", "mish": "Mish", "erf": "Erf",
}


class Net:
    def __init__(self, shape, quantized):
        self.nodes, self.constants, self.quantized = [], [], quantized
        self.shape, self.rng = shape, np.random.default_rng(7)
        self.last = self._quantize("x")

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _quantize(self, name):
        if not self.quantized:
            return name
        scale, zero = self.constant(np.float32(.03)), self.constant(np.uint8(120))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [name + "_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [name + "_q", scale, zero], [name + "_d"]))
        return name + "_d"

    def add(self, kind, *inputs, outputs=1, quantize=True, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs) or [self.last], names, **attributes))
        names = [self._quantize(n) if quantize else n for n in names]
        self.last = names[0]
        return names if outputs > 1 else names[0]

    def weight(self, *shape):
        return self.rng.normal(0, (2 / np.prod(shape[1:])) ** .5, shape).astype(np.float32)

    def conv(self, x, inputs, outputs, kernel=1, kind="Conv", **attributes):
        groups = attributes.get("group", 1)
        shape = (outputs, inputs // groups) if kind == "Conv" else (inputs, outputs // groups)
        w = self.weight(*shape, kernel, kernel)
        if self.quantized:
            scale, zero = self.constant(np.float32(abs(w).max() / 127)), self.constant(np.int8(0))
            q = self.constant(np.clip(np.round(w / (abs(w).max() / 127)), -127, 127).astype(np.int8))
            self.nodes.append(helper.make_node("DequantizeLinear", [q, scale, zero], [q + "_d"]))
            w = q + "_d"
        else:
            w = self.constant(w)
        return self.add(kind, x, w, kernel_shape=[kernel, kernel], **attributes)

    def save(self, path):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_empty_tensor_value_info(self.last)
        graph = helper.make_graph(self.nodes, "net", [x], [y], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def activation(kind):
    def build(n):
        n.conv(n.last, 64, 64)
        n.add(kind)
        n.conv(n.last, 64, 64)

    return build


def silu(n):
    x = n.conv(n.last, 64, 64)
    n.add("Mul", x, n.add("Sigmoid", x))


def gelu(n):
    x = n.conv(n.last, 64, 64)
    e = n.add("Erf", n.add("Div", x, n.constant(np.float32(2**.5))))
    n.add("Mul", n.add("Mul", x, n.add("Add", e, n.constant(np.float32(1)))), n.constant(np.float32(.5)))


def channels(order):
    def build(n):
        n.conv(n.last, 64, 64)
        n.add("Reshape", n.last, n.constant(np.int64([1, 4, 16, 56, 56])))
        n.add("Transpose", perm=order)
        n.add("Reshape", n.last, n.constant(np.int64([1, 64, 56, 56])))
        n.conv(n.last, 64, 64)

    return build


def attention(n):
    def heads(x, perm):
        n.add("Reshape", x, n.constant(np.int64([1, 196, 3, 64])))
        return n.add("Transpose", perm=perm)

    q, k, v = (n.add("MatMul", "x" if not n.quantized else "x_d", n.constant(n.weight(192, 192))) for _ in range(3))
    n.add("MatMul", heads(q, [0, 2, 1, 3]), heads(k, [0, 2, 3, 1]))
    n.add("Softmax", n.add("Mul", n.last, n.constant(np.float32(.125))), axis=-1)
    n.add("MatMul", n.last, heads(v, [0, 2, 1, 3]))
    n.add("Reshape", n.add("Transpose", perm=[0, 2, 1, 3]), n.constant(np.int64(TOKENS)))


def layer_norm(n):
    n.add("MatMul", n.last, n.constant(n.weight(192, 192)))
    n.add("LayerNormalization", n.last, n.constant(np.ones(192, np.float32)), n.constant(np.zeros(192, np.float32)))


def instance_norm(n):
    n.conv(n.last, 64, 64)
    n.add("InstanceNormalization", n.last, n.constant(np.ones(64, np.float32)), n.constant(np.zeros(64, np.float32)))


def rms_norm(n):
    x = n.add("MatMul", n.last, n.constant(n.weight(192, 192)))
    s = n.add("ReduceMean", n.add("Pow", x, n.constant(np.float32(2)), quantize=False),
              n.constant(np.int64([-1])), quantize=False)
    s = n.add("Sqrt", n.add("Add", s, n.constant(np.float32(1e-6)), quantize=False), quantize=False)
    n.add("Mul", n.add("Div", x, s, quantize=False), n.constant(np.ones(192, np.float32)))


def concat(n):
    n.add("Concat", n.conv(n.last, 64, 32), n.conv(n.last, 32, 32), axis=1)
    n.conv(n.last, 64, 64)


def split(n):
    a, b = n.add("Split", n.conv(n.last, 64, 64), outputs=2, axis=1, num_outputs=2)
    n.add("Concat", n.conv(a, 32, 32, 3, pads=[1] * 4), b, axis=1)
    n.conv(n.last, 64, 64)


def focus(n):
    parts = [n.add("Slice", "x" if not n.quantized else "x_d", *(n.constant(np.int64(v)) for v in
                   ([i, j], [56, 56], [2, 3], [2, 2]))) for i in (0, 1) for j in (0, 1)]
    n.conv(n.add("Concat", *parts, axis=1), 256, 64)


def resize(mode):
    def build(n):
        n.conv(n.last, 64, 64)
        n.add("Resize", n.last, "", n.constant(np.float32([1, 1, 2, 2])), mode=mode,
              coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel",
              **({"nearest_mode": "floor"} if mode == "nearest" else {}))

    return build


def one(kind, **attributes):
    return lambda n: n.add(kind, n.conv(n.last, 64, 64), **attributes)


def squeeze_excite(n):
    x = n.conv(n.last, 64, 64, 3, pads=[1] * 4)
    n.conv(n.add("Relu", n.conv(n.add("GlobalAveragePool", x), 64, 16)), 16, 64)
    n.add("Mul", x, n.add("HardSigmoid"))


def residual(n):
    x = n.conv(n.last, 64, 64, 3, pads=[1] * 4)
    n.add("Relu", n.add("Add", x, n.conv(x, 64, 64, 3, pads=[1] * 4)))


NETS = {f"act_{k}": activation(v) for k, v in ACTIVATIONS.items()} | {
    "act_silu": silu, "act_gelu": gelu, "shuffle": channels([0, 2, 1, 3, 4]), "focus": focus, "concat": concat,
    "split": split, "resize_nearest": resize("nearest"), "resize_linear": resize("linear"), "residual": residual,
    "squeeze_excite": squeeze_excite, "softmax": one("Softmax", axis=1),
    "maxpool": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    "maxpool5": one("MaxPool", kernel_shape=[5, 5], pads=[2] * 4),
    "avgpool": one("AveragePool", kernel_shape=[3, 3], pads=[1] * 4),
    "depthwise3": lambda n: n.conv(n.last, 64, 64, 3, pads=[1] * 4, group=64),
    "depthwise5": lambda n: n.conv(n.last, 64, 64, 5, pads=[2] * 4, strides=[2, 2], group=64),
    "grouped": lambda n: n.conv(n.last, 64, 64, 3, pads=[1] * 4, group=4),
    "dilated": lambda n: n.conv(n.last, 64, 64, 3, pads=[2] * 4, dilations=[2, 2]),
    "deconv2": lambda n: n.conv(n.last, 64, 64, 2, kind="ConvTranspose", strides=[2, 2]),
    "deconv4": lambda n: n.conv(n.last, 64, 64, 4, kind="ConvTranspose", strides=[2, 2], pads=[1] * 4),
    "pad": one("Transpose", perm=[0, 2, 3, 1]), "attention": attention, "layer_norm": layer_norm,
    "rms_norm": rms_norm, "instance_norm": instance_norm,
}
NETS["transpose"] = NETS.pop("pad")


def behind(kind, *operands, outputs=1, **attributes):
    """An operator behind a convolution, with constants as further operands."""
    return lambda n: n.add(kind, n.conv(n.last, 64, 64), *(n.constant(v) for v in operands), outputs=outputs, **attributes)


def on_tokens(kind, *operands, **attributes):
    def build(n):
        n.add("MatMul", n.last, n.constant(n.weight(192, 192)))
        n.add(kind, n.last, *(n.constant(v) for v in operands), **attributes)

    return build


def recurrent(kind, gates):
    def build(n):
        n.add("Transpose", perm=[1, 0, 2], quantize=False)
        n.add(kind, n.last, n.constant(n.weight(1, gates * 64, 192)), n.constant(n.weight(1, gates * 64, 64)),
              hidden_size=64)

    return build


def scatter(n):
    n.add("ScatterND", n.conv(n.last, 64, 64), n.constant(np.int64([[[0, c]] for c in range(0, 64, 2)])),
          n.constant(np.zeros((32, 1, 56, 56), np.float32)))


NETS |= {
    "globalmaxpool": one("GlobalMaxPool"), "lppool": one("LpPool", kernel_shape=[3, 3], pads=[1] * 4),
    "reduce_mean": behind("ReduceMean", np.int64([2, 3])), "reduce_max": behind("ReduceMax", np.int64([1])),
    "reduce_sum": behind("ReduceSum", np.int64([3])), "reduce_l2": behind("ReduceL2", np.int64([1])),
    "argmax": one("ArgMax", axis=1, quantize=False), "topk": behind("TopK", np.int64([8]), outputs=2, axis=1),
    "prelu": behind("PRelu", np.float32(np.linspace(0, 1, 64)).reshape(64, 1, 1)),
    "mul_channels": behind("Mul", np.float32(np.linspace(0, 1, 64)).reshape(64, 1, 1)),
    "add_pixels": behind("Add", np.float32(np.linspace(0, 1, 3136)).reshape(1, 1, 56, 56)),
    "exp": one("Exp"), "sqrt": one("Sqrt"), "pow3": behind("Pow", np.float32(3)), "abs": one("Abs"),
    "max": behind("Max", np.float32(.5)), "clip": behind("Clip", np.float32(0), np.float32(6)),
    "softsign": one("Softsign"), "celu": one("Celu"), "selu": one("Selu"), "sin": one("Sin"), "floor": one("Floor"),
    "depth_to_space": one("DepthToSpace", blocksize=2), "space_to_depth": one("SpaceToDepth", blocksize=2),
    "resize_cubic": resize("cubic"), "cumsum": behind("CumSum", np.int64(1)), "log_softmax": one("LogSoftmax", axis=1),
    "lp_norm": one("LpNormalization", axis=1), "lrn": one("LRN", size=5),
    "gather": behind("Gather", np.int64(range(0, 64, 2)), axis=1), "tile": behind("Tile", np.int64([1, 2, 1, 1])),
    "pad_reflect": behind("Pad", np.int64([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect"),
    "expand": behind("Expand", np.int64([2, 64, 56, 56])), "scatter": scatter,
    "softmax_tokens": on_tokens("Softmax", axis=-1), "gelu_tokens": on_tokens("Erf"),
    "gemm_bias": on_tokens("Add", np.zeros(192, np.float32)), "lstm": recurrent("LSTM", 4), "gru": recurrent("GRU", 3),
}
ON_TOKENS = {"attention", "layer_norm", "rms_norm", "softmax_tokens", "gelu_tokens", "gemm_bias", "lstm", "gru"}


def main(bench, word=""):
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, build in NETS.items():
            for quantized in (False, True):
                path = pathlib.Path(folder, name + ("_int8" if quantized else "_float") + ".onnx")
                if word not in path.name:
                    continue
                net = Net(TOKENS if name in ON_TOKENS else IMAGE, quantized)
                build(net)
                net.save(path)
                run = subprocess.run([bench, path], capture_output=True, text=True)
                lines.append(run.stdout.splitlines()[-1] if run.returncode == 0 else f"   refused: {run.stderr.strip()}")
    for line in sorted(lines, key=lambda s: -float(s.split()[5]) if s.split()[0] != "refused:" else 0):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
