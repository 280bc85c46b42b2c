"""A small file that wants much: a column times a row is a matrix."""
import numpy as np
import onnx
from onnx import TensorProto, helper


def outer_product(n):
    """Twice the largest element of x y, where x is a column of n and y a row. A context has two n by n matrices at least."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [n, 1]), ("y", [1, n])))
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 1])
    nodes = [helper.make_node("MatMul", ["x", "y"], ["a"]), helper.make_node("Add", ["a", "a"], ["b"]),
             helper.make_node("ReduceMax", ["b"], ["out"], axes=[0, 1])]
    graph = helper.make_graph(nodes, "wide", [x, y], [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def weighted(n):
    """x W of a row x of n and a matrix of ones, which is in the file: 4 n n bytes; as many rows as one likes."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", n]) for name in ("x", "y"))
    ones = helper.make_tensor("w", TensorProto.FLOAT, [n, n], np.ones((n, n), np.float32).tobytes(), raw=True)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "weighted", [x], [y], [ones])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def open_sizes(model):
    """The same for every n: bytes of a file whose inputs have an open dimension."""
    for value, axis in zip(model.graph.input, (0, 1)):
        value.type.tensor_type.shape.dim[axis].dim_param = "n"
    return onnx.ModelProto.SerializeToString(model)
