#!/usr/bin/python3
"""models.py OUT writes the models that the conformance programs use, with inputs and expected outputs
(as rknncases does). A program's model is a function of its name here."""
import pathlib
import sys


import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import rknncases as cases
from rknnwriter import Model, Quant, examples, ops, reference
from support.made import make_once


def two_inputs(chip="rk3588"):
    """Two pictures of different sizes, two outputs of different types' worth of channels."""
    rng, m = np.random.default_rng(5), Model(chip, "two_inputs")
    q = Quant.of_range(-8, 8)
    a = m.input("first", (1, 3, 8, 8), Quant.of_range(0, 1), mean=[0] * 3, std=[255] * 3)
    b = m.input("second", (1, 3, 4, 4), Quant.of_range(-2, 2))
    x = ops.conv(m, a, rng.normal(size=(16, 3, 3, 3)) * 0.3, rng.normal(size=16), stride=2, pad=1,
                 out=q)
    y = ops.conv(m, b, rng.normal(size=(16, 3, 1, 1)), rng.normal(size=16), out=q)
    m.output(ops.add(m, x, y, out=q), "sum")
    m.output(ops.conv(m, y, rng.normal(size=(10, 16, 1, 1)), rng.normal(size=10), out=q), "scores")
    return m


def three_outputs(chip="rk3588"):
    """A detector's three heads; the first one is large."""
    rng, m = np.random.default_rng(12), Model(chip, "three_outputs")
    x = m.input("image", (1, 3, 64, 64), Quant.of_range(0, 255))
    for stride, out in ((1, 900), (2, 700), (4, 800)):
        y = ops.conv(m, x, rng.normal(size=(18, 3, 3, 3)), rng.normal(size=18), stride=stride,
                     pad=1, out=Quant.of_range(-out, out))
        m.output(y, f"head{stride}")
    return m


@reference.reference("cstDualResidual")
def _dual_residual(node, a, b):
    alpha = node.attrs["alpha"]
    return a + alpha * b, b - alpha * a


@reference.reference("cstShift")
def _shift(_, numbers, by):
    return numbers + by


# Every type of attribute that a program can ask for.
ATTRIBUTES = {"alpha": 0.5, "axis": -1, "large": -(1 << 40), "counts": [3, -4, 1 << 33],
              "weights": [0.25, -2.0], "mode": "mirror", "names": ["a", "bcd"], "truth": True,
              "truths": [False, True, True]}


def custom(chip="rk3588", quantized=False):
    """Two convolutions, a custom operator of two inputs and outputs, one output through an Add."""
    rng, m = np.random.default_rng(7), Model(chip, "custom_int8" if quantized else "custom")
    q = [Quant.of_range(-5 - i, 4 + i) if quantized else None for i in range(4)]
    x = m.input("x", (1, 3, 6, 5), Quant.of_range(-1, 1) if quantized else None)
    a = ops.conv(m, x, rng.normal(size=(20, 3, 1, 1)), rng.normal(size=20), out=q[0])
    b = ops.conv(m, x, rng.normal(size=(20, 3, 1, 1)), rng.normal(size=20), out=q[1])
    y, z = ops.custom(m, "cstDualResidual", [a, b], [a.shape] * 2, ATTRIBUTES, outs=q[2:],
                      name="residual")
    m.output(ops.add(m, y, a, out=q[2]), "sum")
    m.output(z, "rest")
    return m


def custom_int64(chip="rk3588", bits=50):
    """ArgMax, a custom operator on its int64 numbers and a constant, two such nodes."""
    rng, m = np.random.default_rng(8), Model(chip, "custom_int64")
    x = m.input("x", (1, 3, 6, 5))
    a = ops.argmax(m, ops.conv(m, x, rng.normal(size=(9, 3, 1, 1)), rng.normal(size=9)))
    by = m.constant("by", rng.integers(-(1 << bits), 1 << bits, a.shape), "int64")
    once = ops.custom(m, "cstShift", [a, by], [a.shape], {}, name="first")[0]
    m.output(ops.custom(m, "cstShift", [once, by], [a.shape], {}, name="second")[0], "shifted")
    return m


# ---- dynamic shapes: ONNX models whose inputs are open, and what each shape set gives

PICTURE_ROWS = ((1, 3, 12, 10), (1, 3, 6, 10), (1, 3, 20, 16))
VECTOR_ROWS = ((1, 224), (1, 40)), ((1, 112), (1, 80)), ((1, 224), (1, 80))


def save_onnx(folder, name, nodes, inputs, outputs, constants):
    def ports(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, name, ports(inputs), ports(outputs),
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]),
              folder / f"{name}.onnx")


def save_shape_set(folder, name, inputs, outputs):
    for kind, arrays in (("in", inputs), ("out", outputs)):
        for i, array in enumerate(arrays):
            np.asarray(array, np.float32).tofile(folder / f"{name}.{kind}{i}.bin")


