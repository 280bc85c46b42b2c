#!/usr/bin/python3
"""rknnctl quantize: batch normalizations behind each kind of product, one and several in a row. What is folded computes what plain numpy makes of the
product and the normalizations, one after the other."""
import json
import unittest

import numpy as np
import onnx
from onnx import helper

from integration.rknnctl.test_quantize import Case

EPSILON = 1e-3


class Folding(Case):
    USUAL = ("--without", "equalization")

    def norm(self, name, read, made, channels, constants):
        values = {"g": self.rng.uniform(0.5, 2, channels), "b": self.rng.normal(0, 1, channels), "m": self.rng.normal(0, 1, channels),
                  "v": self.rng.uniform(0.5, 2, channels)}
        constants |= {f"{name}_{k}": v.astype(np.float32) for k, v in values.items()}
        return helper.make_node("BatchNormalization", [read, *(f"{name}_{k}" for k in "gbmv")], [made], name=name, epsilon=EPSILON)

    def products(self):
        """Operator, shape of the input, weight's shape, outputs, attributes; with a bias and without."""
        for bias in (False, True):
            yield "Conv", [1, 6, 7, 5], (8, 3, 3, 3), 8, {"group": 2}, bias
            yield "ConvTranspose", [1, 6, 5, 4], (6, 4, 3, 2), 8, {"group": 2, "strides": [2, 2]}, bias
            yield "ConvTranspose", [1, 3, 5, 4], (3, 3, 2, 2), 3, {}, bias
            yield "Gemm", [1, 12], (12, 5), 5, {}, bias
            yield "Gemm", [1, 12], (5, 12), 5, {"transB": 1}, bias

    def expected(self, real, norms, constants):
        for name in norms:
            g, b, m, v = (constants[f"{name}_{k}"].astype(np.float64).reshape(-1, *[1] * (real.ndim - 2)) for k in "gbmv")
            real = (real - m) / np.sqrt(v + np.float32(EPSILON)) * g + b
        return real

    def test_normalizations_behind_products(self):
        for op, shape, weight, outputs, more, bias in self.products():
            for n in (1, 2, 3):
                with self.subTest(op, weight=weight, bias=bias, norms=n):
                    constants = {"w": self.weights(*weight)} | ({"b": self.weights(outputs)} if bias else {})
                    product = helper.make_node(op, ["x", *constants], ["t0"], name="product", **more)
                    alone = self.write([product], shape, constants, name="product.onnx", t0=None)
                    norms = [self.norm(f"n{i}", f"t{i}", f"t{i + 1}", outputs, constants) for i in range(n)]
                    net = self.write([product, *norms], shape, constants, **{f"t{n}": None})
                    samples = [self.rng.normal(0, 1, shape).astype(np.float32) for _ in range(4)]
                    said = json.loads(self.quantize(net, self.arrays(samples), "--layout", "nchw", "--json", "--write-float", self.folder / "float.onnx"))
                    self.assertEqual((said["folded"], said["nodes"]), (n, 1))
                    wanted = self.expected(self.run_all(alone, samples, "nchw").astype(np.float64), [f"n{i}" for i in range(n)], constants)
                    np.testing.assert_allclose(self.run_all(self.folder / "float.onnx", samples, "nchw"), wanted, rtol=1e-4, atol=1e-4)
                    off = self.run_all(self.out, samples, "nchw") - wanted
                    self.assertLess(float(np.sqrt((off**2).mean() / (wanted**2).mean())), 0.03)

    def test_all_names_of_a_layer(self):
        """Each of what became one layer names it."""
        constants = {"w": self.weights(4, 3, 1, 1), "v": self.weights(4, 4, 1, 1)}
        nodes = [helper.make_node("Conv", ["x", "w"], ["t0"], name="product"), self.norm("n0", "t0", "t1", 4, constants), self.norm("n1", "t1", "t2", 4, constants),
                 helper.make_node("Conv", ["t2", "v"], ["y"], name="last")]
        net = self.write(nodes, [1, 3, 4, 4], constants, y=None)
        listed = self.arrays([self.rng.normal(0, 1, (1, 4, 4, 3)).astype(np.float32) for _ in range(4)])
        for name in ("product", "t0", "n0", "t1", "n1", "t2"):
            with self.subTest(name):
                said = json.loads(self.quantize(net, listed, "--keep-float", name, "--json"))
                self.assertEqual([(n["name"], n["reason"]) for n in said["float"]], [("product", "it was asked for")])

    def test_what_cannot_be_folded_stays(self):
        """Products that others read, too, or whose output the model has, normalizations of other channels, and statistics that are computed."""
        constants = {"w": self.weights(4, 3, 1, 1), "v": self.weights(4, 4, 1, 1)}
        node = helper.make_node
        conv, last = node("Conv", ["x", "w"], ["t0"]), node("Conv", ["t1", "v"], ["y"])
        norm = self.norm("n0", "t0", "t1", 4, constants)
        computed = onnx.NodeProto()
        computed.CopyFrom(norm)
        computed.input[4] = "variance"
        forms = {"read twice": ([conv, norm, node("Conv", ["t0", "v"], ["z"]), last], {"y": None, "z": None}), "output": ([conv, norm, last], {"y": None, "t0": None}),
                 "computed": ([node("ReduceMax", ["x"], ["most"], keepdims=0), node("Add", ["n0_v", "most"], ["variance"]), conv, computed, last], {"y": None})}
        samples = [self.rng.normal(0, 1, (1, 4, 4, 3)).astype(np.float32) for _ in range(4)]
        for name, (nodes, outputs) in forms.items():
            with self.subTest(name):
                net = self.write(nodes, [1, 3, 4, 4], constants, **outputs)
                said = json.loads(self.quantize(net, self.arrays(samples), "--json"))
                self.assertEqual(said["folded"], 0)
                wanted, got = self.run_all(net, samples), self.run_all(self.out, samples)
                self.assertLess(float(np.abs(got - wanted).max()), 0.1 * float(np.ptp(wanted)))


if __name__ == "__main__":
    unittest.main()
