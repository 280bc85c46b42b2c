#!/usr/bin/python3
"""ONNX nodes of which a run decides what they do (shapes, axes, branches that are computed or inputs), graphs
inside nodes, and operands that are usually constants."""
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from support.rknnctl import OnDaemon

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.bool_): TensorProto.BOOL}


def constants(values):
    return [numpy_helper.from_array(np.asarray(v), name) for name, v in values.items()]


def floats(ports):
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in ports.items()]


def body(nodes, inputs, outputs, values=None):
    """A graph inside a node: tensors by name; inputs with their type and shape."""
    return helper.make_graph(nodes, "body",
                             [helper.make_tensor_value_info(n, *kind) for n, kind in inputs.items()],
                             [helper.make_empty_tensor_value_info(n) for n in outputs],
                             constants(values or {}))


class Case(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588", "--worker-idle", "0")

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)

    def save(self, nodes, inputs, outputs, values=None):
        """inputs: arrays, which give types and shapes; outputs: shapes of floats."""
        graph = helper.make_graph(
            nodes, "net",
            [helper.make_tensor_value_info(n, TYPES[v.dtype], v.shape) for n, v in inputs.items()],
            floats(outputs), constants(values or {}))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, self.folder / "net.onnx")

    def rknnctl(self, inputs):
        words = ["run", str(self.folder / "net.onnx"), "-l", "nchw", "-o", str(self.folder)]
        for name, value in inputs.items():
            np.save(self.folder / f"{name}.npy", value)
            words += ["-i", f"{name}={self.folder / name}.npy"]
        return self.daemon.rknnctl(*words)

    def run_net(self, **inputs):
        done = self.rknnctl(inputs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [np.load(p) for p in sorted(self.folder.glob("out*.npy"))]

    def refused(self, words, **inputs):
        done = self.rknnctl(inputs)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(words, done.stderr)

    def random(self, *shape):
        return self.rng.normal(size=shape).astype(np.float32)


class Operands(Case):
    def test_a_shape_comes_with_the_run(self):
        x, shape = self.random(2, 3, 4), np.array([4, -1])
        self.save([helper.make_node("Reshape", ["x", "shape"], ["y"])],
                  {"x": x, "shape": shape}, {"y": [4, 6]})
        np.testing.assert_array_equal(self.run_net(x=x, shape=shape)[0], x.reshape(4, 6))
        np.testing.assert_array_equal(self.run_net(x=x, shape=np.array([-1, 6]))[0],
                                      x.reshape(4, 6))

    def test_a_shape_that_is_not_the_file_s_is_refused(self):
        x, shape = self.random(2, 3, 4), np.array([4, 6])
        self.save([helper.make_node("Reshape", ["x", "shape"], ["y"])],
                  {"x": x, "shape": shape}, {"y": [4, 6]})
        self.refused("node y (Reshape): with these operands its output y is FP32 6x4, where the "
                     "model was loaded for FP32 4x6", x=x, shape=np.array([6, 4]))
        self.refused("24 elements do not become", x=x, shape=np.array([5, 5]))

    def test_a_shape_that_the_file_does_not_state_is_refused(self):
        x, shape = self.random(6), np.array([2, 3])
        self.save([helper.make_node("Reshape", ["x", "shape"], ["y"])],
                  {"x": x, "shape": shape}, {"y": ["n", 3]})
        self.refused("its input shape is known only in a run, and the file does not state the shape "
                     "of its output y", x=x, shape=shape)

    def test_a_window_moves_over_images(self):
        """Operands that a model computes; images, which are kept channels-last."""
        x = self.random(1, 3, 8, 8)
        self.save([helper.make_node("ArgMax", ["score"], ["at"], axis=0, keepdims=1),
                   helper.make_node("Add", ["at", "size"], ["end"]),
                   helper.make_node("Slice", ["x", "at", "end", "axis"], ["cut"]),
                   helper.make_node("Relu", ["cut"], ["y"])],
                  {"x": x, "score": self.random(5)}, {"y": [1, 3, 4, 8]},
                  {"size": np.array([4]), "axis": np.array([2])})
        graph = onnx.load(self.folder / "net.onnx")
        graph.graph.value_info.extend(floats({"cut": [1, 3, 4, 8]}))
        onnx.save(graph, self.folder / "net.onnx")
        for at in (0, 3, 4):
            score = np.zeros(5, np.float32)
            score[at] = 1
            np.testing.assert_array_equal(self.run_net(x=x, score=score)[0],
                                          np.maximum(x[:, :, at:at + 4], 0))

    def test_normalization_with_computed_scale(self):
        x, scale, bias = self.random(2, 3, 4, 5), self.random(3), self.random(3)
        mean, variance = self.random(3), np.abs(self.random(3)) + np.float32(.1)
        self.save([helper.make_node("Mul", ["s", "s"], ["scale"]),
                   helper.make_node("BatchNormalization", ["x", "scale", "b", "m", "v"], ["y"],
                                    epsilon=.01)],
                  {"x": x, "s": scale}, {"y": x.shape}, {"b": bias, "m": mean, "v": variance})
        c = (1, 3, 1, 1)
        want = (x - mean.reshape(c)) / np.sqrt(variance + .01).reshape(c)
        want = want * (scale * scale).reshape(c) + bias.reshape(c)
        np.testing.assert_allclose(self.run_net(x=x, s=scale)[0], want, 1e-5, 1e-6)

    def test_a_constant_comes_first_in_a_concatenation(self):
        """As class tokens do."""
        x, token = self.random(1, 6, 8), self.random(1, 1, 8)
        self.save([helper.make_node("Concat", ["token", "x"], ["y"], axis=1)], {"x": x},
                  {"y": [1, 7, 8]}, {"token": token})
        np.testing.assert_array_equal(self.run_net(x=x)[0], np.concatenate([token, x], 1))


    def test_an_attribute_that_is_not_known_is_refused(self):
        x = self.random(4)
        self.save([helper.make_node("Relu", ["x"], ["y"], slope=.1)], {"x": x}, {"y": [4]})
        self.refused('node y (Relu): its attribute "slope" is not known', x=x)


class Branches(Case):
    def save_branches(self, x, condition, shapes=None):
        """true: x * 2 + 1; false: a convolution with a weight from around."""
        true = body([helper.make_node("Mul", ["x", "two"], ["d"]),
                     helper.make_node("Add", ["d", "one"], ["then_y"])], {}, ["then_y"],
                    {"two": np.float32(2)})
        false = body([helper.make_node("Conv", ["x", "w"], ["d"], pads=[1] * 4),
                      helper.make_node("Relu", ["d"], ["else_y"])], {}, ["else_y"])
        self.w = self.random(3, 3, 3, 3)
        self.save([helper.make_node("If", ["c"], ["r"], then_branch=true, else_branch=false),
                   helper.make_node("Neg", ["r"], ["y"])], {"x": x, **condition},
                  shapes or {"y": x.shape}, {"w": self.w, "one": np.float32(1),
                                             **({} if condition else {"c": np.bool_(True)})})

    def convolved(self, x):
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.maximum(np.einsum("nchwij,ocij->nohw", windows, self.w), 0)

    def test_a_run_chooses(self):
        x = self.random(1, 3, 6, 5)
        self.save_branches(x, {"c": np.array(True)})
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(True))[0], -(x * 2 + 1), 1e-6)
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(False))[0], -self.convolved(x), 1e-4,
                                   1e-5)

    def test_a_constant_chooses(self):
        x = self.random(1, 3, 6, 5)
        self.save_branches(x, {})
        np.testing.assert_allclose(self.run_net(x=x)[0], -(x * 2 + 1), 1e-6)

    def test_what_is_not_known_in_both_branches_is_refused_at_once(self):
        x = self.random(4)
        bodies = [body([helper.make_node("Unknown", ["x"], [n])], {}, [n]) for n in ("t", "f")]
        self.save([helper.make_node("If", ["c"], ["y"], then_branch=bodies[0],
                                    else_branch=bodies[1])],
                  {"x": x, "c": np.array(True)}, {"y": [4]})
        self.refused("inside node y (If): node t (Unknown): this operator is not supported", x=x,
                     c=np.array(True))

    def test_what_is_not_known_in_one_branch_is_refused_when_it_is_taken(self):
        x = self.random(4)
        true = body([helper.make_node("Unknown", ["x"], ["t"])], {}, ["t"])
        false = body([helper.make_node("Neg", ["x"], ["f"])], {}, ["f"])
        self.save([helper.make_node("If", ["c"], ["y"], then_branch=true, else_branch=false)],
                  {"x": x, "c": np.array(True)}, {"y": [4]})
        np.testing.assert_array_equal(self.run_net(x=x, c=np.array(False))[0], -x)
        self.refused("this operator is not supported", x=x, c=np.array(True))

    def test_a_name_of_a_branch_hides_one_around_it(self):
        """And the two branches may use the same names."""
        x = self.random(4)
        bodies = [body([helper.make_node(op, ["x"], ["d"]), helper.make_node("Neg", ["d"], ["e"])],
                       {}, ["e"]) for op in ("Abs", "Exp")]
        self.save([helper.make_node("Relu", ["x"], ["d"]),
                   helper.make_node("If", ["c"], ["r"], then_branch=bodies[0],
                                    else_branch=bodies[1]),
                   helper.make_node("Add", ["r", "d"], ["y"])],
                  {"x": x, "c": np.array(True)}, {"y": [4]})
        rest = np.maximum(x, 0)
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(True))[0], rest - abs(x), 1e-6)
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(False))[0], rest - np.exp(x), 1e-6)

    def test_branches_call_their_outputs_as_the_node_does(self):
        """As all merged decoders that Optimum writes."""
        x = self.random(4)
        true = body([helper.make_node("Abs", ["x"], ["d"]), helper.make_node("Neg", ["d"], ["y"])], {}, ["y"])
        false = body([helper.make_node("Exp", ["x"], ["y"])], {}, ["y"])
        for inputs, values in (({"c": np.array(True)}, {}), ({}, {"c": np.bool_(True)})):
            self.save([helper.make_node("If", ["c"], ["y"], then_branch=true, else_branch=false)], {"x": x, **inputs}, {"y": [4]}, values)
            np.testing.assert_array_equal(self.run_net(x=x, **inputs)[0], -abs(x))
        self.save([helper.make_node("If", ["c"], ["y"], then_branch=true, else_branch=false)], {"x": x, "c": np.array(True)}, {"y": [4]})
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(False))[0], np.exp(x), 1e-6)

    def test_what_a_branch_takes_is_made_by_a_node_that_is_listed_later(self):
        """Also for a branch inside a branch; a name that the branch has itself is none of the later node's."""
        x = self.random(4)
        inner = body([helper.make_node("Neg", ["later"], ["n"])], {}, ["n"])
        outer = body([helper.make_node("Abs", ["x"], ["own"]), helper.make_node("Add", ["own", "other"], ["m"])], {}, ["m"])
        true = body([helper.make_node("If", ["c"], ["t"], then_branch=inner, else_branch=outer)], {}, ["t"])
        self.save([helper.make_node("If", ["c"], ["r"], then_branch=true, else_branch=outer),
                   helper.make_node("Exp", ["x"], ["later"]), helper.make_node("Relu", ["x"], ["other"]),
                   helper.make_node("Neg", ["r"], ["own"]), helper.make_node("Add", ["own", "x"], ["y"])],
                  {"x": x, "c": np.array(True)}, {"y": [4]})
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(True))[0], np.exp(x) + x, 1e-5, 1e-6)
        np.testing.assert_allclose(self.run_net(x=x, c=np.array(False))[0], x - abs(x) - np.maximum(x, 0), 1e-5, 1e-6)


