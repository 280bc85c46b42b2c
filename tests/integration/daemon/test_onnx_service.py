#!/usr/bin/python3
"""ONNX models through the daemon: how they are loaded."""
import json
import pathlib
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.rknnctl import OnDaemon


def model(nodes, inputs, outputs, constants=()):
    """A model of float tensors: inputs and outputs by name and shape."""
    def values(ports):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in ports.items()]
    constants = [numpy_helper.from_array(v, name) for name, v in dict(constants).items()]
    graph = helper.make_graph(nodes, "net", values(inputs), values(outputs), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def open_sum():
    """Sums x over its last axis and adds y; both are open but for x's second dimension."""
    return model([helper.make_node("ReduceSum", ["x", "axis"], ["s"], keepdims=1),
                  helper.make_node("Add", ["s", "y"], ["z"])],
                 {"x": ["n", 2, "w"], "y": ["n", "k", 1]}, {"z": ["n", 2, 1]},
                 {"axis": np.array([-1])})


class Case(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588", "--worker-idle", "0")

    def save(self, net, name="net.onnx"):
        onnx.save(net, self.folder / name)
        return self.folder / name

    def array(self, name, value):
        np.save(self.folder / name, np.asarray(value, np.float32))
        return f"{name[:-4]}={self.folder / name}"

    def expect(self, code, words, *command):
        done = self.daemon.rknnctl(*map(str, command))
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stdout + done.stderr)
        return done.stdout


class Shapes(Case):
    SHAPES = ("--shape", "x=1x2x5", "--shape", "y=1x1x1")

    def test_a_run_has_the_shapes_of_its_options(self):
        net = self.save(open_sum())
        for width in (5, 7):
            x = np.arange(2 * width).reshape(1, 2, width)
            self.expect(0, "", "run", net, "-x", f"x=1x2x{width}", "-x", "y=1x2x1",
                        "-i", self.array("x.npy", x), "-i", self.array("y.npy", [[[1], [3]]]),
                        "-l", "nchw", "-o", self.folder)
            z = np.load(self.folder / "out0.npy").reshape(2)
            np.testing.assert_array_equal(z, x.sum(-1)[0] + [1, 3])

    def test_every_command_takes_shapes(self):
        net = self.save(open_sum())
        inputs = ("-i", self.array("x.npy", np.ones((1, 2, 5))),
                  "-i", self.array("y.npy", np.ones((1, 1, 1))))
        self.expect(0, "2 runs", "bench", net, *self.SHAPES, "-n", "1", "--clients", "2")
        self.expect(0, "", "dump", net, *self.SHAPES, *inputs, "-o", self.folder / "dump")
        said = json.loads(self.expect(0, "", "info", net, "--json", *self.SHAPES))["model"]
        self.assertNotIn("refused", said)
        said = json.loads(self.expect(4, "", "info", net, "--json"))["model"]
        self.assertIn("--shape", said["refused"])

    def test_shapes_that_do_not_fit_are_refused(self):
        net = self.save(open_sum())
        for words, *shapes in (
                ("input x: shape 1x3x5 does not fit the model's ?x2x? (?", "x=1x3x5", "y=1x1x1"),
                ("does not fit", "x=1x2", "y=1x1x1"),
                ("the model has no input \"q\", only x, y", "q=1", *self.SHAPES[1::2]),
                ("no input", "axis=1", *self.SHAPES[1::2]),
                ("two shapes", "x=1x2x5", "x=1x2x6"),
                ("numbers above 0", "x=1x2xw")):
            options = [word for shape in shapes for word in ("--shape", shape)]
            self.expect(2, words, "bench", net, "-n", "1", *options)
        self.expect(4, "dimension 2 is not fixed", "bench", net, "--shape", "y=1x1x1")
        self.expect(2, "NAME=", "bench", net, "--shape", "x")

    def test_a_run_has_the_largest_of_several_shapes(self):
        net = self.save(open_sum())
        x = np.arange(14).reshape(1, 2, 7)
        self.expect(0, "", "run", net, "-x", "x=1x2x5,1x2x7", "-x", "y=1x1x1",
                    "-i", self.array("x.npy", x), "-i", self.array("y.npy", [[[1]]]),
                    "-l", "nchw", "-o", self.folder)
        np.testing.assert_array_equal(np.load(self.folder / "out0.npy").reshape(2),
                                      x.sum(-1)[0] + 1)

    def test_a_row_chooses_among_several_shapes(self):
        net = self.save(open_sum())
        shapes = ("-x", "x=1x2x5,1x2x7,1x2x6", "-x", "y=1x1x1,1x1x1,1x2x1")
        for shape_set, width, y in ((0, 5, [[[1]]]), (1, 7, [[[2]]]), (2, 6, [[[1], [3]]])):
            x = np.arange(2 * width).reshape(1, 2, width)
            inputs = ("-i", self.array("x.npy", x), "-i", self.array("y.npy", y), "-l", "nchw")
            self.expect(0, "", "run", net, *shapes, "--shape-set", shape_set, *inputs, "-o", self.folder)
            expected = x.sum(-1)[0] + np.ravel(y)
            np.testing.assert_array_equal(np.load(self.folder / "out0.npy").reshape(2), expected)
            self.expect(0, "", "dump", net, *shapes, "--shape-set", shape_set, *inputs, "-o", self.folder / "d")
            (dumped,) = (self.folder / "d").glob("*_z.npy")
            np.testing.assert_array_equal(np.load(dumped).reshape(2), expected)
            self.expect(0, "2 runs", "bench", net, *shapes, "--shape-set", shape_set, "-n", "2")
            said = json.loads(self.expect(0, "", "perf", net, *shapes, "--shape-set", shape_set, "--json"))
            self.assertIn(f"(1,2,{width})", said["layers"][0]["input_shapes"])
        self.expect(2, "3 shape sets", "bench", net, *shapes, "--shape-set", "3")
        self.expect(2, "--shape-set", "bench", net, *shapes, "--shape-set", "512")
        self.expect(2, "fixed", "bench", net, "-x", "x=1x2x5", "-x", "y=1x1x1", "--shape-set", "0")

    def test_files_with_fixed_shapes_take_none(self):
        net = self.save(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4]},
                              {"y": [1, 4]}))
        self.expect(0, "", "bench", net, "-n", "1", "--shape", "x=1x4")
        self.expect(2, "does not fit", "bench", net, "-n", "1", "--shape", "x=1x5")