def conv3x3(x, weight):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def dynamic_picture(folder):
    """A convolution with Relu, and the mean of each of its channels."""
    rng = np.random.default_rng(9)
    weight = rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["features"]),
             helper.make_node("GlobalAveragePool", ["features"], ["mean"])]
    save_onnx(folder, "dynamic_picture", nodes, {"data": [1, 3, "h", "w"]},
              {"features": [1, 8, "h", "w"], "mean": [1, 8, 1, 1]}, {"w": weight})
    for i, shape in enumerate(PICTURE_ROWS):
        x = rng.integers(0, 256, shape).astype(np.float32)
        y = np.maximum(conv3x3(x, weight), 0)
        save_shape_set(folder, f"dynamic_picture.set{i}", [x.transpose(0, 2, 3, 1)],
                 [y, y.mean((2, 3), keepdims=True)])


def dynamic_vectors(folder):
    """Two inputs that change together: one after the other, doubled."""
    rng = np.random.default_rng(10)
    nodes = [helper.make_node("Concat", ["a", "b"], ["both"], axis=1),
             helper.make_node("Add", ["both", "both"], ["doubled"])]
    save_onnx(folder, "dynamic_vectors", nodes, {"a": [1, "m"], "b": [1, "n"]},
              {"doubled": [1, "k"]}, {})
    for i, shapes in enumerate(VECTOR_ROWS):
        a, b = (rng.normal(size=s).astype(np.float32) for s in shapes)
        save_shape_set(folder, f"dynamic_vectors.set{i}", [a, b], [2 * np.concatenate([a, b], 1)])


def speech(folder):
    """As a text encoder: int64 tokens and their mask in; a number for each token, the mask and vectors out."""
    rng = np.random.default_rng(13)
    table = rng.normal(size=(40, 8)).astype(np.float32)
    ids, mask = rng.integers(0, 40, (1, 20)), (np.arange(20) < 15).astype(np.int64)[None]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["all"]),
             helper.make_node("Cast", ["mask"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["real", "last"], ["weights"]),
             helper.make_node("Mul", ["all", "weights"], ["chosen"]),
             helper.make_node("ReduceSum", ["chosen", "last"], ["sums"], keepdims=0),
             helper.make_node("Relu", ["chosen"], ["vectors"])]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, [1, 20]) for n in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
               for n, s in (("sums", [1, 20]), ("weights", [1, 20, 1]), ("vectors", [1, 20, 8]))]
    graph = helper.make_graph(nodes, "speech", inputs, outputs,
                              [numpy_helper.from_array(table, "table"),
                               numpy_helper.from_array(np.array([-1], np.int64), "last")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), folder / "speech.onnx")
    chosen = table[ids] * mask[..., None].astype(np.float32)
    for i, array in enumerate((ids, mask)):
        array.astype(np.int64).tofile(folder / f"speech.in{i}.bin")
    for i, array in enumerate((chosen.sum(-1), mask[..., None], np.maximum(chosen, 0))):
        array.astype(np.float32).tofile(folder / f"speech.out{i}.bin")


ONNX = (dynamic_picture, dynamic_vectors, speech)

def other_chip():
    """For a chip that the tests' servers are not."""
    return examples.conv("rk3568")


def batch(chip="rk3588"):
    """Three pictures at a time (rknn_batch_size)."""
    rng, m = np.random.default_rng(11), Model(chip, "batch")
    m.batch = 3
    x = m.input("image", (1, 3, 8, 8), Quant.of_range(0, 255))
    y = ops.conv(m, x, rng.normal(size=(8, 3, 3, 3)), rng.normal(size=8), pad=1,
                 out=Quant.of_range(-1500, 1500))
    m.output(y, "out")
    return m


def dynamic_rknn():
    """Says that its input has several shapes, as dynamic_input makes files say."""
    m = examples.conv()
    m.dynamic_shapes = {"image": [[1, 3, 8, 8], [1, 3, 4, 4]]}
    return m


MODELS = {
    "dynamic_rknn": dynamic_rknn,
    "small_chip": examples.lite,
    "other_chip": other_chip,
    "batch": batch,
    "conv": examples.conv,
    "residual": examples.residual,
    "float16": examples.float16,
    "two_inputs": two_inputs,
    "three_outputs": three_outputs,
    "custom": custom,
    "custom_int8": lambda: custom(quantized=True),
    "custom_int64": custom_int64,
    "custom_int64_small": lambda: custom_int64(bits=20),  # as float32 they are whole
}


def write(folder):
    for name, make in MODELS.items():
        cases.write(folder, name, make(), cases.STEP)
    for make in ONNX:
        make(folder)


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    make_once(out, lambda: write(out), "../npu/write/rknnwriter", "rknncases", "conformance/models.py")
