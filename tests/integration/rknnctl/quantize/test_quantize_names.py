#!/usr/bin/python3
"""rknnctl quantize: models that have the names already which rewriting would give to what it makes."""
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from integration.rknnctl.test_quantize import Case

node = helper.make_node


class Names(Case):
    SHAPE = [1, 3, 8, 8]

    def check(self, net, mean=None, deviation=None):
        """The quantized model computes what the float one does, of pixels where it normalizes them."""
        raw = [self.rng.integers(0, 256, (1, 8, 8, 3)).astype(np.float32) for _ in range(8)]
        real = self.run_all(net, [(r - (mean or 0)) / (deviation or 1) for r in raw])
        options = ("--mean", mean, "--std", deviation) if deviation else ()
        self.quantize(net, self.arrays(raw), *options)
        names = [n.name for n in onnx.load(self.out).graph.node if n.name]
        self.assertEqual(len(set(names)), len(names), "ONNX Runtime refuses two nodes of one name")
        got = self.run_all(self.out, raw)
        self.assertLess(float(np.abs(got - real).max()), 0.05 * float(np.ptp(real)))

    def test_inputs_that_are_normalized_and_folded_weights(self):
        constants = {"w": self.weights(8, 3, 3, 3), "b": self.weights(8), "g": np.full(8, 2, np.float32), "be": self.weights(8),
                     "m": self.weights(8), "v": np.full(8, 0.5, np.float32), "x_mean": np.full((1, 8, 1, 1), 3, np.float32),
                     "x_std": np.full((1, 8, 1, 1), 0.25, np.float32), "c_folded_w": self.weights(4, 8, 1, 1), "c_folded_b": self.weights(4)}
        nodes = [node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4), node("BatchNormalization", ["c", "g", "be", "m", "v"], ["x_normalized"]),
                 node("Add", ["x_normalized", "x_mean"], ["x_centred"]), node("Mul", ["x_centred", "x_std"], ["s"]),
                 node("Conv", ["s", "c_folded_w", "c_folded_b"], ["y"])]
        self.check(self.write(nodes, self.SHAPE, constants, y=[1, 4, 8, 8]), 100, 50)

    def test_layers_by_names_that_folding_took(self):
        """The convolution's output and the normalization's own name mean the layer that both became; so in a table of step 1."""
        constants = {"w": self.weights(8, 3, 3, 3), "v": self.weights(8, 8, 3, 3), "g": np.full(8, 2, np.float32), "z": np.zeros(8, np.float32),
                     "o": np.ones(8, np.float32), "u": self.weights(4, 8, 1, 1)}
        nodes = [node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node("BatchNormalization", ["a", "g", "z", "z", "o"], ["b"], name="norm1"),
                 node("Relu", ["b"], ["r"]), node("Conv", ["r", "v"], ["c"], pads=[1] * 4), node("BatchNormalization", ["c", "o", "z", "z", "g"], ["d"], name="norm2"),
                 node("Relu", ["d"], ["s"]), node("Conv", ["s", "u"], ["y"])]
        net = self.write(nodes, self.SHAPE, constants, y=[1, 4, 8, 8])
        listed = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(4)])
        table, step = self.out.with_name("net.cfg"), "custom_quantize_layers:\n"
        self.rknnctl("quantize", net, "--dataset", listed, "--hybrid-step1", table, *self.USUAL)
        proposed = table.read_text()
        for present, names in (("b", ("a", "norm1")), ("d", ("c", "norm2"))):
            self.quantize(net, listed, "--keep-float", present)
            wanted = self.out.read_bytes()
            for name in names:
                with self.subTest(name):
                    self.quantize(net, listed, "--keep-float", name)
                    self.assertEqual(self.out.read_bytes(), wanted)
                    table.write_text(proposed.replace(step, f"{step}    {name}: float16\n"))
                    self.quantize(net, listed, "--hybrid-step2", table)
                    self.assertEqual(self.out.read_bytes(), wanted)
        table.write_text(proposed.replace(step, f"{step}    a: float16\n    b: float16\n"))
        self.out.unlink()
        self.assertIn("layer b is there twice", self.quantize(net, listed, "--hybrid-step2", table, code=2))

    def test_older_operators_that_become_several(self):
        """Softmax of all axes from one on (set 9), and axes that become constants."""
        constants = {"w": self.weights(4, 3, 1, 1), "rknnd_opset13_0": np.full((1, 4, 64), 9, np.float32), "w2": self.weights(256, 5)}
        nodes = [node("Conv", ["x", "w"], ["s_rknnd_flat"]), node("Softmax", ["s_rknnd_flat"], ["s"], axis=1),
                 node("Unsqueeze", ["s"], ["s_rknnd_soft"], axes=[0]), node("Squeeze", ["s_rknnd_soft"], ["s_rknnd_shape"], axes=[0]),
                 node("Flatten", ["s_rknnd_shape"], ["f"]), node("Reshape", ["f", "third"], ["t"]),
                 node("Add", ["t", "rknnd_opset13_0"], ["a"]), node("Flatten", ["a"], ["af"]), node("MatMul", ["af", "w2"], ["y"])]
        constants["third"] = np.array([1, 4, 64], np.int64)
        self.check(self.write(nodes, self.SHAPE, constants, opset=9, y=[1, 5]))

    def test_nodes_and_bodies_and_values_that_are_only_told_of(self):
        """Whatever a name is of: nodes share a namespace with those that are added, bodies see the tensors around them."""
        taken = [f"{tensor}_{what}" for tensor in ("x", "c", "r", "i", "y", "c_weight", "y_weight", "c_bias")
                 for what in ("q", "dq", "real", "scale", "zero_point", "weight", "bias")]
        chain = [node("Neg", [before], [name], name=f"{name}_") for before, name in zip(["r", *taken], [*taken, "then_out"])]
        bodies = [helper.make_graph(nodes, out, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 4, 8, 8])])
                  for nodes, out in ((chain, "then_out"), ([node("Abs", ["r"], ["else_out"], name="x_q")], "else_out"))]
        constants = {"w": self.weights(4, 3, 1, 1), "b": self.weights(4), "yes": np.array(True), "v": self.weights(5, 4, 1, 1)}
        branch = [node("If", ["yes"], ["i"], then_branch=bodies[0], else_branch=bodies[1], name="y")]
        for middle, last in ((branch, "i"), ([], "r")):
            nodes = [node("Conv", ["x", "w", "b"], ["c"], name="r_q"), node("Relu", ["c"], ["r"], name="r_dq"), *middle,
                     node("Conv", [last, "v"], ["y"], name="x_dq")]
            net = self.write(nodes, self.SHAPE, constants, y=[1, 5, 8, 8])
            model = onnx.load(net)
            if not middle:
                model.graph.value_info.append(helper.make_tensor_value_info("x_q", TensorProto.FLOAT, [7]))
                onnx.save(model, net)
            with self.subTest(last):
                self.check(net)
                made = onnx.load(self.out)
                onnx.checker.check_model(made, full_check=True)
                ours = {name for n in made.graph.node for name in n.output} | {t.name for t in made.graph.initializer}
                self.assertEqual(ours & ({*taken, "x_q"} if middle else {"x_q"}), set())

    def test_bodies_in_bodies_have_an_end(self):
        body = helper.make_graph([node("Abs", ["x"], ["o"])], "b", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, self.SHAPE)])
        for i in range(12):
            body = helper.make_graph([node("If", ["yes"], [f"o{i}"], then_branch=body, else_branch=body)] if i < 1 else
                                     [node("If", ["yes"], [f"o{i}"], then_branch=body)], "b", [],
                                     [helper.make_tensor_value_info(f"o{i}", TensorProto.FLOAT, self.SHAPE)])
        nodes = [node("If", ["yes"], ["i"], then_branch=body, else_branch=body), node("Conv", ["i", "w"], ["y"])]
        net = self.write(nodes, self.SHAPE, {"yes": np.array(True), "w": self.weights(4, 3, 1, 1)}, y=[1, 4, 8, 8])
        self.assertIn("subgraphs in subgraphs", self.quantize(net, self.arrays([np.ones((1, 8, 8, 3), np.float32)]), code=4))

    def test_a_branch_may_read_the_input_as_it_is(self):
        branch = [helper.make_graph([node(op, ["x"], [f"{op}_out"])], op, [], [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, self.SHAPE)])
                  for op in ("Relu", "Abs")]
        nodes = [node("If", ["yes"], ["i"], then_branch=branch[0], else_branch=branch[1]), node("Conv", ["i", "w"], ["y"])]
        net = self.write(nodes, self.SHAPE, {"yes": np.array(True), "w": self.weights(4, 3, 1, 1)}, y=[1, 4, 8, 8])
        raw = self.arrays([np.ones((1, 8, 8, 3), np.float32)])
        said = self.quantize(net, raw, "--mean", "1", "--std", "2", code=4)
        self.assertIn("subgraphs, which may read it", said)


if __name__ == "__main__":
    unittest.main()