class Layers(Case):
    """Conv and what is done to its output are one layer; what is constant is none."""

    def setUp(self):
        super().setUp()
        node, rng = helper.make_node, np.random.default_rng(5)
        self.weight = rng.normal(size=(2, 3, 1, 1)).astype(np.float32)
        self.image = rng.normal(size=(1, 3, 4, 4)).astype(np.float32)
        self.net = self.save(model(
            [node("Conv", ["x", "w"], ["c"]), node("Sigmoid", ["c"], ["gate"]),
             node("Mul", ["c", "gate"], ["silu"]), node("Shape", ["c"], ["size"]),
             node("Gather", ["size", "last"], ["width"]), node("Concat", ["width", "rest"],
                                                               ["flat"], axis=0),
             node("Reshape", ["silu", "flat"], ["r"]), node("Sin", ["r"], ["y"])],
            {"x": [1, 3, 4, 4]}, {"y": [4, 8]},
            {"w": self.weight, "last": np.array([3]), "rest": np.array([-1])}))
        self.inputs = ("-i", self.array("x.npy", self.image), "-l", "nchw")

    def expected(self):
        c = np.einsum("oi,nihw->nohw", self.weight[:, :, 0, 0], self.image)
        silu = c / (1 + np.exp(-c))
        return [("silu", silu), ("r", silu.reshape(4, 8)), ("y", np.sin(silu.reshape(4, 8)))]

    def test_each_has_its_time(self):
        said = json.loads(self.expect(0, "", "run", self.net, *self.inputs, "--perf", "--json"))
        self.assertEqual([(layer["op"], layer["output_shapes"]) for layer in said["layers"]],
                         [("Conv", "(1,2,4,4)"), ("Reshape", "(4,8)"), ("Sin", "(4,8)")])
        for layer in said["layers"]:
            self.assertLessEqual(layer["machine_us"], said["times"]["machine_run_us"]["max"])

    def test_nobody_has_chosen_its_chip(self):
        """It is said which one the estimate is for, and that; with a chip of the server's, only which."""
        for uri, chip, assumed in (("sim:", "rk3588", True), ("sim:rk3562", "rk3562", False)):
            said = json.loads(self.expect(0, "", "--server", uri, "perf", self.net, "--loop", 1, "--json"))
            self.assertEqual((said["timing"]["estimate_chip"], said["timing"]["estimate_assumed"]), (chip, assumed))
            text = self.expect(0, "", "--server", uri, "perf", self.net, "--loop", 1)
            self.assertIn(f"what the NPU of {chip} would take", text)
            self.assertEqual("nobody has chosen a chip" in text, assumed)

    def test_each_tensor_can_be_looked_at(self):
        self.expect(0, "", "dump", self.net, *self.inputs, "-o", self.folder / "dump")
        files = sorted((self.folder / "dump").glob("*.npy"))
        self.assertEqual(len(files), 3)
        for file, (name, value) in zip(files, self.expected()):
            self.assertIn(name, file.name)
            np.testing.assert_allclose(np.load(file), value, rtol=1e-5, atol=1e-6)


