"""From a model file back to a description, through rknn_reader: what the file itself says, for the
numpy reference to run. Knows the operators that the tests' files have."""

import ast
import struct

import numpy as np

from support import rknn_reader
from rknnwriter import ConvParams, Model, Quant, ops


def _quant(tensor):
    return Quant(tensor.scales[0], tensor.zero_points[0]) if tensor.scales else None


def _conv(m, f, node, x, values):
    bias, nz, mul, scale, shift = f.conversion(node)
    y, a = f.tensors[node.outputs[0]], node.attrs
    weights, inside = f.weights(node)
    plain = bool((mul == 1).all()) and len(f.tensors[node.inputs[2]].data) < 8 * y.shape[1]
    params = ConvParams(weights, nz, np.rint(mul * 2**14).astype(int), bias, scale, shift,
                        y.zero_points[0],
                        form="plain" if plain else "full" if inside is None else "depthwise")
    t, suffix = f.tensors[node.inputs[1]], node.op[4:]
    rows = inside is None and len(t.data) > rknn_reader.native_size(t)
    return ops.conv(m, x, None, params=params, dilation=a.vector(1), pad=a.vector(4),
                    stride=a.vector(5), group=a.number(2) or 1, out=_quant(y),
                    packed_first=rows, act="relu" if suffix.endswith("Relu") else None,
                    addend=values[node.inputs[3]] if suffix.startswith("Add") else None)


def _node(m, f, node, x, values):
    y, a = f.tensors[node.outputs[0]], node.attrs
    if node.is_conv:
        return _conv(m, f, node, x, values)
    if node.op == "MaxPool":
        return ops.max_pool(m, x, a.vector(3), stride=a.vector(6), pad=a.vector(4))
    if node.op == "exSoftmax13":
        return ops.softmax(m, x, axis=_axis(node), out=_quant(y), cpu=node.device == 0)
    if node.op == "Reshape":
        return ops.reshape(m, x, y.shape, cpu=node.device == 0)
    raise ValueError(f"{node.name}: no way back for {node.op}")


def _axis(node):
    """{"axis": {"dtype": "i", "value": N}} has the number in its last bytes."""
    blob = node.table.bytes(9)
    at = blob.index(b"\x10value\0") + 7
    return struct.unpack_from("<i", blob, at)[0]


def model(f):
    """The description of a file."""
    m, values = Model(f.chip), {}
    attrs = ast.literal_eval(f.root.text(3))["attrs"]
    for i in f.graph.vector(2):
        t = f.tensors[i]
        a = attrs[t.name]
        values[i] = m.input(t.name, t.shape, _quant(t), mean=a["mean"], std=a["std"],
                            rgb2bgr=a["rgb2bgr"])
    for node in f.nodes:
        if node.op in ("InputOperator", "OutputOperator"):
            continue
        values[node.outputs[0]] = _node(m, f, node, values[node.inputs[0]], values)
    for i in f.graph.vector(3):
        m.output(values[i], f.tensors[i].name)
    return m
