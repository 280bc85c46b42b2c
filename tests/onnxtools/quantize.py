"""Makes QDQ models of float ones, in the form that quantization tools write."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

PRODUCTS = {"Conv", "MatMul", "Gemm"}
ACTIVATIONS = {"Relu", "Clip"}  # of the node before them: nothing is quantized in between
KEEPS_FORM = {"MaxPool", "Reshape", "Flatten"}  # the output has its input's scale


def with_outputs(model, names):
    """A copy of the model with more tensors as outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {o.name for o in copy.graph.output}
    copy.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names if n not in known)
    return copy


def with_quantized_outputs(model):
    """Every quantized tensor is an output, before those of the model."""
    stored = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    copy = with_outputs(model, stored)
    outputs = sorted(copy.graph.output, key=lambda o: o.name not in stored)
    del copy.graph.output[:]
    copy.graph.output.extend(outputs)
    return copy


def measure(runtime, model, path):
    """The range of each tensor, as ONNX Runtime computes it on pseudo-random inputs."""
    names = [o for n in model.graph.node for o in n.output]
    onnx.save(with_outputs(model, names), path)
    ranges = runtime.ranges(path)
    path.unlink()
    ranges.update({i.name: [-1, 1] for i in model.graph.input})
    return ranges


class Quantizer:
    """activation: np.uint8 or np.int8; weight: np.int8 or np.uint8; per_channel: of convolutions."""

    def __init__(self, model, ranges, activation, weight, per_channel):
        self.model, self.ranges = model, ranges
        self.activation, self.weight, self.per_channel = activation, weight, per_channel
        self.constants = {t.name: t for t in model.graph.initializer}
        self.nodes, self.new = [], []
        self.forms, self.done, self.makers = {}, {}, {}

    def _constant(self, name, value):
        self.new.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _form(self, name):
        """Scale and zero point of a tensor."""
        if name not in self.forms:
            low, high = min(self.ranges[name][0], 0), max(self.ranges[name][1], 0)
            scale = np.float32(max(high - low, 1e-6) / 255)
            lowest = np.iinfo(self.activation).min
            zp = int(np.clip(round(-low / float(scale)), 0, 255)) + lowest
            self.forms[name] = scale, np.array(zp, self.activation)
        return self.forms[name]

    def _activation(self, name):
        if name not in self.done:
            scale, zp = self._form(name)
            form = [self._constant(name + "_scale", scale), self._constant(name + "_zp", zp)]
            self.nodes += [helper.make_node("QuantizeLinear", [name, *form], [name + "_q"]),
                           helper.make_node("DequantizeLinear", [name + "_q", *form], [name + "_dq"])]
            self.done[name] = name + "_dq"
        return self.done[name]

    def _weight(self, name, axis):
        values = numpy_helper.to_array(self.constants[name])
        others = tuple(i for i in range(values.ndim) if i != axis)
        per_channel = self.per_channel and values.ndim == 4
        low = values.min(others if per_channel else None)
        high = values.max(others if per_channel else None)
        info = np.iinfo(self.weight)
        if self.weight == np.int8:
            scale, zp = np.maximum(np.abs(low), np.abs(high)) / 127, np.zeros_like(low)
        else:
            scale = (np.maximum(high, 0) - np.minimum(low, 0)) / 255
            zp = np.round(-np.minimum(low, 0) / np.maximum(scale, 1e-8))
        scale = np.maximum(scale, 1e-8).astype(np.float32)
        shape = [-1 if per_channel and i == axis else 1 for i in range(values.ndim)]
        stored = np.round(values / np.reshape(scale, shape)) + np.reshape(zp, shape)
        stored = np.clip(stored, info.min, info.max).astype(self.weight)
        self._dequantize(name, stored, scale, zp.astype(self.weight), axis)
        return name + "_dq", scale

    def _dequantize(self, name, stored, scale, zp, axis):
        parts = [self._constant(name + "_q", stored), self._constant(name + "_scale", scale),
                 self._constant(name + "_zp", zp)]
        self.nodes.append(helper.make_node("DequantizeLinear", parts, [name + "_dq"], axis=axis))

    def _bias(self, name, scale):
        values = numpy_helper.to_array(self.constants[name])
        stored = np.round(values / scale).astype(np.int32)
        self._dequantize(name, stored, scale, np.zeros(np.shape(scale), np.int32), 0)
        return name + "_dq"

    def _product(self, node):
        x_scale = self._form(node.input[0])[0]
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        axis = 0 if node.op_type == "Conv" or transposed else 1
        inputs = [self._activation(node.input[0])]
        weight, scale = self._weight(node.input[1], axis)
        inputs.append(weight)
        if len(node.input) > 2:
            inputs.append(self._bias(node.input[2], np.float32(x_scale) * scale))
        return inputs

    def _inputs(self, node):
        op, inputs = node.op_type, list(node.input)
        if op in PRODUCTS and inputs[1] in self.constants:
            return self._product(node)
        if op in ACTIVATIONS or any(i in self.constants for i in inputs if op not in KEEPS_FORM):
            quantized = [i for i in inputs if self.makers.get(i) in PRODUCTS and op not in ACTIVATIONS]
        else:
            quantized = [i for i in inputs if i not in self.constants]
        return [self._activation(i) if i in quantized else i for i in inputs]

    def _node(self, node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(self._inputs(node))
        if node.op_type in KEEPS_FORM:
            self.forms[node.output[0]] = self._form(node.input[0])
        self.makers[node.output[0]] = node.op_type
        self.nodes.append(copy)

    def run(self):
        graph = self.model.graph
        for node in graph.node:
            self._node(node)
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.node[:]
        model.graph.node.extend(self.nodes)
        used = {i for n in self.nodes for i in n.input}
        old = [t for t in graph.initializer if t.name in used]
        del model.graph.initializer[:]
        model.graph.initializer.extend(old + self.new)
        return model


def quantize(model, ranges, activation, weight, per_channel):
    return Quantizer(model, ranges, activation, weight, per_channel).run()