def multiplies_bytes():
    """Other CPUs multiply words of 16 bits, so 8-bit weights are held as such."""
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "avx512_vnni" in flags or "avx_vnni" in flags


class Memory(Case):
    SIZE = 1 << 18  # floats of every tensor: 1 MiB

    def memory(self, net, shape):
        said = self.expect(0, "", "run", self.save(net), "--perf", "--json", "-i",
                           self.array("t0.npy", np.zeros(shape)))
        return json.loads(said)["memory"]

    def internal_size(self, nodes, last):
        net = model(nodes, {"t0": [1, self.SIZE]}, {last: [1, self.SIZE]})
        return self.memory(net, (1, self.SIZE))["internal_bytes"]

    def test_tensors_share_places(self):
        chain = [helper.make_node("Tan", [f"t{i}"], [f"t{i + 1}"]) for i in range(12)]
        self.assertEqual(self.internal_size(chain, "t12"), 2 << 20)
        # t1 is still needed at the end.
        chain.append(helper.make_node("Add", ["t1", "t12"], ["sum"]))
        self.assertEqual(self.internal_size(chain, "sum"), 3 << 20)
        doubled = [helper.make_node("Add", [f"t{i}"] * 2, [f"t{i + 1}"]) for i in range(12)]
        self.assertEqual(self.internal_size(doubled, "t12"), 1 << 20)

    def expect_held_once(self, weight, net, shape, widened=1):
        """widened: what the form that is multiplied takes of the weights' own size."""
        memory = self.memory(net, shape)
        self.assertGreaterEqual(memory["weight_bytes"], weight.nbytes)
        self.assertLess(memory["allocated_bytes"], (widened + .5) * weight.nbytes)

    def test_weights_are_held_once(self):
        n, ones = 512, np.ones(512, np.float32)
        norm = helper.make_node("BatchNormalization", ["c", *["ones"] * 4], ["y"])
        for op, shape in (("Conv", (1, n, 1, 1)), ("MatMul", (1, n))):
            weight = np.ones((n, n, *shape[2:]), np.float32)
            net = model([helper.make_node(op, ["t0", "w"], ["c"]), norm], {"t0": shape},
                        {"y": shape}, {"w": weight, "ones": ones})
            self.expect_held_once(weight, net, shape)

    def test_eight_bit_weights_are_held_once(self):
        shape = (1, 1024)
        for kind in (np.int8, np.uint8):
            weight = np.ones((1024, 1024), kind)
            form = ["scale", "zero"]
            nodes = [helper.make_node(op, [x, *form], [y]) for op, x, y in (
                ("QuantizeLinear", "t0", "xq"), ("DequantizeLinear", "xq", "x"),
                ("DequantizeLinear", "wq", "w"), ("QuantizeLinear", "p", "pq"),
                ("DequantizeLinear", "pq", "y"))]
            nodes.insert(3, helper.make_node("MatMul", ["x", "w"], ["p"]))
            net = model(nodes, {"t0": shape}, {"y": shape},
                        {"wq": weight, "scale": np.float32(.1), "zero": kind(0)})
            self.expect_held_once(weight, net, shape, 1 if multiplies_bytes() else 2)


