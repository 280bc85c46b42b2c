"""A random model as newer operator sets have it, which the installed onnx may not know: what moved from attributes to inputs, and
what may be said since then. Shapes and values of the model stay."""
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

SETS = (18, 19, 20, 21, 22)
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")


class Newer:
    def __init__(self, model, seed):
        self.chance = random.Random(seed)
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.opset = self.chance.choice(SETS)

    def constant(self, values):
        name = f"newer{len(self.model.graph.initializer)}"
        self.model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    @staticmethod
    def take(node, name):
        """The attribute's value, which the node has no longer."""
        for i, attribute in enumerate(node.attribute):
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                del node.attribute[i]
                return value
        return None

    def reduction(self, node):
        axes = self.take(node, "axes")
        if axes is not None:
            node.input.append(self.constant(axes))
        elif self.chance.random() < .5:
            node.attribute.append(helper.make_attribute("noop_with_empty_axes", 0))

    def pad(self, node):
        """Only the dimensions that get something are named."""
        pads = self.constants.get(node.input[1])
        if pads is None or self.chance.random() < .3:
            return
        n = len(pads) // 2
        axes = [i for i in range(n) if pads[i] or pads[i + n]] or [0]
        node.input[1] = self.constant([pads[i + k] for k in (0, n) for i in axes])
        while len(node.input) < 3:
            node.input.append("")
        node.input.append(self.constant([i - n if self.chance.random() < .5 else i for i in axes]))

    def split(self, node):
        sizes = self.constants.get(node.input[1]) if len(node.input) > 1 else None
        if sizes is not None and len(sizes) > 1 and sizes[-1] <= sizes[0] and len(set(sizes[:-1])) == 1:
            del node.input[1:]
            node.attribute.append(helper.make_attribute("num_outputs", len(sizes)))

    def resize(self, node):
        """Named axes: those behind the channels, which are all that change."""
        if len(node.input) > 3 and node.input[3] and self.chance.random() < .6:
            sizes = self.constants[node.input[3]]
            node.input[3] = self.constant(sizes[2:])
            node.attribute.append(helper.make_attribute("axes", list(range(2, len(sizes)))))

    def made(self):
        for node in self.model.graph.node:
            if node.op_type in REDUCTIONS:
                self.reduction(node)
            elif node.op_type in ("Pad", "Split", "Resize"):
                getattr(self, node.op_type.lower())(node)
        del self.model.opset_import[:]
        self.model.opset_import.append(helper.make_opsetid("", self.opset))
        return self.model


def newer(model, seed):
    return Newer(model, seed).made()
