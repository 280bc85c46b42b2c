#!/usr/bin/python3
"""Data sets as people write them, and outputs of unlike ranges."""
import json
import os
import unittest

import numpy as np
import onnx
from onnx import helper

import rknnd
from integration.rknnctl.test_quantize import FLOAT, Case
from rknnd import _calibration

# Text of a list -> what rknnctl and Python say of it ("": they take it), with files a.npy, "b c.npy" and it's.npy.
LISTS = {
    'a.npy\n"b c.npy"\n': "",
    "\ufeff# pictures\r\na.npy  \r\n\r\n\t'b c.npy' \r\nit's.npy": "",
    "\"it's.npy\"": "",
    "# nothing\n\n": "no ",
    "a.npy\nb c.npy\n": "line 2.* quotes",
    "a.npy\n\n\"b c.npy\n": "line 3.*quotes around a name do not end",
    '"a.npy"it\'s.npy\n': "line 1.*",
    "a.npy\0": "line 1.*no text",
    "none.npy\nnone.npy\0": "line 2.*no text",
    "a.npy\nfolder\n": "line 2.*folder",
    "a.npy\nnone.npy\n": "line 2.*none.npy",
    "a.npy\nfolder\\a.npy\n": "line 2.*parted by /",
}


class Lists(Case):
    def setUp(self):
        super().setUp()
        for name in ("a", "b c", "it's"):
            np.save(self.folder / f"{name}.npy", self.rng.random((1, 8, 8, 1), np.float32))
        (self.folder / "folder").mkdir()
        self.list = self.folder / "my list.txt"

    def test_rknnctl_and_python_read_them_alike(self):
        for text, words in LISTS.items():
            self.list.write_bytes(text.encode())
            self.out.unlink(missing_ok=True)
            with self.subTest(text):
                if words:
                    self.assertRegex(self.quantize(FLOAT, self.list, code=5), words)
                    with self.assertRaisesRegex(rknnd.InputError, words):
                        rknnd.quantize(FLOAT, self.out, str(self.list), server=self.daemon.uri)
                    self.assertFalse(self.out.exists())
                    continue
                said = json.loads(self.quantize(FLOAT, self.list, "--json"))
                self.assertEqual(said["samples"], len(_calibration.read_list(self.list)))

    def test_a_line_with_too_many_files(self):
        self.list.write_text("a.npy\na.npy a.npy\n")
        self.assertIn("sample 2 (line 2): ", self.quantize(FLOAT, self.list, code=2))
        with self.assertRaisesRegex(rknnd.InputError, "sample 2 .*a.npy.*: 2 inputs given, the model has 1"):
            rknnd.quantize(FLOAT, self.out, str(self.list), server=self.daemon.uri)

    def test_the_sample_that_is_wrong_is_named(self):
        """Of thousands of files."""
        np.save(self.folder / "short.npy", np.zeros(3, np.float32))
        np.save(self.folder / "complex.npy", np.zeros((1, 8, 8, 1), np.complex64))
        (self.folder / "cut.png").write_bytes(b"\x89PNG")
        for name in ("short.npy", "complex.npy", "cut.png"):
            self.list.write_text(f"a.npy\n# a comment\n{name}\n")
            with self.subTest(name):
                self.assertRegex(self.quantize(FLOAT, self.list, code=5), rf"sample 2 \(line 3\): .*{name}")
                with self.assertRaisesRegex(rknnd.InputError, rf"sample 2 \(.*{name}\): "):
                    rknnd.quantize(FLOAT, self.out, str(self.list), server=self.daemon.uri)

    def test_a_list_that_is_a_folder(self):
        self.assertIn("Is a directory", self.quantize(FLOAT, self.folder, code=5))

    def test_a_pipe_that_nobody_writes_to(self):
        os.mkfifo(self.folder / "pipe.npy")
        self.list.write_text("a.npy\npipe.npy\n")
        self.assertRegex(self.quantize(FLOAT, self.list, code=5), "line 2: .*pipe.npy is a pipe")
        with self.assertRaisesRegex(rknnd.InputError, "line 2: .*pipe.npy is a pipe"):
            rknnd.quantize(FLOAT, self.out, str(self.list), server=self.daemon.uri)

    def test_a_name_that_is_no_text(self):
        name = b"\xff\xfe.npy"
        (self.folder / "a.npy").rename(self.folder / name.decode(errors="surrogateescape"))
        self.list.write_bytes(name + b"\n")
        self.quantize(FLOAT, self.list)
        self.assertEqual(len(_calibration.read_list(self.list)), 1)


