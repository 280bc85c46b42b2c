"""Makes models of float ones that quantize while they run (ConvInteger, MatMulInteger), in the form that
quantization tools write: weights are stored in 8 bits, activations get their scale from each run."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Dynamic:
    """weight: np.int8 (symmetric) or np.uint8 (with a zero point)."""

    def __init__(self, model, weight):
        self.model, self.weight = model, weight
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.nodes, self.new, self.quantized = [], [], {}

    def constant(self, name, value):
        self.new.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def stored(self, name, value):
        """The weight, its scale and its zero point, as constants."""
        low, high = min(value.min(), 0), max(value.max(), 0)
        if self.weight == np.int8:
            scale, zp = np.float32(max(-low, high) / 127), 0
        else:
            scale = np.float32((high - low) / 255)
            zp = int(np.clip(round(-low / scale), 0, 255))
        limits = np.iinfo(self.weight)
        bits = np.clip(np.rint(value / scale) + zp, limits.min, limits.max).astype(self.weight)
        return (self.constant(name + "_bytes", bits), self.constant(name + "_scale", scale),
                self.constant(name + "_zp", np.array(zp, self.weight)))

    def activation(self, name):
        if name not in self.quantized:
            outputs = [f"{name}_{part}" for part in ("bytes", "scale", "zp")]
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name], outputs))
            self.quantized[name] = outputs
        return self.quantized[name]

    def product(self, node):
        y = node.output[0]
        weight = self.constants[node.input[1]]
        if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute):
            weight = weight.T
        x, x_scale, x_zp = self.activation(node.input[0])
        w, w_scale, w_zp = self.stored(y + "_w", weight)
        conv = node.op_type == "Conv"
        sums = helper.make_node("ConvInteger" if conv else "MatMulInteger", [x, w, x_zp, w_zp],
                                [y + "_sums"])
        if conv:
            sums.attribute.extend(node.attribute)
        bias = len(node.input) > 2
        self.nodes += [sums, helper.make_node("Cast", [y + "_sums"], [y + "_f"], to=TensorProto.FLOAT),
                       helper.make_node("Mul", [x_scale, w_scale], [y + "_s"]),
                       helper.make_node("Mul", [y + "_f", y + "_s"], [y + "_p" if bias else y])]
        if bias:
            b = self.constants[node.input[2]]
            b = self.constant(y + "_added", b.reshape(1, -1, 1, 1) if conv else b)
            self.nodes.append(helper.make_node("Add", [y + "_p", b], [y]))

    def run(self):
        for node in self.model.graph.node:
            if node.op_type in ("Conv", "MatMul", "Gemm") and node.input[1] in self.constants:
                self.product(node)
            else:
                self.nodes.append(node)
        used = {i for n in self.nodes for i in n.input}
        kept = [t for t in self.model.graph.initializer if t.name in used]
        graph = helper.make_graph(self.nodes, "net", self.model.graph.input,
                                  self.model.graph.output, kept + self.new)
        model = helper.make_model(graph, opset_imports=self.model.opset_import)
        model.ir_version = 8
        return model


def quantize(model, weight):
    return Dynamic(model, weight).run()
