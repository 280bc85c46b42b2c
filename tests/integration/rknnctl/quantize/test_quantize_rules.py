#!/usr/bin/python3
"""rknnctl quantize: what a converter asks of a model that is quantized already (SDK guide 6.1 and 6.4: int8 from -128 to 127, scales of
outputs for weights alone, one of a tensor else), by onnx's own reading of what was written."""
import math
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from integration.rknnctl.test_quantize import Case, attributes

OUTPUT_AXIS = {"Conv": 0, "ConvTranspose": 1}
MOVES = {"MaxPool", "Concat", "Reshape", "Transpose", "Resize", "Slice"}  # values stay what they are


class Rules(Case):
    USUAL = ("--without", "equalization")

    def net(self):
        """Every kind of product, and moves between them."""
        node = helper.make_node
        constants = {"w0": self.weights(6, 3, 3, 3), "b0": self.weights(6), "w1": self.weights(6, 1, 3, 3), "w2": self.weights(6, 4, 2, 2),
                     "w3": self.weights(4, 6, 1, 1), "w4": self.weights(256, 10), "b4": self.weights(10), "w5": self.weights(10, 5),
                     "flat": np.array([1, 256], np.int64), "sizes": np.array([1, 1, 2, 2], np.float32), "none": np.zeros(0, np.float32)}
        nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]), node("Relu", ["c0"], ["r0"]),
                 node("Conv", ["r0", "w1"], ["c1"], group=6, pads=[1, 1, 1, 1]), node("MaxPool", ["c1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("ConvTranspose", ["p", "w2"], ["t"], strides=[2, 2]), node("Conv", ["r0", "w3"], ["c3"]),
                 node("Concat", ["t", "c3"], ["k"], axis=1), node("MaxPool", ["k"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("MaxPool", ["p2"], ["p3"], kernel_shape=[2, 2], strides=[2, 2]), node("Resize", ["p3", "none", "sizes"], ["z"], mode="nearest"),
                 node("Conv", ["z", "w6"], ["c6"]), node("Add", ["c6", "c6b"], ["a"]), node("Conv", ["z", "w7"], ["c6b"]),
                 node("Reshape", ["a", "flat"], ["f"]), node("Gemm", ["f", "w4", "b4"], ["g"]), node("MatMul", ["g", "w5"], ["y"])]
        nodes[11], nodes[12] = nodes[12], nodes[11]
        constants |= {"w6": self.weights(16, 8, 1, 1), "w7": self.weights(16, 8, 1, 1)}
        return self.write(nodes, [1, 3, 8, 8], constants, y=[1, 5])

    def read(self, *options):
        """Of the quantized model: constants, what makes each tensor, and nodes behind weights' DequantizeLinear."""
        self.quantize(self.net(), self.arrays([self.rng.normal(0.2, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(4)]), *options)
        model = onnx.load(self.out)
        onnx.checker.check_model(model, full_check=True)
        graph = onnx.shape_inference.infer_shapes(model).graph
        self.nodes = list(graph.node)
        self.constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.types = {t.name: t.data_type for t in graph.initializer}
        self.made = {name: n for n in graph.node for name in n.output}

    def stored(self, name):
        """(scale, zero point) of a tensor that a node reads; None: it is a real number."""
        n = self.made.get(name)
        if n is None or n.op_type not in ("DequantizeLinear", "QuantizeLinear"):
            return None
        return tuple(self.constants[one] for one in n.input[1:3])

    def stored_behind(self, name):
        """The same of a tensor that a node makes."""
        behind = [n for n in self.nodes if n.op_type == "QuantizeLinear" and n.input[0] == name]
        self.assertLessEqual(len({tuple(n.input[1:3]) for n in behind}), 1, name)
        return tuple(self.constants[one] for one in behind[0].input[1:3]) if behind else None

    def check_weight(self, product, method):
        n = self.made[product.input[1]]
        weight, scale, zp = (self.constants[one] for one in n.input[:3])
        self.assertEqual((n.op_type, self.types[n.input[0]], self.types[n.input[2]]), ("DequantizeLinear", TensorProto.INT8, TensorProto.INT8))
        self.assertFalse(np.any(zp), "weights are symmetric")
        self.assertTrue(np.all(scale > 0) and np.all(weight >= -127))
        if method == "layer" or not scale.ndim:
            self.assertEqual((scale.shape, method), ((), "layer"))
            return
        axis = OUTPUT_AXIS.get(product.op_type, weight.ndim - 1)
        self.assertEqual(attributes(n).get("axis", 1) % weight.ndim, axis)
        self.assertEqual((scale.shape, zp.shape), ((weight.shape[axis],),) * 2)

    def check_bias(self, product):
        if len(product.input) < 3:
            return
        n = self.made[product.input[2]]
        self.assertEqual(self.types[n.input[0]], TensorProto.INT32)
        scale, weights = (self.constants[self.made[one].input[1]] for one in (product.input[2], product.input[1]))
        np.testing.assert_allclose(scale, self.stored(product.input[0])[0] * weights, rtol=1e-6)
        self.assertTrue(len(n.input) < 3 or not np.any(self.constants[n.input[2]]))

    def test_weights_biases_and_tensors(self):
        for method in ("channel", "layer"):
            self.read("--method", method)
            products = [n for n in self.nodes if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")]
            self.assertEqual(len(products), 8)
            for n in products:
                with self.subTest(n.output[0], method=method):
                    self.check_weight(n, method)
                    self.check_bias(n)
                    self.assertIsNotNone(self.stored(n.input[0]))
            for n in self.nodes:
                if n.op_type != "QuantizeLinear":
                    continue
                scale, zp = (self.constants[one] for one in n.input[1:3])
                self.assertEqual((scale.shape, zp.shape, zp.dtype), ((), (), np.int8), n.name)
                self.assertTrue(scale > 0 and math.isfinite(scale) and -128 <= zp <= 127, n.name)

    def test_what_only_moves_has_one_scale(self):
        for options in ((), ("--algorithm", "mmse"), ("--algorithm", "kl_divergence")):
            self.read(*options)
            moves = [n for n in self.nodes if n.op_type in MOVES]
            self.assertEqual({n.op_type for n in moves}, MOVES - {"Transpose", "Slice"})
            for n in moves:
                with self.subTest(n.output[0], options=options):
                    ins = [self.stored(name) for name in n.input if name in self.made]
                    for one in [*ins, self.stored_behind(n.output[0])]:
                        self.assertEqual(one, ins[0])
                    self.assertIsNotNone(ins[0])


if __name__ == "__main__":
    unittest.main()
