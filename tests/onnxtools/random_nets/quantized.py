"""A random net with QuantizeLinear and DequantizeLinear between its nodes, as a quantizer would write it from the ranges of one run."""
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxtools.random_nets.net import with_shapes

# Axis of output channels in weights.
WEIGHTS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
MOVES = ("MaxPool", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "DepthToSpace", "SpaceToDepth",
         "Tile", "Expand", "Concat", "Resize")
LIMITS = {np.uint8: (0, 255), np.int8: (-128, 127)}


class _Writer:
    def __init__(self, net, values, chance):
        self.values, self.chance = values, chance
        self.kind = chance.choice((np.uint8, np.int8))
        self.constants = list(net.constants)
        self.data = {c.name: numpy_helper.to_array(c) for c in net.constants}
        self.nodes, self.forms = [], {}

    def constant(self, value):
        name = f"q{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def form(self, values):
        """Scale and zero point that hold these values and 0."""
        low, high = min(float(values.min()), 0), max(float(values.max()), 0)
        scale = np.float32(max(high - low, 1e-3) / 255)
        least, most = LIMITS[self.kind]
        return scale, int(np.clip(round(least - low / float(scale)), least, most))

    def quantize(self, name, form):
        scale, zero = self.constant(form[0]), self.constant(np.array(form[1], self.kind))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_d"]))
        self.forms[name] = form

    def stored(self, values, scale, zero, kind, **axis):
        """A constant of stored numbers and the node that makes them real."""
        limits = np.iinfo(kind)
        numbers = np.clip(np.round(values / scale) + zero, limits.min, limits.max).astype(kind)
        form = np.squeeze(scale) if axis else np.float32(scale)
        zeros = np.full(np.shape(form), zero, kind)
        made = f"d{len(self.nodes)}"
        self.nodes.append(helper.make_node("DequantizeLinear", [self.constant(numbers), self.constant(np.atleast_1d(form) if axis else form),
                                                                self.constant(np.atleast_1d(zeros) if axis else zeros)], [made], **axis))
        return made

    def weight(self, name, node):
        """Returns the tensor and its scales; mostly one for each channel of the output."""
        values = self.data[name]
        turned = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
        grouped = node.op_type == "ConvTranspose" and any(a.name == "group" and a.i > 1 for a in node.attribute)
        axis = 0 if turned else WEIGHTS[node.op_type]
        if node.op_type == "MatMul" or grouped or values.ndim < 2 or self.chance.random() < .4:
            scale = np.float32(max(np.abs(values).max(), 1e-3) / 127)
            return self.stored(values, scale, 0, np.int8), scale
        others = tuple(i for i in range(values.ndim) if i != axis)
        scales = (np.maximum(np.abs(values).max(axis=others, keepdims=True), 1e-3) / 127).astype(np.float32)
        return self.stored(values, scales, 0, np.int8, axis=axis), scales.reshape(-1)

    def operands(self, node):
        scale = None
        for i, name in enumerate(node.input):
            values = self.data.get(name)
            if name in self.forms:
                yield f"{name}_d"
            elif values is None or values.dtype != np.float32:
                yield name
            elif node.op_type in WEIGHTS and i == 1:
                made, scale = self.weight(name, node)
                yield made
            elif scale is not None and i == 2 and values.ndim == 1 and node.input[0] in self.forms:
                scales = scale * self.forms[node.input[0]][0]
                fits = np.ndim(scales) == 0 or scales.shape == values.shape
                yield self.stored(values, scales, 0, np.int32, **({"axis": 0} if np.ndim(scales) else {})) if fits else name
            elif node.op_type in ("Add", "Sub", "Mul", "Concat", "MatMul") and self.chance.random() < .8:
                yield self.stored(values, *self.form(values), self.kind)
            else:
                yield name

    def take(self, node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        inputs = list(self.operands(node))
        del copy.input[:]
        copy.input.extend(inputs)
        self.nodes.append(copy)
        for name in node.output:
            if name in self.values and self.values[name].dtype == np.float32 and self.chance.random() < .93:
                same = node.op_type in MOVES and node.input[0] in self.forms and self.chance.random() < .8
                self.quantize(name, self.forms[node.input[0]] if same else self.form(self.values[name]))


def quantized(net, values, seed):
    """`values`: what each tensor was in a run; of operator set 13 or later. Outputs are stored numbers where the net's are quantized."""
    writer = _Writer(net, values, random.Random(seed))
    for name, _ in net.inputs:
        writer.quantize(name, writer.form(values[name]))
    for node in net.nodes:
        writer.take(node)
    outputs = [f"{name}_q" for name in net.outputs if name in writer.forms]
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in net.inputs]
    graph = helper.make_graph(writer.nodes, "quantized", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], writer.constants)
    return with_shapes(graph, net.opset)
