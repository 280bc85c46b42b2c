#!/usr/bin/python3
"""rknnctl quantize: models of forms that are seldom met. What they compute in floats is said by numpy or by the float model itself."""
import json
import unittest

import numpy as np
import onnx
from onnx import helper

from integration.rknnctl.test_quantize import Case

node = helper.make_node


class Models(Case):
    def off(self, net, samples, *options, layout="nchw"):
        """Root mean square of the quantized model's error in units of the float one's outputs, and what was said."""
        said = json.loads(self.quantize(net, self.arrays(samples), "--layout", layout, "--json", *options))
        real, got = self.run_all(net, samples, layout).astype(np.float64), self.run_all(self.out, samples, layout)
        return float(np.sqrt(((got - real)**2).mean() / (real**2).mean())), said

    def test_weights_that_are_arithmetic_of_constants(self):
        """A normalized weight and its gain, as torch.nn.utils.weight_norm is written without folding; a bias of a sum; other operators."""
        v, gain = self.weights(8, 3, 3, 3), self.rng.uniform(0.5, 2, (8, 1, 1, 1)).astype(np.float32)
        squares = (v.astype(np.float64)**2).sum((1, 2, 3), keepdims=True).astype(np.float32)
        b, more = self.weights(8), np.float32(0.25)
        forms = {"norm": ([node("Sqrt", ["squares"], ["norm"]), node("Div", ["gain", "norm"], ["factor"]), node("Mul", ["v", "factor"], ["w"]),
                           node("Add", ["b", "more"], ["bias"])], v * (gain / np.sqrt(squares)), b + more),
                 "others": ([node("Abs", ["v"], ["a"]), node("Neg", ["gain"], ["n"]), node("Reciprocal", ["n"], ["i"]), node("Exp", ["i"], ["x_"]),
                             node("Sub", ["a", "x_"], ["w"]), node("Sub", ["b", "b"], ["bias"])], np.abs(v) - np.exp(1 / -gain), b - b)}
        samples = [self.rng.normal(0, 1, (1, 3, 6, 7)).astype(np.float32) for _ in range(6)]
        for name, (made, weight, bias) in forms.items():
            with self.subTest(name):
                constants = {"v": v, "gain": gain, "squares": squares, "b": b, "more": more}
                net = self.write([*made, node("Conv", ["x", "w", "bias"], ["y"])], [1, 3, 6, 7], constants, y=None)
                plain = self.write([node("Conv", ["x", "w", "bias"], ["y"])], [1, 3, 6, 7], {"w": weight, "bias": bias}, name="plain.onnx", y=None)
                off, said = self.off(net, samples, "--write-float", self.folder / "float.onnx")
                self.assertEqual((said["nodes"], said["quantized"]), (1, 1))
                self.assertLess(off, 0.02)
                np.testing.assert_allclose(self.run_all(self.folder / "float.onnx", samples, "nchw"), self.run_all(plain, samples, "nchw"), rtol=1e-5, atol=1e-5)

    def test_arithmetic_that_gives_no_number_stays(self):
        """1 / 0 is not made a constant; what only floats read may be infinite."""
        constants = {"w": self.weights(4, 3, 1, 1), "zero": np.zeros((4, 1, 1), np.float32), "one": np.float32(1), "v": self.weights(2, 4, 1, 1)}
        nodes = [node("Div", ["one", "zero"], ["far"]), node("Conv", ["x", "w"], ["c"]), node("Min", ["c", "far"], ["m"]), node("Conv", ["m", "v"], ["y"])]
        samples = [self.rng.normal(0, 1, (1, 3, 4, 4)).astype(np.float32) for _ in range(4)]
        off, said = self.off(self.write(nodes, [1, 3, 4, 4], constants, y=None), samples)
        self.assertLess(off, 0.05)
        self.assertIn("far", [n["output"] for n in said["float"]])

    def test_masks_of_infinity(self):
        """Attention with a causal mask, which is -infinity where nothing is to be seen; as exporters come to it."""
        mask = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
        forms = {"constant": ([], {"m": mask}), "axes": ([node("Unsqueeze", ["k", "axes"], ["m"])], {"k": mask, "axes": np.array([0])}),
                 "turned": ([node("Transpose", ["k"], ["m"], perm=[1, 0])], {"k": mask.T.copy()}), "shaped": ([node("Reshape", ["k", "shape"], ["m"])],
                                                                                                              {"k": mask.ravel(), "shape": np.array([1, 6, 6])}),
                 "filled": ([node("ConstantOfShape", ["shape"], ["all"], value=helper.make_tensor("v", 1, [1], [-np.inf])), node("Where", ["seen", "none", "all"], ["m"])],
                            {"shape": np.array([6, 6]), "seen": mask == 0, "none": np.float32(0)}),
                 "added": ([node("Add", ["k", "none"], ["m"])], {"k": mask, "none": np.float32(0)})}
        weights = {name: self.weights(8, 8) for name in ("q", "k_", "v", "o")}
        samples = [self.rng.normal(0, 1, (1, 6, 8)).astype(np.float32) for _ in range(8)]
        for name, (made, constants) in forms.items():
            with self.subTest(name):
                nodes = [*made, node("MatMul", ["x", "q"], ["Q"]), node("MatMul", ["x", "k_"], ["K"]), node("MatMul", ["x", "v"], ["V"]),
                         node("Transpose", ["K"], ["T"], perm=[0, 2, 1]), node("MatMul", ["Q", "T"], ["S"]), node("Add", ["S", "m"], ["masked"]),
                         node("Softmax", ["masked"], ["P"], axis=-1), node("MatMul", ["P", "V"], ["O"]), node("MatMul", ["O", "o"], ["y"])]
                off, said = self.off(self.write(nodes, [1, 6, 8], weights | constants, y=None), samples)
                self.assertLess(off, 0.03)
                products = [n.op_type for n in onnx.load(self.out).graph.node if n.op_type == "MatMul"]
                self.assertEqual((len(products), [n["op"] for n in said["float"] if n["name"] in weights]), (6, []))
                self.assertGreaterEqual(said["quantized"], 4)

    def test_channels_that_are_nearly_dead_keep_their_bias(self):
        """Equalization makes such channels' weights larger, and would make the bias a thousand times as large as all others."""
        for size in (1e-3, 1e-5, 1e-8, 1e-20):
            constants = {"w": self.weights(16, 3, 3, 3), "b": self.weights(16), "w2": self.weights(16, 1, 3, 3), "w3": self.weights(8, 16, 1, 1)}
            constants["w"][[2, 5, 7]] *= np.float32(size)
            constants["b"][[2, 5, 7]] = 0.5
            nodes = [node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]), node("Conv", ["r", "w2"], ["d"], group=16, pads=[1] * 4),
                     node("Relu", ["d"], ["e"]), node("Conv", ["e", "w3"], ["y"])]
            net = self.write(nodes, [1, 3, 12, 12], constants, y=None)
            samples = [self.rng.normal(0, 1, (1, 3, 12, 12)).astype(np.float32) for _ in range(8)]
            for method in ("channel", "layer"):
                with self.subTest(size=size, method=method):
                    off, said = self.off(net, samples, "--method", method)
                    self.assertGreater(said["equalized"], 0)
                    self.assertLess(off, 0.03)

    def test_operators_that_set_13_has_as_they_were(self):
        constants = {"w": self.weights(4, 3, 1, 1), "v": self.weights(5, 4, 1, 1), "lengths": np.array([3], np.int64), "seen": np.array([True, True, False, True])}
        middles = {"Celu": [node("Celu", ["c"], ["m"], alpha=0.5)], "ReverseSequence": [node("ReverseSequence", ["c", "lengths"], ["m"], batch_axis=0, time_axis=1)],
                   "MeanVarianceNormalization": [node("MeanVarianceNormalization", ["c"], ["m"])],
                   "Compress": [node("Compress", ["c", "seen"], ["p"], axis=2), node("Concat", ["p", "c"], ["m"], axis=2)]}
        samples = [self.rng.normal(0.2, 1, (1, 3, 4, 5)).astype(np.float32) for _ in range(4)]
        for name, middle in middles.items():
            with self.subTest(name):
                net = self.write([node("Conv", ["x", "w"], ["c"]), *middle, node("Conv", ["m", "v"], ["y"])], [1, 3, 4, 5], constants, opset=12, y=None)
                off, said = self.off(net, samples)
                self.assertLess(off, 0.05)
                self.assertGreaterEqual(said["quantized"], 2)

    def test_sparse_weights_are_refused_in_words(self):
        model = onnx.load(self.write([node("Conv", ["x", "w"], ["y"])], [1, 3, 4, 4], {}, y=None))
        values, places = helper.make_tensor("w", 1, [2], [1, 2]), helper.make_tensor("w_at", 7, [2], [0, 5])
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [8, 3, 1, 1]))
        onnx.save(model, self.folder / "net.onnx")
        self.assertIn("sparse tensors", self.quantize(self.folder / "net.onnx", self.arrays([np.ones((1, 3, 4, 4), np.float32)]), code=4))


if __name__ == "__main__":
    unittest.main()