class Heads(Case):
    """Two products joined by a Concat, one with values a thousand times as large: a detector's scores and boxes."""

    def test_each_keeps_its_steps(self):
        constants = {"w0": self.weights(8, 4, 1, 1), "w1": self.weights(8, 8, 1, 1) * 1000, "w2": self.weights(8, 8, 1, 1),
                     "flat": np.array([1, 8, -1], np.int64)}
        nodes = [helper.make_node("Conv", ["x", "w0"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
                 *(node for i in (1, 2) for node in (helper.make_node("Conv", ["r", f"w{i}"], [f"h{i}"]),
                                                     helper.make_node("Reshape", [f"h{i}", "flat"], [f"f{i}"]))),
                 helper.make_node("Concat", ["f1", "f2"], ["y"], axis=2)]
        net = self.write(nodes, [1, 4, 6, 6], constants, y=[1, 8, 72])
        samples = [self.rng.normal(0, 1, (1, 6, 6, 4)).astype(np.float32) for _ in range(8)]
        self.quantize(net, self.arrays(samples))
        outputs = []
        for path in (net, self.out):
            folder = self.folder / path.stem
            self.rknnctl("run", path, "-i", self.folder / "list.txt0.npy", "-o", folder)
            outputs.append(np.load(next(folder.glob("*.npy")))[..., 36:].astype(np.float64))
        real, stored = outputs
        self.assertLess(np.abs(real - stored).max(), np.abs(real).max() / 20)
        kinds = [node.op_type for node in onnx.load(self.out).graph.node]
        self.assertEqual(kinds[-1], "Concat")

    def test_means_of_a_last_layer_are_not_cut_off(self):
        """A class of which the samples never were sure: each value was seen, but not so many large ones at once."""
        for pool in (helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[8, 8])):
            net = self.write([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"]), pool,
                              helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Softmax", ["f"], ["y"])],
                             [1, 4, 8, 8], {"w": 4 * np.eye(4, dtype=np.float32)[..., None, None]}, y=[1, 4])
            listed = self.arrays([self.rng.uniform(-1, 1, (1, 8, 8, 4)).astype(np.float32) for _ in range(8)])
            self.quantize(net, listed, "--layout", "nhwc")
            sure = self.rng.uniform(0.7, 0.9, (1, 8, 8, 4)).astype(np.float32) * np.float32([1, 0.5, -1, 0])
            np.save(self.folder / "sure.npy", sure)
            self.rknnctl("run", self.out, "-i", self.folder / "sure.npy", "-o", self.folder / "out")
            logits = np.maximum(4 * sure, 0).mean((0, 1, 2)).astype(np.float64)
            wanted = np.exp(logits) / np.exp(logits).sum()
            with self.subTest(pool.op_type):
                np.testing.assert_allclose(np.load(next((self.folder / "out").glob("*.npy"))).ravel(), wanted, atol=0.02)
            self.out.unlink()


class Models(Case):
    """What no two exporters do alike."""

    def test_factors_of_gemm(self):
        """They go into weight and bias, of this node alone; numpy says what it computes."""
        x = self.rng.normal(0, 1, (4, 32)).astype(np.float32)
        constants = {"w": self.weights(32, 16), "wt": self.weights(16, 32), "row": 3 * self.weights(16), "rows": self.weights(1, 16),
                     "one": np.float32([0.7]), "none": np.float32(-0.2)}
        for bias, more in (("row", {"alpha": 0.5}), ("row", {"beta": 2.0}), ("rows", {"alpha": -1.5, "beta": -0.5, "transB": 1}),
                           ("one", {"alpha": 0.25, "beta": 3.0}), ("none", {"beta": 2.0}), ("row", {"beta": 0.0}), ("", {"alpha": 2.0}),
                           ("rows", {}), ("one", {}), ("none", {})):
            weight = "wt" if "transB" in more else "w"
            # Another node has the same constants without factors.
            net = self.write([helper.make_node("Gemm", ["x", weight, bias][:2 + bool(bias)], ["g"], **more),
                              helper.make_node("Gemm", ["x", weight, "row"], ["h"], transB=more.get("transB", 0)),
                              helper.make_node("Add", ["g", "h"], ["y"])], [4, 32], constants, y=[4, 16])
            product = x.astype(np.float64) @ (constants["wt"].T if "transB" in more else constants["w"])
            wanted = more.get("alpha", 1) * product + product + constants["row"]
            wanted = wanted + more.get("beta", 1) * constants.get(bias, 0)
            for dtype, room in (("w8a8", 0.03), ("w16a16i", 0.0003)):
                with self.subTest(more, dtype=dtype, bias=bias):
                    said = json.loads(self.quantize(net, self.arrays([x]), "--dtype", dtype, "--json"))
                    self.assertEqual((said["quantized"], said["nodes"]), (3, 3))
                    self.rknnctl("run", self.out, "-i", self.folder / "list.txt0.npy", "-o", self.folder / "out")
                    found = np.load(next((self.folder / "out").glob("*.npy")))
                    self.assertLess(np.abs(found - wanted).max(), room * np.abs(wanted).max())
        # Of a bias that is no row, and of a factor of 0, nothing is folded.
        self.out.unlink()
        for more, bias in (({"alpha": 0.0}, "row"), ({"alpha": 2.0}, "column")):
            net = self.write([helper.make_node("Gemm", ["x", "w", bias], ["y"], **more)], [4, 32],
                             constants | {"column": self.weights(4, 1)}, y=[4, 16])
            self.assertIn("it has factors", self.quantize(net, self.arrays([x]), code=4))
        # A column that is as long as a row is none.
        net = self.write([helper.make_node("Gemm", ["x", "w4", "column"], ["y"])], [4, 32], {"w4": self.weights(32, 4), "column": self.weights(4, 1)},
                         y=[4, 4])
        self.assertIn("its bias is not one number", self.quantize(net, self.arrays([x]), code=4))

    def test_weights_that_nodes_make_of_constants(self):
        """As exporters leave them: what is written is what the same net with plain weights gives."""
        node = helper.make_node
        weights = {"w": self.weights(6, 3, 3, 3).astype(np.float16).astype(np.float32), "b": self.weights(6), "v": self.weights(5, 6, 1, 1),
                   "u": self.weights(245, 8), "k": np.float32(0.75)}
        products = [node("Conv", ["x", "w", "b"], ["c"]), node("Mul", ["c", "k"], ["m"]), node("Conv", ["m", "v"], ["d"]), node("Flatten", ["d"], ["f"]),
                    node("MatMul", ["f", "u"], ["y"])]
        listed = self.arrays([self.rng.normal(0, 1, (1, 9, 9, 3)).astype(np.float32) for _ in range(4)])
        self.quantize(self.write(products, [1, 3, 9, 9], weights, y=[1, 8]), listed)
        wanted = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}
        made = [node("Identity", ["w0"], ["w1"]), node("Cast", ["w1"], ["w"], to=1), node("Constant", [], ["b"], value_floats=weights["b"].tolist()),
                node("Unsqueeze", ["v0", "axes"], ["v"]), node("Transpose", ["u0"], ["u2"], perm=[1, 2, 0]), node("Reshape", ["u2", "flat"], ["u"]),
                node("Constant", [], ["k"], value_float=0.75)]
        constants = {"w0": weights["w"].astype(np.float16), "v0": weights["v"][:, :, 0, 0], "axes": np.array([-1, 2]),
                     "u0": weights["u"].reshape(5, 49, 8).transpose(2, 0, 1), "flat": np.array([245, 8])}
        self.quantize(self.write(made + products, [1, 3, 9, 9], constants, y=[1, 8]), listed)
        found = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}
        self.assertEqual(sorted(found), sorted(wanted))
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, name)

    def test_means_of_inputs_that_are_no_pictures(self):
        """A number for each channel where the channels are: second, last, or alone."""
        nets = (([1, 4, 9], [helper.make_node("Conv", ["x", "w"], ["c"])], {"w": self.weights(5, 4, 3)}, (4, 1), [1, 5, 7]),
                ([1, 6, 6, 4], [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), helper.make_node("Conv", ["t", "w"], ["c"])],
                 {"w": self.weights(5, 4, 3, 3)}, (4,), [1, 5, 4, 4]),
                ([7, 4], [helper.make_node("MatMul", ["x", "w"], ["c"])], {"w": self.weights(4, 5)}, (4,), [7, 5]))
        mean, deviation = np.float32([100, -20, 3, 50]), np.float32([50, 2, 0.5, 20])
        for shape, nodes, constants, channels, out in nets:
            net = self.write([*nodes, helper.make_node("Relu", ["c"], ["y"])], shape, constants, y=out)
            normal = [self.rng.normal(0, 1, shape).astype(np.float32) for _ in range(4)]
            raw = [n * deviation.reshape(channels) + mean.reshape(channels) for n in normal]
            options = ("--mean", ",".join(map(str, mean)), "--std", ",".join(map(str, deviation)), "--layout", "nchw")
            with self.subTest(shape):
                self.quantize(net, self.arrays(raw), *options)
                wanted, got = (self.run_all(path, samples, "nchw") for path, samples in ((net, normal), (self.out, raw)))
                self.assertLess(np.abs(got - wanted).max(), 0.03 * np.abs(wanted).max())
                self.out.unlink()
                words = self.quantize(net, self.arrays(raw), "--mean", "1,2,3", "--layout", "nchw", code=2)
                self.assertIn("there are 3 numbers for mean or deviation", words)

    def test_what_is_stored_ends_within_the_bounds_of_clips(self):
        """Of ranges that a rounded zero point moves; all but a step of what lies within them is there."""
        samples = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(4)])
        for low, high in ((-0.5, 0.7), (None, 0.5), (-0.3, None), (-2.0, 3.0), (0.0, 0.6), (-1.0, 1.0)):
            bounds = {name: np.float32(end) for name, end in (("lo", low), ("hi", high)) if end is not None}
            net = self.write([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Clip", ["c", *(n if n in bounds else "" for n in ("lo", "hi"))], ["r"]),
                              helper.make_node("Conv", ["r", "v"], ["y"])], [1, 3, 8, 8],
                             bounds | {"w": 5 * self.weights(6, 3, 3, 3), "v": self.weights(4, 6, 1, 1)}, y=[1, 4, 6, 6])
            for options in ((), ("--algorithm", "mmse"), ("--dtype", "w16a16i")):
                with self.subTest(bounds=(low, high), options=options):
                    said = json.loads(self.quantize(net, samples, "--json", *options))
                    tensor, = [t for t in said["tensors"] if t["name"] == "r"]
                    most = 32767 if "w16a16i" in options else 127
                    ends = [np.float32(end - tensor["zero_point"]) * np.float32(tensor["scale"]) for end in (-most - 1, most)]
                    seen = [min(tensor["seen"][0], 0), max(tensor["seen"][1], 0)]
                    for end, bound, sign in ((ends[0], low, -1), (ends[1], high, 1)):
                        if bound is not None:
                            self.assertLessEqual(sign * end, np.float32(sign * bound))
                    if "mmse" not in options:
                        self.assertLess(max(ends[0] - seen[0], seen[1] - ends[1]), 1.01 * tensor["scale"])

    def one(self, node, shape, constants, out):
        return self.write([node], shape, constants, y=out)

    def test_what_cannot_be_quantized_is_said_with_its_reason(self):
        listed = self.arrays([np.ones((1, 8), np.float32)])
        gemm = self.one(helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), [8, 1], {"w": self.weights(8, 4)}, [1, 4])
        self.assertRegex(self.quantize(gemm, listed, code=4), r"nothing to quantize.*Gemm: it has factors")
        double = self.one(helper.make_node("MatMul", ["x", "w"], ["y"]), [1, 8], {"w": self.weights(8, 4).astype(np.float64)}, [1, 4])
        self.assertRegex(self.quantize(double, listed, code=4), r"nothing to quantize.*not float32")
        deep = self.one(helper.make_node("Conv", ["x", "w"], ["y"]), [1, 2, 4, 4, 4], {"w": self.weights(3, 2, 3, 3, 3)}, [1, 3, 2, 2, 2])
        self.assertRegex(self.quantize(deep, listed, code=4), r"nothing to quantize.*more than two dimensions")
        integers = self.write([helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
                               helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=1)],
                              [1, 8], {"w": np.ones((8, 4), np.int8)}, y=[1, 4])
        self.assertRegex(self.quantize(integers, listed, code=4), "quantized already")
        theirs = self.write([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain="com.microsoft"),
                             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], domain="com.microsoft"),
                             helper.make_node("MatMul", ["d", "w"], ["y"])],
                            [1, 8], {"s": np.float32(0.1), "z": np.int16(0), "w": self.weights(8, 4)}, y=[1, 4])
        self.assertRegex(self.quantize(theirs, listed, code=4), "quantized already")
        for name in ("w", "k"):
            constants = {"w": self.weights(8, 4), "k": self.weights(4), "v": self.weights(4, 4)}
            constants[name].flat[3] = np.nan
            net = self.write([helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "k"], ["a"]),
                              helper.make_node("MatMul", ["a", "v"], ["y"])], [1, 8], constants, y=[1, 4])
            self.assertRegex(self.quantize(net, listed, code=4), f"weight {name}: element 3 is not a finite number")

    def test_float16_models_are_widened(self):
        """Whole ones, and those with casts at both ends whose weights lie in numbers of 32 bits: as the same net in float32."""
        weights = {"w": self.weights(8, 4, 3, 3).astype(np.float16), "b": self.weights(8).astype(np.float16)}
        listed = self.arrays([self.rng.normal(0, 1, (1, 6, 6, 4)).astype(np.float32) for _ in range(4)])
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
        wide = self.write(nodes, [1, 4, 6, 6], {name: w.astype(np.float32) for name, w in weights.items()}, y=[1, 8, 4, 4])
        self.quantize(wide, listed)
        wanted = self.out.read_bytes()
        whole = onnx.load(self.write(nodes, [1, 4, 6, 6], weights, "half.onnx", y=[1, 8, 4, 4]))
        for value in (*whole.graph.input, *whole.graph.output):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        onnx.save(whole, self.folder / "half.onnx")
        self.quantize(self.folder / "half.onnx", listed)
        self.assertEqual(self.out.read_bytes(), wanted)
        inside = self.write([helper.make_node("Cast", ["x"], ["h"], to=10), helper.make_node("Conv", ["h", "w", "b"], ["c"]),
                             helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Cast", ["r"], ["y"], to=1)],
                            [1, 4, 6, 6], weights, "inside.onnx", y=[1, 8, 4, 4])
        model = onnx.load(inside)
        for t in model.graph.initializer:
            stored = np.frombuffer(t.raw_data, np.uint16)
            t.ClearField("raw_data")
            t.int32_data.extend(int(one) for one in stored)
        onnx.checker.check_model(model)
        onnx.save(model, inside)
        self.quantize(inside, listed)
        found = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}
        for t in onnx.load_from_string(wanted).graph.initializer:
            if t.name.startswith("c_weight"):
                np.testing.assert_array_equal(found[t.name], onnx.numpy_helper.to_array(t), t.name)

    def test_names_that_no_server_shows(self):
        """Control characters, changes of direction, and 300 bytes: found behind "?" and cut, by dumps as by nodes."""
        names = "stage1/a\x01\u202eb\n", 'stage1/r "q" \t', "e" * 300
        nodes = [helper.make_node("Conv", ["x", "w"], [names[0]], name="\x1b[31m"), helper.make_node("Relu", [names[0]], [names[1]]),
                 helper.make_node("Conv", [names[1], "w"], [names[2]]), helper.make_node("Conv", [names[2], "w"], ["y"])]
        net = self.write(nodes, [1, 8, 6, 6], {"w": self.weights(8, 8, 1, 1)}, y=[1, 8, 6, 6])
        listed = self.arrays([self.rng.normal(0, 1, (1, 6, 6, 8)).astype(np.float32) for _ in range(3)])
        made = []
        for options in ((), ("--dumps",)):
            self.quantize(net, listed, *options)
            made.append(self.out.read_bytes())
        self.assertEqual(made[0], made[1])


if __name__ == "__main__":
    unittest.main()