class OtherFiles(Case):
    def setUp(self):
        super().setUp()
        self.weight = np.random.default_rng(3).normal(size=(4, 1000)).astype(np.float32)

    def save_apart(self, **options):
        net = model([helper.make_node("MatMul", ["x", "w"], ["p"]),
                     helper.make_node("Add", ["p", "b"], ["y"])],
                    {"x": [1, 4]}, {"y": [1, 1000]}, {"w": self.weight, "b": self.weight[1]})
        for file in self.folder.glob("[wb]"):
            file.unlink()
        onnx.save(net, str(self.folder / "net.onnx"), save_as_external_data=True, size_threshold=0,
                  **options)
        self.assertLess((self.folder / "net.onnx").stat().st_size, 1000)
        return self.folder / "net.onnx"

    def check_runs(self, path):
        self.expect(0, "", "run", path, "-i", self.array("x.npy", [[1, 2, 3, 4]]),
                    "-o", self.folder)
        y = np.load(self.folder / "out0.npy").reshape(-1)
        np.testing.assert_allclose(y, np.array([1, 2, 3, 4]) @ self.weight + self.weight[1],
                                   rtol=1e-4, atol=1e-5)

    def test_weights_beside_the_model_come_along(self):
        self.check_runs(self.save_apart(location="w"))

    def test_each_tensor_may_have_its_file(self):
        self.check_runs(self.save_apart(all_tensors_to_one_file=False))

    def test_changed_weights_are_another_model(self):
        path = self.save_apart(location="w")
        self.check_runs(path)
        self.weight = self.weight * 2
        raw = np.frombuffer((self.folder / "w").read_bytes(), np.float32) * 2
        (self.folder / "w").write_bytes(raw.tobytes())
        self.check_runs(path)

    def test_a_description_knows_them(self):
        said = json.loads(self.expect(0, "", "info", self.save_apart(location="w"), "--json"))
        self.assertNotIn("refused", said["model"])

    def test_other_places_are_refused(self):
        (self.folder / "below").mkdir()
        (self.folder / "below/data").write_bytes(bytes(100000))
        (self.folder / "link").symlink_to("below/data")
        for words, values in (("own folder", {"location": "/etc/passwd"}),
                              ("own folder", {"location": "../secret"}),
                              ("own folder", {"location": "below/data"}),
                              ("own folder", {"location": ".."}),
                              ("not followed", {"location": "link"}),
                              ("no file", {"location": "below"}),
                              ("No such file", {"location": "none"}),
                              ("which has", {"offset": 1 << 40}),
                              ("which has", {"length": 1 << 40}),
                              ("makes no sense", {"offset": -4}),
                              ("elements", {"length": 16})):
            path = self.save_apart(location="w")
            net = onnx.load(str(path), load_external_data=False)
            for entry in net.graph.initializer[0].external_data:
                entry.value = str(values.get(entry.key, entry.value))
            path.write_bytes(net.SerializeToString())
            self.expect(4, words, "bench", path, "-n", "1")


if __name__ == "__main__":
    unittest.main()