class Loops(Case):
    FLOATS = (TensorProto.FLOAT, [2])

    def loop(self):
        """s += x * i, while i + 1 < 5; each s is collected."""
        inside = body([helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
                       helper.make_node("Mul", ["x", "f"], ["p"]),
                       helper.make_node("Add", ["s", "p"], ["next"]),
                       helper.make_node("Identity", ["next"], ["each"]),
                       helper.make_node("Less", ["i", "last"], ["go"])],
                      {"i": (TensorProto.INT64, []), "c": (TensorProto.BOOL, []),
                       "s": self.FLOATS}, ["go", "next", "each"], {"last": np.int64(4)})
        return helper.make_node("Loop", ["n", "", "zero"], ["sum", "all"], body=inside)

    def sums(self, x, n):
        return np.array([x * sum(range(i + 1)) for i in range(n)])

    def test_a_loop_runs_as_often_as_a_constant_says(self):
        x = self.random(2)
        self.save([self.loop()], {"x": x}, {"sum": [2], "all": [3, 2]},
                  {"n": np.int64(3), "zero": np.zeros(2, np.float32)})
        last, every = self.run_net(x=x)
        np.testing.assert_allclose(every, self.sums(x, 3), 1e-6)
        np.testing.assert_allclose(last, self.sums(x, 3)[-1], 1e-6)

    def test_its_condition_ends_a_loop(self):
        x = self.random(2)
        self.save([self.loop()], {"x": x}, {"sum": [2], "all": [5, 2]},
                  {"n": np.int64(100), "zero": np.zeros(2, np.float32)})
        np.testing.assert_allclose(self.run_net(x=x)[1], self.sums(x, 5), 1e-6)

    def test_a_run_says_how_often(self):
        x = self.random(2)
        self.save([self.loop()], {"x": x, "n": np.array(3)}, {"sum": [2], "all": [3, 2]},
                  {"zero": np.zeros(2, np.float32)})
        np.testing.assert_allclose(self.run_net(x=x, n=np.array(3))[1], self.sums(x, 3), 1e-6)
        self.refused("its output all is FP32 4x2", x=x, n=np.array(4))

    def test_a_loop_without_end_is_refused(self):
        x = self.random(2)
        inside = body([helper.make_node("Add", ["s", "x"], ["next"])],
                      {"i": (TensorProto.INT64, []), "c": (TensorProto.BOOL, []),
                       "s": self.FLOATS}, ["c", "next"])
        self.save([helper.make_node("Loop", ["", "", "x"], ["sum"], body=inside)], {"x": x},
                  {"sum": [2]})
        self.refused("its repetitions make up more than", x=x)

    def test_scans_go_along_axes_in_both_directions(self):
        x, first = self.random(3, 4), self.random(3)
        kind = (TensorProto.FLOAT, [3])
        inside = body([helper.make_node("Add", ["s", "column"], ["next"]),
                       helper.make_node("Identity", ["next"], ["each"])],
                      {"s": kind, "column": kind}, ["next", "each"])
        self.save([helper.make_node("Scan", ["first", "x"], ["sum", "all"], body=inside,
                                    num_scan_inputs=1, scan_input_axes=[1],
                                    scan_input_directions=[1], scan_output_axes=[-1])],
                  {"x": x, "first": first}, {"sum": [3], "all": [3, 4]})
        sums = first[:, None] + np.cumsum(x[:, ::-1], 1)
        last, every = self.run_net(x=x, first=first)
        np.testing.assert_allclose(every, sums, 1e-5, 1e-6)
        np.testing.assert_allclose(last, sums[:, -1], 1e-5, 1e-6)


if __name__ == "__main__":
    unittest.main()
