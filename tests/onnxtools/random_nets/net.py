"""A model that grows node by node; onnx's shape inference says what shape each tensor has."""
import collections
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

OPSETS = (11, 12, 13, 13, 15, 16, 17)
RANKS = (4, 4, 4, 4, 3, 2, 5)
MOST_ELEMENTS = 100_000


class RandomNet:
    """`outputs`: what no node takes. `fragile`: tensors that a step of their inputs changes a lot (Floor, Mod); nothing is made of them."""

    def __init__(self, seed):
        self.chance, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.opset = self.chance.choice(OPSETS)
        self.nodes, self.constants, self.inputs = [], [], []
        self.shapes, self.types = {}, {}
        self.uses, self.fragile = collections.Counter(), set()
        for i in range(self.chance.choice((1, 1, 1, 2))):
            self._add_input(f"x{i}")

    def _add_input(self, name):
        rank = self.chance.choice(RANKS)
        channels = [self.chance.choice((1, 2, 3, 4, 8, 16, 17))] if rank > 1 else []
        shape = [self.chance.choice((1, 1, 1, 2)), *channels,
                 *(self.chance.choice((1, 4, 5, 7, 8, 12, 16)) for _ in range(rank - 2))]
        self.inputs.append((name, shape))
        self.shapes[name], self.types[name] = tuple(shape), TensorProto.FLOAT

    @property
    def outputs(self):
        return [name for node in self.nodes for name in node.output if not self.uses[name]]

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def floats(self, *shape, low=-1.0):
        return self.constant(self.rng.uniform(low, 1, shape).astype(np.float32))

    def integers(self, values):
        return self.constant(np.array(values, np.int64))

    def model(self, outputs=None):
        values = [onnx.ValueInfoProto(name=name) for name in outputs or self.outputs]
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs]
        graph = helper.make_graph(self.nodes, "random", inputs, values, self.constants)
        return with_shapes(graph, self.opset)

    def add(self, op, inputs, n_outputs=1, fragile=False, **attributes):
        """The new tensor, or a list of them; None where the operator does not take these inputs, or makes something empty or huge."""
        first = sum(len(node.output) for node in self.nodes)
        names = [f"t{first + i}" for i in range(n_outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
        try:
            known = self._infer(names)
        except (onnx.onnx_cpp2py_export.shape_inference.InferenceError, LookupError):
            self.nodes.pop()
            return None
        for name, (shape, kind) in known.items():
            self.shapes[name], self.types[name] = shape, kind
        self.uses.update(inputs)
        if fragile:
            self.fragile.update(names)
        return names[0] if n_outputs == 1 else names

    def _infer(self, names):
        graph = self.model(names).graph
        values = {value.name: value.type.tensor_type for value in (*graph.output, *graph.value_info)}
        known = {}
        for name in names:
            kind = values[name]
            shape = tuple(d.dim_value for d in kind.shape.dim)
            if not kind.HasField("shape") or min(shape, default=1) < 1 or np.prod(shape) > MOST_ELEMENTS:
                raise LookupError(name)
            known[name] = shape, kind.elem_type
        return known

    def pick(self, ranks=None, fits=lambda shape: True):
        """A tensor of floats to make something of, mostly a late one; None: there is none of this form."""
        names = [name for name, shape in self.shapes.items()
                 if self.types[name] == TensorProto.FLOAT and name not in self.fragile
                 and (ranks is None or len(shape) in ranks) and fits(shape)]
        if not names:
            return None
        return self.chance.choice(names[-4:] if self.chance.random() < .8 else names)


def with_shapes(graph, opset):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
