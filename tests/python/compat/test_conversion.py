#!/usr/bin/python3
"""Programs that convert models, as the manuals have them and as people write them: what is taken, what it means, and what the words
are where it is not."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnx.utils
from onnx import helper, numpy_helper

from support.compat import PROGRAMS, said, use_packages
from support.paths import DIGITS, PICTURES

use_packages()
from rknn.api import RKNN  # noqa: E402

FLOAT = DIGITS.with_suffix(".onnx")
SHAPE = (3, 6, 10)  # of a net's pictures, channels first


def net(path, height=SHAPE[1], width=SHAPE[2]):
    """A convolution of pictures."""
    rng = np.random.default_rng(1)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])], "net",
        [helper.make_tensor_value_info("x", 1, [1, 3, height, width])], [helper.make_tensor_value_info("y", 1, [1, 4, height, width])],
        [numpy_helper.from_array(rng.normal(0, 1, (4, 3, 3, 3)).astype(np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return str(path)


class Conversion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.environ.pop("RKNND_SERVER", None)
        self.rknn = RKNN()
        self.addCleanup(self.rknn.release)

    def listed(self, *arrays):
        """A data set of .npy files, and the first one's path."""
        for i, array in enumerate(arrays):
            np.save(self.folder / f"{i}.npy", array)
        (self.folder / "dataset.txt").write_text("".join(f"./{i}.npy\n" for i in range(len(arrays))))
        return str(self.folder / "dataset.txt")

    def built(self, model, dataset, **settings):
        self.assertEqual(self.rknn.config(mean_values=[[3, 4, 5]], std_values=[[60, 50, 40]], **settings), 0)
        self.assertEqual((self.rknn.load_onnx(model), self.rknn.build(dataset=dataset)), (0, 0))
        self.assertEqual(self.rknn.export_rknn(str(self.folder / "built.onnx")), 0)
        return (self.folder / "built.onnx").read_bytes()

    def fails(self, *words, call):
        with said() as (_, err):
            self.assertEqual(call(), -1)
        for word in words:
            self.assertIn(word, err.getvalue())
        self.assertNotIn("Traceback", err.getvalue())

    def example(self, *options):
        shutil.copy(FLOAT, self.folder)
        for picture in PICTURES.glob("*.png"):
            shutil.copy(picture, self.folder)
        (self.folder / "dataset.txt").write_text("".join(f"./{picture.name}\n" for picture in sorted(PICTURES.glob("*.png"))))
        return subprocess.run([sys.executable, "-m", "rknnd.compat", *options, PROGRAMS / "convert.py"], cwd=self.folder, text=True,
                              capture_output=True, check=False, stdin=subprocess.DEVNULL)

    def test_an_example_of_the_toolkit(self):
        done = self.example("--export-onnx")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("built: 7\n", done.stdout)
        self.assertIn("loaded: 7\n", done.stdout)
        self.assertRegex(done.stdout, r"Total Time\(us\): .*estimated for rk3566")
        self.assertIn("W export_rknn: ./digits.rknn.onnx is written, which is ONNX, and no ./digits.rknn\n", done.stderr)
        self.assertIn("export_rknn", (self.folder / "build.log").read_text())
        self.assertFalse((self.folder / "digits.rknn").exists())
        self.assertEqual((self.folder / "digits.onnx").read_bytes(), FLOAT.read_bytes())

    def test_an_example_that_is_not_allowed_to(self):
        done = self.example()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("--export-onnx PROGRAM", done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*.rknn*")], [])

    def test_the_float_model_is_not_written_over(self):
        model = net(self.folder / "net.onnx")
        before = pathlib.Path(model).read_bytes()
        self.built(model, self.listed(np.ones((1, *SHAPE[1:], 3), np.float32)))
        os.symlink(model, self.folder / "link.onnx")
        for path in (model, self.folder / "link.onnx"):
            self.fails("would be lost", call=lambda p=path: self.rknn.export_rknn(str(p)))
        if hasattr(onnx.utils, "extract_model"):  # from 1.8 on
            self.assertEqual(self.rknn.load_onnx(model, outputs=["c"]), 0)  # a part, in a file of its own
            self.assertEqual(self.rknn.build(dataset=str(self.folder / "dataset.txt")), 0)
            self.fails("would be lost", call=lambda: self.rknn.export_rknn(model))
        self.assertEqual(pathlib.Path(model).read_bytes(), before)

    def test_arrays_as_the_models_input_is(self):
        """SDK guide 10.5: .npy files have the model's shape. Channels last, as pictures have them, are taken, too."""
        model = net(self.folder / "net.onnx")
        first = [np.random.default_rng(i).uniform(0, 255, (1, *SHAPE)).astype(np.float32) for i in range(3)]
        last = [array.transpose(0, 2, 3, 1) for array in first]
        models, tables = [], []
        for arrays in (first, last, [array[0] for array in first], [array[0] for array in last], [*first[:1], *last[1:]]):
            models.append(self.built(model, self.listed(*arrays)))
            with said():
                self.assertEqual(self.rknn.accuracy_analysis([str(self.folder / "0.npy")], output_dir=str(self.folder / "out")), 0)
            tables.append((self.folder / "out/error_analysis.txt").read_text())
        self.assertEqual((len(set(models)), len(set(tables))), (1, 1))
        self.assertIn("0.999", tables[0])
        other = [np.ascontiguousarray(array[..., ::-1]) for array in last]
        self.assertNotEqual(self.built(model, self.listed(*other)), models[0])
        # Where both shapes are the same, channels are last.
        cube = net(self.folder / "cube.onnx", 3, 3)
        values = np.random.default_rng(5).uniform(0, 255, (1, 3, 3, 3)).astype(np.float32)
        self.built(cube, self.listed(values))
        self.assertEqual(self.rknn.init_runtime(), 0)
        x = onnx.load(str(self.folder / "built.onnx"))
        scale, = (numpy_helper.to_array(t) for t in x.graph.initializer if t.name.startswith("x_normalized") and "scale" in t.name)
        normal = (values - [3, 4, 5]) / [60, 50, 40]
        self.assertAlmostEqual(float(scale), (max(normal.max(), 0) - min(normal.min(), 0)) / 255, places=6)

    def test_the_data_set_has_the_largest_shapes(self):
        """SDK guide 5.4.3: of the set whose inputs are largest together."""
        model = net(self.folder / "net.onnx", "h", "w")
        for sets in ([[[1, 3, 4, 4]], [[1, 3, 6, 10]], [[1, 3, 10, 4]]], [[[1, 3, 6, 10]], [[1, 3, 4, 4]]]):
            self.built(model, self.listed(np.ones((1, 6, 10, 3), np.float32)), dynamic_input=sets)
            self.assertEqual(self.rknn.init_runtime(), 0)
            for shape, in sets:
                found, = self.rknn.inference([np.ones((1, *shape[2:], 3), np.float32)])
                self.assertEqual(found.shape, (1, 4, *shape[2:]))
        self.rknn.load_onnx(model)
        self.fails("(1, 6, 10, 3)", call=lambda: self.rknn.build(dataset=self.listed(np.ones((1, 4, 4, 3), np.float32))))

    def test_shapes_that_the_model_does_not_take_fail_at_once(self):
        """Not only when it is opened: the data set has one of the shapes, the first one here."""
        model, listed = net(self.folder / "fixed.onnx", 6, 10), self.listed(np.ones((1, 6, 10, 3), np.float32))
        for build in ({"dataset": listed}, {"do_quantization": False}):
            self.rknn.config(dynamic_input=[[[1, 3, 6, 10]], [[1, 3, 4, 4]]])
            self.rknn.load_onnx(model)
            self.fails("E build: dynamic_input: ", "1x3x4x4", "dimensions open", call=lambda b=build: self.rknn.build(**b))

    def test_estimates_are_of_the_target_platform(self):
        model, listed = net(self.folder / "net.onnx"), self.listed(np.ones((1, *SHAPE), np.float32))
        for platform, chip in (("RV1106", "rv1106"), ("rk3588s", "rk3588"), ("rk3562", "rk3562")):
            self.built(model, listed, target_platform=platform)
            self.assertEqual(self.rknn.init_runtime(), 0)
            self.assertIn(f"estimated for {chip}", self.rknn.eval_perf(is_print=False))

    def test_settings_as_people_write_them(self):
        for settings in ({"mean_values": [], "std_values": []}, {"mean_values": [[]], "std_values": [[]]}, {"mean_values": (1, 2, 3)},
                         {"std_values": [np.array([1, 2, 3])]}, {"target_platform": "RK2118"}, {"quant_img_RGB2BGR": [np.True_]},
                         {"quantized_hybrid_level": 0, "remove_weight": None}):
            with said() as (_, err):
                self.assertEqual(self.rknn.config(**settings), 0, err.getvalue())
            self.assertEqual(err.getvalue(), "")
        for settings, words in (({"mean_values": "128 128 128"}, "mean_values is"), ({"std_values": 255}, "std_values is 255"),
                                ({"mean_values": [["1", "2"]]}, "mean_values is"), ({"std_values": [[1, None]]}, "std_values is"),
                                ({"mean_values": [[float("nan")]]}, "mean_values is"), ({"quant_img_RGB2BGR": "BGR"}, "True or False"),
                                ({"quantized_hybrid_level": 1}, "auto_hybrid=True"), ({"quantized_method": "group32"}, "w4a16"),
                                ({"quantized_algorithm": "gdq"}, "w4a16"), ({"float_dtype": "bf16"}, "one of float16"),
                                ({"target_platform": "rk1808"}, "RKNN-Toolkit 1"),
                                ({"target_platform": ["rk3588"]}, "no chip that is known")):
            self.fails("E config: ", words, call=lambda s=settings: self.rknn.config(**s))
        self.rknn.config(target_platform="rk2118")
        self.rknn.load_onnx(net(self.folder / "net.onnx"))
        self.fails("rk2118 has no int8", call=lambda: self.rknn.build(dataset=self.listed(np.ones((1, *SHAPE), np.float32))))
        self.assertEqual((self.rknn.build(do_quantization=False), self.rknn.init_runtime()), (0, 0))

    def test_settings_without_effect_are_still_what_the_manuals_say(self):
        """RKNN-Toolkit2 guide, config(): a program that gives something else is wrong, even where nothing follows from it."""
        for name, good, bad in (("custom_string", ["v1", "", None], [1, b"v1", ["v1"], {"a": 1}]),
                                ("op_target", [{"conv": "cpu", "y": "NPU"}, {"a": "auto", "b": "gpu"}, {}, None],
                                 ["cpu", ["conv"], {"conv": "tpu"}, {"conv": 1}, {1: "cpu"}, {"conv": None}]),
                                ("disable_rules", [["convert_relu"], [], None], ["convert_relu", [1], 3]),
                                ("compress_weight", [True, False, 1, 0, None, np.bool_(True)], ["yes", 2, [True], 0.5]),
                                ("sparse_infer", [True], ["True"])):
            for value in good:
                with self.subTest(name, good=value), said() as (_, err):
                    self.assertEqual(self.rknn.config(**{name: value}), 0, err.getvalue())
            for value in bad:
                with self.subTest(name, bad=value):
                    self.fails(f"{name} is {value!r}", call=lambda n=name, v=value: self.rknn.config(**{n: v}))

    def test_servers_of_every_kind_are_devices(self):
        for words, uri in ("tls:", "tls:127.0.0.1:1"), ("emu:rk9999 cannot start", "emu:rk9999"), ("open:nothing cannot start", "open:nothing"):
            self.fails(words, call=lambda uri=uri: self.rknn.load_onnx(net(self.folder / "net.onnx"))
                       or self.rknn.init_runtime(target="rk3588", device_id=uri))


if __name__ == "__main__":
    unittest.main()
