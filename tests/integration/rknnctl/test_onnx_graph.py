#!/usr/bin/python3
"""What rknnctl says of an ONNX file's graph: its nodes and what lies between them, and the layers that
the software NPU makes of them."""
import json
import re
import unittest

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError:
    onnx = None
import numpy as np
from support.rknnctl import OnDaemon, rknnctl



@unittest.skipUnless(onnx, "the Python module onnx is not installed")
class Graph(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def model(self, *extra):
        """x -> conv -> relu -> add <- x, and then two outputs of a split; one node has no name."""
        weight = numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["r"], "relu"),
                 helper.make_node("Add", ["r", "x"], ["a"], "add"), helper.make_node("Split", ["a"], ["y", "z"], axis=3),
                 *extra]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                  for name, shape in (("x", ("batch", 3, 4, 8)), ("y", ("batch", 3, 4, 4)), ("z", ("batch", 3, 4, 4)))]
        graph = helper.make_graph(nodes, "graph", values[:1], values[1:], [weight])
        file = self.folder / "branches.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)]), file)
        return file

    def description(self, file, code=0):
        done = rknnctl("info", "-j", file, uri=self.uri)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)["model"]

    def test_dot_has_an_edge_for_each_tensor(self):
        dot = self.ok("info", "--dot", self.model(), uri=self.uri)
        names = dict(re.findall(r'^  ([nio]\d+) \[.*label="(\w+)', dot, re.M))
        edges = {(names[a], names[b], label) for a, b, label in re.findall(r'^  (\w+) -> (\w+) \[label="([^"]*)"', dot, re.M)}
        self.assertEqual(edges, {("x", "Conv", "?x3x4x8 FP32"), ("Conv", "Relu", "1x3x4x8 FP32"),
                                 ("Relu", "Add", "1x3x4x8 FP32"), ("x", "Add", "?x3x4x8 FP32"),
                                 ("Add", "Split", "1x3x4x8 FP32"), ("Split", "y", "?x3x4x4 FP32"),
                                 ("Split", "z", "?x3x4x4 FP32")})

    def test_nodes_name_inputs_and_outputs(self):
        model = self.description(self.model())
        nodes = {n["op"]: n for n in model["nodes"]}
        self.assertEqual([t["name"] for t in nodes["Add"]["inputs"]], ["r", "x"])
        self.assertEqual(nodes["Conv"]["inputs"][1], {"name": "w", "type": "FP32", "shape": [3, 3, 1, 1]})
        self.assertEqual([t["shape"] for t in nodes["Split"]["outputs"]], [[None, 3, 4, 4]] * 2)

    def test_layers_are_joined_nodes(self):
        model = self.description(self.model())
        self.assertLess(len(model["layers"]), len(model["nodes"]))
        self.assertEqual([layer["name"] for layer in model["layers"]], model["steps"])
        written, read = set(), set()
        for layer in model["layers"]:
            read |= {t["tensor"] for t in layer["inputs"] if t["tensor"] in written}
            written |= {t["tensor"] for t in layer["outputs"]}
        self.assertEqual(len(written - read), 2, "outputs that no layer reads: those of the model")
        self.assertEqual({t["name"] for t in model["layers"][-1]["outputs"]}, {"y", "z"})

    def computed(self, nodes, constants, shapes):
        """What the software NPU makes of x and some nodes, with the layers, and x."""
        x = np.random.default_rng(3).normal(size=shapes[0]).astype(np.float32)
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes)]
        graph = helper.make_graph(nodes, "graph", values[:1], values[1:],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        file = self.folder / "small.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), file)
        np.save(self.folder / "x.npy", x.transpose(0, 2, 3, 1))
        self.ok("run", file, "-i", self.folder / "x.npy", "-o", self.folder, uri=self.uri)
        return np.load(self.folder / "out0.npy"), self.description(file)["steps"], x

    def test_padding_in_front_of_a_convolution(self):
        pads = [0, 0, 2, 1, 0, 0, 0, 3]
        weight = np.random.default_rng(4).normal(size=(4, 3, 3, 2)).astype(np.float32)
        for value, joined in ((0, True), (1.5, False)):
            nodes = [helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
                     helper.make_node("Conv", ["p", "w"], ["y"], pads=[1, 0, 1, 0])]
            y, layers, x = self.computed(nodes, {"pads": np.array(pads), "value": np.float32(value), "w": weight},
                                         ((1, 3, 7, 6), (1, 4, 9, 9)))
            padded = np.pad(x[0], ((0, 0), (2, 0), (1, 3)), constant_values=value)
            padded = np.pad(padded, ((0, 0), (1, 1), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (1, 2))
            np.testing.assert_allclose(y[0], np.einsum("cyxij,ocij->oyx", windows, weight), rtol=1e-4, atol=1e-5)
            self.assertEqual(len(layers) == 1, joined, layers)

    def test_means_over_each_choice_of_axes(self):
        shape = (1, 5, 6, 7)
        for axes in ([2], [3], [1], [1, 3], [2, 3], [1, 2]):
            left = [1 if i in axes else n for i, n in enumerate(shape)]
            # Behind a convolution, whose output lies as images do.
            nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("ReduceMean", ["c"], ["y"], axes=axes)]
            weight = np.eye(5, dtype=np.float32).reshape(5, 5, 1, 1)
            y, _, x = self.computed(nodes, {"w": weight}, (shape, left))
            np.testing.assert_allclose(y, x.mean(tuple(axes), keepdims=True), rtol=1e-5, atol=1e-6)

    def test_a_resize_says_each_size_once(self):
        """ONNX Runtime refuses both files, too."""
        constants = [numpy_helper.from_array(np.array((1, 1, 2, 3), np.float32), "scales"),
                     numpy_helper.from_array(np.array((1, 3, 4, 9)), "sizes"), numpy_helper.from_array(np.array((2, 3), np.float32), "two")]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 8))
        for inputs, attributes, words in ((["x", "", "scales", "sizes"], {}, "both scales and sizes"),
                                          (["x", "", "two"], {"axes": [2, -2]}, "axis 2 is there twice")):
            graph = helper.make_graph([helper.make_node("Resize", inputs, ["y"], **attributes)], "graph", [x],
                                      [onnx.ValueInfoProto(name="y")], constants)
            file = self.folder / "resize.onnx"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)
            done = rknnctl("info", file, uri=self.uri)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(words, done.stderr)

    def test_runtime_operators_that_are_not_as_onnx_has_them(self):
        """ONNX Runtime's operators on 8-bit numbers: what would make another number of them is refused."""
        form, bias = {"s": np.float32(.1), "z": np.uint8(3)}, {"b": np.zeros(4, np.int32)}
        weight = {"w": np.ones((3, 4), np.uint8)}
        gemm = ["x", "s", "z", "w", "s", "z", "b", "s", "z"]
        for op, shape, inputs, attributes, words in (
                ("QLinearGlobalAveragePool", [1, 3, 4, 4], ["x", "s", "z", "s", "z"], {"ceil_mode": 1},
                 'its attribute "ceil_mode" is not known'),
                ("QLinearSoftmax", [1, 3], ["x", "s", "z", "s", "z"], {"axis": 1, "opset": 11}, 'its attribute "opset" is not known'),
                ("QLinearAdd", [1, 3], ["x", "s", "z", "x", "s", "z", "s", "z"], {"axis": 1}, 'its attribute "axis" is not known'),
                ("QLinearConcat", [1, 3], ["s", "z", "x", "s", "z", "x"], {"axis": 1}, "it has 6 inputs"),
                ("QGemm", [2, 3], gemm, {"alpha": .5}, "alpha 0.5 is not supported"),
                ("QGemm", [2, 3], gemm[:7], {}, "7 inputs are not supported")):
            for domain in ("com.microsoft", ""):
                graph = helper.make_graph([helper.make_node(op, inputs, ["y"], "it", domain=domain, **attributes)], "graph",
                                          [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
                                          [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
                                          [numpy_helper.from_array(np.asarray(v), k) for k, v in {**form, **bias, **weight}.items()])
                file = self.folder / "runtime.onnx"
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]), file)
                with self.subTest(op=op, domain=domain):
                    done = rknnctl("info", file, uri=self.uri)
                    self.assertIn("node it (", done.stderr)
                    self.assertIn(words if domain else "this operator is not supported", done.stderr)

    def test_of_a_file_that_is_refused(self):
        model = self.description(self.model(helper.make_node("NoSuchThing", ["y"], ["n"], "unknown")), 4)
        self.assertIn("NoSuchThing", model["refused"])
        self.assertEqual([n["op"] for n in model["nodes"]], ["Conv", "Relu", "Add", "Split", "NoSuchThing"])
        self.assertEqual(model["nodes"][4]["inputs"][0]["name"], "y")
        self.assertNotIn("layers", model)


if __name__ == "__main__":
    unittest.main()
