"""Models for life_newer.c: one whose weights are in a file beside it, one of several shapes, one that tells what it sees of a tensor, and
one with an operator of the program's own."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from conformance import models as conformance

WEIGHTS = 40  # columns


def net(nodes, inputs, outputs, **constants):
    def ports(shapes):
        return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in shapes.items()]
    graph = helper.make_graph(nodes, "net", ports(inputs), ports(outputs), [numpy_helper.from_array(v, n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("rknnd", 1)])


def write(folder):
    weights = np.random.default_rng(3).normal(size=(4, WEIGHTS)).astype(np.float32)
    floats = TensorProto.FLOAT
    onnx.save(net([helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], {"x": (floats, [1, 4])},
                  {"y": (floats, [1, WEIGHTS])}, w=weights), str(folder / "apart.onnx"), save_as_external_data=True, size_threshold=0, location="w")
    onnx.save(net([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])], {"x": (floats, [1, "n"])},
                  {"y": (floats, [1, "n"])}), str(folder / "shapes.onnx"))
    onnx.save(net([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Observe", ["y"], ["seen"], domain="rknnd")], {"x": (floats, [1, 3, 4, 4])},
                  {"y": (floats, [1, 3, 4, 4]), "seen": (TensorProto.INT32, ["words"])}), str(folder / "seen.onnx"))
    conformance.custom().save(folder / "custom.rknn")
