#!/usr/bin/python3
"""rknnctl quantize --batch-size: models for several samples at once, which come out as they do alone."""
import unittest

import numpy as np
import onnx
from onnx import helper

from integration.rknnctl.test_quantize import FLOAT, Case, digits


class Batches(Case):
    def run_one(self, model, values):
        np.save(self.folder / "x.npy", values)
        folder = self.folder / "out"
        self.rknnctl("run", model, "-i", self.folder / "x.npy", "-o", folder)
        return np.load(next(folder.glob("*.npy")))

    def test_samples_come_out_as_they_do_alone(self):
        pixels = digits()[0][:9]
        listed = self.arrays(list(pixels[:6][:, None]))
        self.quantize(FLOAT, listed)
        alone = np.concatenate([self.run_one(self.out, one[None]) for one in pixels[6:]])
        for size in (1, 3):
            self.quantize(FLOAT, listed, "--batch-size", size)
            self.assertEqual(onnx.load(self.out).graph.input[0].type.tensor_type.shape.dim[0].dim_value, size)
        np.testing.assert_allclose(self.run_one(self.out, pixels[6:]), alone, atol=1e-6)

    def both_ways(self, nodes, constants, *shape):
        """A model behind a convolution `p` of [1, 8, 8, 8], for three samples at once and alone."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["p"], pads=[1, 1, 1, 1]), *nodes], [1, 4, 8, 8],
                         {"w": self.weights(8, 4, 3, 3), **constants}, y=list(shape))
        samples = [self.rng.normal(0, 1, (1, 8, 8, 4)).astype(np.float32) for _ in range(3)]
        listed = self.arrays(samples)
        self.quantize(net, listed)
        alone = np.concatenate([self.run_one(self.out, one) for one in samples])
        self.quantize(net, listed, "--batch-size", 3)
        np.testing.assert_allclose(self.run_one(self.out, np.concatenate(samples)), alone, atol=1e-6)

    def test_slices_that_leave_samples_whole(self):
        """Of all dimensions, with the ends of one sample; up to the last; up to what the tensor's own shape says."""
        def cut(*inputs):
            return helper.make_node("Slice", ["p", *inputs], ["y"], name="cut")

        self.both_ways([cut("from", "to")], {"from": np.array([0, 2, 0, 0]), "to": np.array([1, 6, 8, 8])}, 1, 4, 8, 8)
        self.both_ways([cut("from", "to", "axes")], {"from": np.array([0, 2]), "to": np.array([2**63 - 1, 4]), "axes": np.array([0, 1])}, 1, 2, 8, 8)
        self.both_ways([helper.make_node("Shape", ["p"], ["s"]), helper.make_node("Slice", ["s", "zero", "two", "zero"], ["to"]),
                        cut("from", "to", "axes")],
                       {"zero": np.array([0]), "two": np.array([2]), "from": np.array([0, 3]), "axes": np.array([0, 1])}, 1, 5, 8, 8)
        with self.assertRaisesRegex(AssertionError, "cuts samples off"):
            self.both_ways([cut("from", "to")], {"from": np.array([0, 2]), "to": np.array([-1, 6])}, 1, 4, 8, 8)

    def test_constants_for_as_many_samples_as_there_are(self):
        shape = [helper.make_node("Shape", ["p"], ["s"]), helper.make_node("Slice", ["s", "zero", "one", "zero"], ["n"]),
                 helper.make_node("Concat", ["n", "more"], ["all"], axis=0)]
        numbers = {"zero": np.array([0]), "one": np.array([1]), "more": np.array([2, 8, 8])}
        join = helper.make_node("Concat", ["p", "e"], ["y"], axis=1)
        self.both_ways([*shape, helper.make_node("ConstantOfShape", ["all"], ["e"]), join], numbers, 1, 10, 8, 8)
        self.both_ways([*shape, helper.make_node("Expand", ["k", "all"], ["e"]), join],
                       {**numbers, "k": np.ones((1, 1, 1, 1), np.float32)}, 1, 10, 8, 8)

    def test_two_inputs_one_of_indices(self):
        table = self.weights(5, 8)
        graph = helper.make_graph(
            [helper.make_node("Gather", ["table", "i"], ["g"]), helper.make_node("Add", ["x", "g"], ["a"]),
             helper.make_node("MatMul", ["a", "w"], ["y"])], "net",
            [helper.make_tensor_value_info("x", 1, [1, 3, 8]), helper.make_tensor_value_info("i", 7, [1, 3])],
            [helper.make_tensor_value_info("y", 1, [1, 3, 4])],
            [onnx.numpy_helper.from_array(v, k) for k, v in (("table", table), ("w", self.weights(8, 4)))])
        net = self.folder / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), net)
        for i in range(4):
            np.save(self.folder / f"x{i}.npy", self.rng.normal(0, 1, (1, 3, 8)).astype(np.float32))
            np.save(self.folder / f"i{i}.npy", np.array([[0, i, 4]]))
        listed = self.folder / "list.txt"
        listed.write_text("".join(f"x{i}.npy i{i}.npy\n" for i in range(4)))
        self.quantize(net, listed, "--batch-size", 2)
        self.assertEqual([i.type.tensor_type.shape.dim[0].dim_value for i in onnx.load(self.out).graph.input if i.name in "xi"], [2, 2])

    def test_samples_that_would_be_mixed(self):
        net = self.write([helper.make_node("Gemm", ["x", "w"], ["g"]), helper.make_node("Softmax", ["g"], ["y"], axis=0, name="mixes")],
                         [1, 8], {"w": self.weights(8, 4)}, y=[1, 4])
        listed = self.arrays([self.rng.normal(0, 1, (1, 8)).astype(np.float32)])
        self.assertIn("mixes", self.quantize(net, listed, "--batch-size", 2, code=4))
        for options in (("--batch-size", 0), ("--batch-size", 5000), ("--batch-size", 2, "--hybrid-step1", self.folder / "net.cfg"),
                        ("--batch-size", 2, "--shape", "1,8")):
            words = ("quantize", net, "--dataset", listed, *(() if "--hybrid-step1" in options else ("-o", self.out)))
            self.assertIn("batch-size", self.rknnctl(*words, *options, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
