#!/usr/bin/python3
"""rknnctl quantize: what the server's own nodes see of tensors is what dumps show, and names do not matter."""
import json
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

from integration.rknnctl.test_quantize import ALGORITHMS, Case


class Observed(Case):
    def net(self, names=("c", "p", "f")):
        """Images, of five channels and of nine, and a matrix."""
        conv, pool, flat = names
        constants = {"w": self.weights(5, 3, 3, 3), "v": self.weights(9, 5, 1, 1), "m": self.weights(36, 4),
                     "shape": np.array([1, 36], np.int64)}
        return self.write([helper.make_node("Conv", ["x", "w"], [conv], pads=[1] * 4),
                           helper.make_node("Conv", [conv, "v"], ["d"]), helper.make_node("Relu", ["d"], ["r"]),
                           helper.make_node("AveragePool", ["r"], [pool], kernel_shape=[4, 4], strides=[4, 4]),
                           helper.make_node("Reshape", [pool, "shape"], [flat]), helper.make_node("MatMul", [flat, "m"], ["y"])],
                          [1, 3, 8, 8], constants, y=[1, 4])

    def samples(self, n):
        return self.arrays([self.rng.normal(0.2, 1 + i % 7, (1, 8, 8, 3)).astype(np.float32) for i in range(n)])

    def constants(self):
        return {t.name: numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}

    def test_it_is_what_dumps_show(self):
        net = self.net()
        for n in (3, 40):  # 40: not all have histograms
            listed = self.samples(n)
            for algorithm in ALGORITHMS:
                with self.subTest(algorithm=algorithm, n=n):
                    here = json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--clients", 3, "--json"))["tensors"]
                    ours = self.constants()
                    there = json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--dumps", "--json"))["tensors"]
                    for a, b in zip(here, there, strict=True):
                        if algorithm == "normal" and n > 16 and a["mean_square_error"]:
                            self.assertLess(abs(a.pop("mean_square_error") / b.pop("mean_square_error") - 1), 0.5)
                        self.assertEqual(a, b)
                    for name, theirs in self.constants().items():
                        # A mean of other samples, or added up in another order, moves a bias by some steps of it.
                        step = 1 if theirs.dtype == np.int32 else 0
                        if algorithm != "normal" or n <= 16 or not step:
                            np.testing.assert_allclose(ours[name], theirs, atol=step, rtol=0, err_msg=name)

    def test_names_may_be_anything(self):
        listed = self.samples(3)
        plain = json.loads(self.quantize(self.net(), listed, "--json"))["tensors"]
        self.rng = np.random.default_rng(1)
        net = self.net(("a\tb", "new\nline", "\x1b[31m"))
        strange = json.loads(self.quantize(net, listed, "--json"))["tensors"]
        self.assertEqual(len(strange), len(plain))

    def test_values_that_are_not_finite_are_found(self):
        samples = [np.ones((1, 8, 8, 3), np.float32) for _ in range(3)]
        samples[1][0, 5, 5, 1] = np.nan
        samples[1][0, 2, 5, 1] = np.inf
        said = self.quantize(self.net(), self.arrays(samples), code=5)
        self.assertIn("sample 1: tensor x has 2 values that are no finite numbers", said)


if __name__ == "__main__":
    unittest.main()
