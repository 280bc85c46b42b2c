#!/usr/bin/python3
"""RKNN: runs without a board and on boards, its analyses against numpy, and what it says instead of converting."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import onnx.utils
import PIL.Image
import rknnd
from onnx import numpy_helper

from support.compat import MODELS, PACKAGES, numbers, real, said, use_packages
from support.fake_adb import Server, frame
from support.paths import DIGITS, SHARED
from support.service import Daemon, vendor_backend

use_packages()
from rknn.api import RKNN  # noqa: E402

DIGITS_FLOAT = DIGITS.with_suffix(".onnx")
ROW = re.compile(r"\[(\S+)\] (\S+) +(.*)")


def rows(text):
    """Of error_analysis.txt: name of tensor -> its numbers, None where there is none."""
    found = {}
    for line in text.splitlines():
        if match := ROW.match(line):
            cells = re.findall(r"(\S+) \| (\S+)|(?<!\S)-(?!\S)", match[3])
            found[match[2]] = [(float(cosine), float(euclidean)) if cosine else None for cosine, euclidean in cells]
    return found


def snapshot(folder):
    """Tensors of a folder by name, by its own list."""
    listed = (line.split("\t") for line in (folder / "map_name_to_file.txt").read_text().splitlines())
    return {name: np.load(folder / file) for name, file in listed}


def distance(x, g):
    x, g = x.astype(np.float64).ravel(), g.astype(np.float64).ravel()
    length = np.sqrt((x * x).sum() * (g * g).sum())
    return (x * g).sum() / length if length else 1.0 * (x.any() == g.any()), np.sqrt(((x - g) ** 2).sum())


class Toolkit(unittest.TestCase):
    def setUp(self):
        self.rknn = RKNN()
        self.addCleanup(self.rknn.release)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.environ.pop("RKNND_SERVER", None)

    def daemon(self, *options, **more):
        daemon = Daemon(*options, **more)
        self.addCleanup(daemon.stop)
        return daemon

    def save(self, name, array):
        np.save(self.folder / name, array)
        return str(self.folder / name)

    def fails(self, *words, call, answer=-1):
        with said() as (_, err):
            self.assertEqual(call(), answer)
        for word in words:
            self.assertIn(word, err.getvalue())
        self.assertNotIn("Traceback", err.getvalue())


class Running(Toolkit):
    def test_without_a_board_also_a_converted_model(self):
        x = numbers("conv.in0.bin", np.float32, 1, 8, 8, 3)
        expected, step = real(numbers("conv.out0.bin", np.int8, 1, 8, 8, 8), -1500, 1500)
        self.assertEqual(self.rknn.load_rknn(str(MODELS / "conv.rknn")), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        self.assertLessEqual(np.abs(self.rknn.inference(inputs=[x])[0] - expected).max(), step * 1.01)
        self.assertIs(self.rknn.rknn_base.rknn_runtime, self.rknn.rknn_runtime)

    def test_onnx_with_open_shapes(self):
        x = numbers("dynamic_picture.set1.in0.bin", np.float32, 1, 6, 10, 3)
        expected = numbers("dynamic_picture.set1.out0.bin", np.float32, 1, 8, 6, 10)
        self.assertEqual(self.rknn.load_onnx(model=str(MODELS / "dynamic_picture.onnx"), inputs=["data"],
                                             input_size_list=[[1, 3, 6, 10]], outputs=["features", "mean"]), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        outputs = self.rknn.inference(inputs=[x.transpose(0, 3, 1, 2)], data_format=["nchw"])
        np.testing.assert_allclose(outputs[0], expected, rtol=1e-4, atol=1e-2)

    def test_inputs_that_are_constants(self):
        a, b = (numbers(f"dynamic_vectors.set1.in{i}.bin", np.float32, 1, n) for i, n in enumerate((112, 80)))
        expected = numbers("dynamic_vectors.set1.out0.bin", np.float32, 1, 192)
        for initial, given in (([None, b], [a]), ([a, None], [b]), ([a, b], [])):
            self.assertEqual(self.rknn.load_onnx(str(MODELS / "dynamic_vectors.onnx"), input_initial_val=initial,
                                                 input_size_list=[[1, 112], [1, 80]]), 0)
            self.assertEqual(self.rknn.init_runtime(), 0)
            np.testing.assert_allclose(self.rknn.inference(given)[0], expected, rtol=1e-6)
            with said():
                self.assertIsNone(self.rknn.inference([*given, a]))

    def test_part_of_a_model(self):
        """As programs cut postprocessing off: what comes out is what that layer of the whole model computes."""
        if not hasattr(onnx.utils, "extract_model"):  # before 1.8
            self.fails("needs onnx 1.8", call=lambda: self.rknn.load_onnx(str(DIGITS_FLOAT), outputs=["flat"]))
            return
        picture = np.random.default_rng(7).random((1, 1, 8, 8), np.float32)
        with rknnd.Session(DIGITS_FLOAT, "sim:") as whole:
            layers = {tensor.name: tensor.values for tensor in whole.tensors(picture, layout="nchw")}
            probability, = whole.run(picture, layout="nchw")
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT), outputs=["flat", "relu2"]), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        flat, relu2 = self.rknn.inference([picture], data_format="nchw")
        np.testing.assert_allclose(relu2, layers["relu2"].reshape(relu2.shape), rtol=1e-5)
        odds = np.exp(flat - flat.max())
        np.testing.assert_allclose(odds / odds.sum(), probability, rtol=1e-5)
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT), inputs=["relu2"], input_size_list=[[1, 32, 4, 4]]), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        again, = self.rknn.inference([relu2], data_format="nchw")
        np.testing.assert_allclose(again, probability, rtol=1e-5)

    def test_words_about_a_part_name_the_file(self):
        """And not the one that the part is in."""
        if not hasattr(onnx.utils, "extract_model"):
            self.skipTest("onnx before 1.8")
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/a.npy", np.ones((1, 16, 8, 8), np.float32))
            listed = pathlib.Path(folder, "list.txt")
            listed.write_text("a.npy\n", encoding="utf-8")
            self.rknn.config()
            self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT), inputs=["relu1"], input_size_list=[[1, 16, 8, 8]], outputs=["pool1"]), 0)
            self.fails(f"model {DIGITS_FLOAT} (its part up to pool1): ", "nothing to quantize",
                       call=lambda: self.rknn.build(do_quantization=True, dataset=str(listed)))

    def test_part_of_a_model_without_onnx(self):
        with unittest.mock.patch.dict(sys.modules, {"onnx": None}):
            self.fails("E load_onnx: ", "needs the package onnx", "install python3-onnx",
                       call=lambda: self.rknn.load_onnx(str(DIGITS_FLOAT), outputs=["flat"]))

    def test_onnx_options_that_cannot_be(self):
        model = str(MODELS / "dynamic_vectors.onnx")
        if not hasattr(onnx.utils, "extract_model"):
            self.skipTest("onnx before 1.8")
        for words, options in ((("input_size_list",), {"inputs": ["a", "b"]}),
                               (("cannot be cut between b and doubled: ", "'a'", "an input that is missing goes into inputs"),
                                {"inputs": ["b"], "input_size_list": [[1, 2]]}),
                               (("no tensor c: its last ones are", "doubled"), {"outputs": ["c"]}),
                               (("1 elements", "2 inputs"), {"input_size_list": [[1, 2]]})):
            self.fails("E load_onnx: ", *words, call=lambda o=options: self.rknn.load_onnx(model, **o))
        self.fails("E load_onnx: ", call=lambda: self.rknn.load_onnx("/nowhere.onnx", outputs=["a"]))
        self.fails("load_rknn() takes it", call=lambda: self.rknn.load_onnx(str(DIGITS)))

    def test_boards(self):
        daemon, tcp = self.daemon("--backend", "sim:rk3588"), self.daemon(transport="tcp")
        listed = frame(b"AB12\tdevice\n10.9.8.7:5555\tdevice\nasleep\toffline\n")
        adb = Server(lambda request: b"OKAY" + listed if request == "host:devices" else
                     daemon if request.startswith("local") else b"OKAY")
        self.addCleanup(adb.listener.close)
        os.environ["ANDROID_ADB_SERVER_PORT"] = str(adb.port)
        self.addCleanup(os.environ.pop, "ANDROID_ADB_SERVER_PORT")
        self.rknn.load_rknn(str(MODELS / "conv.rknn"))
        x = np.zeros((1, 8, 8, 3), np.uint8)
        for board in ("AB12", "adb:AB12", "10.9.8.7", "10.9.8.7:5555", daemon.uri, tcp.uri, tcp.uri[4:]):
            self.assertEqual(self.rknn.init_runtime(target="rk3588", device_id=board), 0, board)
            self.assertIsNotNone(self.rknn.inference([x]))
        self.fails("rk3588", "rk3576", call=lambda: self.rknn.init_runtime(target="rk3576", device_id="AB12"))
        self.fails("asleep", "offline", call=lambda: self.rknn.init_runtime(target="rk3588", device_id="asleep"))
        self.fails("AB12", "nobody", call=lambda: self.rknn.init_runtime(target="rk3588", device_id="nobody"))
        self.fails("RK1808", call=lambda: self.rknn.init_runtime(target="RK1808"))
        self.fails("'cpu' or 'gpu'", call=lambda: self.rknn.init_runtime(fallback_prior_device="npu"))
        with said() as (out, _):
            self.assertEqual(self.rknn.list_devices(), (["AB12", "10.9.8.7:5555", "asleep"], []))
        self.assertIn("all device(s) with adb mode:\nAB12\n", out.getvalue())

    def test_no_boards(self):
        adb = Server(lambda request: b"OKAY0000")
        self.addCleanup(adb.listener.close)
        os.environ["ANDROID_ADB_SERVER_PORT"] = str(adb.port)
        self.addCleanup(os.environ.pop, "ANDROID_ADB_SERVER_PORT")
        with said():
            self.assertEqual(self.rknn.list_devices(), ([], []))

    def test_performance_of_layers(self):
        self.rknn.load_rknn(str(DIGITS))
        with said() as (out, _):
            self.assertEqual(self.rknn.init_runtime(perf_debug=True), 0)
            text = self.rknn.eval_perf(is_print=False)
            self.assertEqual(self.rknn.init_runtime(), 0)
            short = self.rknn.eval_perf(is_print=False)
            picture = np.zeros((1, 8, 8, 1), np.uint8)
            self.assertEqual(self.rknn.inference([picture], data_type="uint8", data_format="nhwc")[0].shape, (1, 10))  # as older programs
        self.assertEqual(out.getvalue(), "")
        for words in ("ConvRelu", "MaxPool", "Operator Time Consuming Ranking Table", "FPS: "):
            self.assertIn(words, text)
        self.assertNotIn("ConvRelu", short)


class Accuracy(Toolkit):
    def analyze(self, *paths, **options):
        out = self.folder / "snapshot"
        with said() as (printed, err):
            self.assertEqual(self.rknn.accuracy_analysis(inputs=list(paths), output_dir=str(out), **options), 0,
                             err.getvalue())
        text = (out / "error_analysis.txt").read_text()
        self.assertIn(text, printed.getvalue())
        return text, rows(text), out

    def check_entire(self, found, out, kind, column):
        """Numbers of a column against the tensors that were written."""
        golden, values = snapshot(out / "golden"), snapshot(out / kind)
        compared = 0
        for name, cells in found.items():
            if cells[column] is None:
                self.assertNotIn(name, golden)
                continue
            compared += 1
            cosine, euclidean = distance(values[name], golden[name])
            self.assertAlmostEqual(cells[column][0], cosine, delta=1e-5, msg=name)
            self.assertAlmostEqual(cells[column][1], euclidean, delta=1e-4 * max(1, euclidean), msg=name)
        return compared

    def test_digits(self):
        """The float model takes what the converted one prepares by itself: 0 to 255 becomes 0 to 1."""
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT)), 0)
        self.assertEqual(self.rknn.load_rknn(str(DIGITS)), 0)
        picture = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 1), np.uint8)
        text, found, out = self.analyze(self.save("in.npy", picture))
        self.assertGreaterEqual(self.check_entire(found, out, "simulator", 0), 2)
        self.assertEqual({len(cells) for cells in found.values()}, {2})
        self.assertNotIn("single_sim  ", text.split("layer_name")[1])
        cosines = [cells[1][0] for cells in found.values() if cells[1]]
        self.assertGreater(min(cosines), 0.99)
        self.assertFalse((out / "runtime").exists())

    @unittest.skipUnless((SHARED / "models").exists(), "no models")
    def test_a_real_model_and_a_board(self):
        models = SHARED / "models"
        self.assertEqual(self.rknn.load_onnx(str(models / "onnx/lprnet.onnx")), 0)
        self.assertEqual(self.rknn.load_rknn(str(models / "rknn/lprnet.rk3568.rknn")), 0)
        board = self.daemon("--backend", "sim:rk3568")
        _, found, out = self.analyze(str(models / "golden/lprnet.rk3568.in0.npy"), target="rk3566", device_id=board.uri)
        self.assertEqual({len(cells) for cells in found.values()}, {4})
        self.assertGreaterEqual(self.check_entire(found, out, "simulator", 0), 34)
        self.check_entire(found, out, "runtime", 2)
        for name, (entire, single, runtime, single_sim) in found.items():
            self.assertEqual(runtime, entire, name)  # the "board" is the same software NPU
            self.assertEqual(single_sim, (1.0, 0.0), name)
            self.assertTrue(single is None or single[0] > 0.98, (name, single))

    def test_a_board_that_computes_otherwise(self):
        """Only a float model, and a "board" that has one with a wrong weight: no column but the board's, and the error
        shows in the layer that has it, not in those before."""
        import onnx
        from onnx import numpy_helper
        self.assertEqual(self.rknn.load_rknn(str(DIGITS)), 0)
        model = onnx.load(DIGITS_FLOAT)
        convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
        weight = next(w for w in model.graph.initializer if w.name == convolutions[1].input[1])
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(2), weight.name))
        onnx.save(model, self.folder / "wrong.onnx")
        self.assertEqual(self.rknn.load_onnx(str(self.folder / "wrong.onnx")), 0)
        picture = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 1), np.uint8)
        _, found, _ = self.analyze(self.save("in.npy", picture))
        errors = {name: cells[1][1] for name, cells in found.items() if cells[1]}
        wrong = convolutions[1].output[0]
        after = {node.output[0] for node in model.graph.node if wrong in node.input}
        self.assertIn(max(errors, key=errors.get), {wrong, *after}, errors)

    def test_only_a_board_to_compare_with(self):
        board = self.daemon()
        self.assertEqual(self.rknn.load_rknn(str(MODELS / "conv.rknn")), 0)
        path = self.save("in.npy", numbers("conv.in0.bin", np.float32, 1, 8, 8, 3))
        text, found, out = self.analyze(path, target="rk3588", device_id=board.uri)
        self.assertIn("no float model", text)
        self.assertEqual(list(found.values()), [[(1.0, 0.0), (1.0, 0.0)]])
        self.assertTrue(snapshot(out / "runtime"))

    def test_a_board_with_the_vendors_runtime(self):
        """It shows layers by names of its own, and takes no inputs of layers: the file says so; the rest is there."""
        dumps = self.folder / "dumps"
        backend = vendor_backend(self.folder, "today", RKNN_STANDIN_DUMPS=str(dumps))
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("RKNN_STANDIN", "RKNN_STANDIN_DUMPS")])
        board = self.daemon("--backend", f"{backend},dumps={dumps}")
        self.rknn.load_onnx(str(DIGITS_FLOAT))
        self.rknn.load_rknn(str(DIGITS))
        path = self.save("in.npy", np.zeros((1, 8, 8, 1), np.uint8))
        text, found, out = self.analyze(path, target="rk3588", device_id=board.uri)
        self.assertIn("runtime_error entire: not known: none of the", text)
        self.assertIn("runtime_error single_sim: not known", text)
        self.assertGreaterEqual(self.check_entire(found, out, "simulator", 0), 2)
        self.assertEqual(self.rknn.init_runtime(target="rk3588", device_id=board.uri), 0)
        self.assertRegex(self.rknn.eval_perf(is_print=False), r"Total Time\(us\): \d+\nFPS")  # the device's own

    def test_refusals(self):
        path = self.save("in.npy", np.zeros((1, 8, 8, 1), np.uint8))
        out = str(self.folder / "out")
        self.fails("load_rknn", call=lambda: self.rknn.accuracy_analysis([path], out))
        self.rknn.load_rknn(str(DIGITS))
        self.fails("load_onnx", call=lambda: self.rknn.accuracy_analysis([path], out))
        self.rknn.load_onnx(str(DIGITS_FLOAT))
        for words, inputs, folder in (
                ("1 path", [path, path], out), ("1 path", path, out), ("does not exist", ["/nowhere.npy"], out),
                ("(1, 3, 3, 1)", [self.save("small.npy", np.zeros((1, 3, 3, 1), np.uint8))], out),
                ("output_dir", [path], 5), ("Permission" if os.geteuid() else "/proc", [path], "/proc/nothing")):
            self.fails("E accuracy_analysis: ", words, call=lambda i=inputs, f=folder: self.rknn.accuracy_analysis(i, f))
        self.fails("rk1", call=lambda: self.rknn.accuracy_analysis([path], out, target="rk1"))


class Quantizing(Toolkit):
    def setUp(self):
        super().setUp()
        self.pictures = sorted((DIGITS.parent / "pictures").glob("*.png"))
        self.list = self.folder / "dataset.txt"
        self.list.write_text("".join(f"{path}\n" for path in self.pictures))

    def build(self, **settings):
        self.assertEqual(0, self.rknn.config(mean_values=[[0]], std_values=[[255]], target_platform="RK3588", **settings))
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT)), 0)
        self.assertEqual(self.rknn.build(do_quantization=True, dataset=str(self.list)), 0)

    def test_a_toolkit_program(self):
        """config(), load_onnx(), build(), init_runtime() without a board, inference(): the float model's digits."""
        self.build(quantized_algorithm="mmse", quantized_dtype="asymmetric_quantized-8")
        self.assertEqual(self.rknn.init_runtime(), 0)
        with rknnd.Session(DIGITS_FLOAT, "sim:") as whole:
            for path in self.pictures:
                pixels = np.asarray(PIL.Image.open(path), np.uint8).reshape(1, 8, 8, 1)
                found, = self.rknn.inference([pixels])
                wanted, = whole.run(pixels.astype(np.float32) / 255, layout="nhwc")
                self.assertEqual(found.argmax(), wanted.argmax())
                np.testing.assert_allclose(found, wanted, atol=0.1)
        exported = self.folder / "digits_int8.onnx"
        self.assertEqual(self.rknn.export_rknn(str(exported)), 0)
        operators = {node.op_type for node in onnx.load(str(exported)).graph.node}
        self.assertTrue({"QuantizeLinear", "DequantizeLinear"} <= operators)

    def test_accuracy_against_the_float_model(self):
        self.build()
        out = self.folder / "out"
        with said():
            self.assertEqual(self.rknn.accuracy_analysis([str(self.pictures[7])], str(out)), 0)
        found = rows((out / "error_analysis.txt").read_text())
        for name in ("pool1", "relu2", "probability"):
            cosine, _ = found[name][0]
            self.assertGreater(cosine, 0.99, name)
        simulator, golden = snapshot(out / "simulator"), snapshot(out / "golden")
        cosine, euclidean = distance(simulator["relu2"], golden["relu2"])
        self.assertAlmostEqual(found["relu2"][0][0], cosine, places=4)
        self.assertGreater(euclidean, 0)

    def test_levels_and_methods_make_other_models(self):
        made = []
        for settings in ({}, {"optimization_level": 0}, {"quantized_method": "layer"}, {"quantized_algorithm": "kl_divergence"}):
            self.build(**settings)
            exported = self.folder / "one.onnx"
            self.assertEqual(self.rknn.export_rknn(export_path=str(exported)), 0)
            made.append(exported.read_bytes())
        self.assertEqual(len(set(made)), len(made))

    def test_one_constant_picture(self):
        """It is said, also where the model normalizes what it is given."""
        self.list.write_text(self.save("constant.npy", np.full((1, 8, 8, 1), 7, np.uint8)) + "\n")
        for settings in ({}, {"mean_values": [[1]], "std_values": [[255]]}):
            self.rknn.config(**settings)
            self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT)), 0)
            with said() as (_, err):
                self.assertEqual(self.rknn.build(dataset=str(self.list)), 0)
            self.assertIn("W build: an input was one and the same number", err.getvalue())

    def test_a_build_that_fails_leaves_nothing_built(self):
        self.build()
        self.list.write_text("nowhere.png\n")
        self.fails("nowhere.png does not exist", call=lambda: self.rknn.build(dataset=str(self.list)))
        self.fails("call build() first", call=lambda: self.rknn.export_rknn(str(self.folder / "old.onnx")))
        self.assertEqual(list(self.folder.glob("*.onnx")), [])
        self.assertEqual(self.rknn.init_runtime(), 0)  # the float model
        self.list.write_text("# text\ndataset.txt\n")
        self.assertEqual(self.rknn.load_onnx(str(self.list)), 0)
        self.fails("it is no ONNX model", call=lambda: self.rknn.build(dataset=str(self.list)))

    def test_sixteen_bits_where_the_chip_has_them(self):
        self.rknn.config(std_values=[[255]], quantized_dtype="w16a16i", target_platform="rk3588")
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT)), 0)
        self.fails("E build: ", "rk3588 has no int16", call=lambda: self.rknn.build(dataset=str(self.list)))
        self.rknn.config(std_values=[[255]], quantized_dtype="w16a16i", target_platform="rv1106")
        self.assertEqual(self.rknn.build(dataset=str(self.list)), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        pixels = np.asarray(PIL.Image.open(self.pictures[7]), np.uint8).reshape(1, 8, 8, 1)
        with rknnd.Session(DIGITS_FLOAT, "sim:") as whole:
            wanted, = whole.run(pixels.astype(np.float32) / 255, layout="nhwc")
        np.testing.assert_allclose(self.rknn.inference([pixels])[0], wanted, atol=1e-3)

    def test_shapes_that_the_file_leaves_open(self):
        a, b = (np.random.default_rng(i).random((1, n), np.float32) for i, n in enumerate((112, 80)))
        lines = [f"{self.save('a.npy', a)} {self.save('b.npy', b)}\n"]
        self.list.write_text("".join(lines))
        self.assertEqual(self.rknn.load_onnx(str(MODELS / "dynamic_vectors.onnx"), input_size_list=[[1, 112], [1, 80]]), 0)
        self.fails("nothing to quantize", call=lambda: self.rknn.build(dataset=str(self.list)))  # no product in it
        pixels = np.random.default_rng(5).integers(0, 256, (1, 9, 8, 3)).astype(np.float32)
        self.list.write_text(self.save("p.npy", pixels) + "\n")
        self.assertEqual(0, self.rknn.config(dynamic_input=[[[1, 3, 6, 10]], [[1, 3, 9, 8]]]))
        self.assertEqual(self.rknn.load_onnx(str(MODELS / "dynamic_picture.onnx")), 0)
        self.assertEqual(self.rknn.build(dataset=str(self.list)), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        first, other = self.rknn.inference([pixels]), self.rknn.inference([np.zeros((1, 6, 10, 3), np.float32)])
        self.assertEqual((first[0].shape[2:], other[0].shape[2:]), ((9, 8), (6, 10)))

    def test_a_float_model_takes_pixels_too(self):
        """As convert.py of the vendor's model zoo has it: settings are the same with and without quantization."""
        pixels = np.asarray(PIL.Image.open(self.pictures[3]), np.uint8).reshape(1, 8, 8, 1)
        self.rknn.config(mean_values=[[10]], std_values=[[200]], target_platform="rk3588")
        self.rknn.load_onnx(str(DIGITS_FLOAT))
        self.assertEqual(self.rknn.build(do_quantization=False), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        found, = self.rknn.inference([pixels])
        with rknnd.Session(DIGITS_FLOAT, "sim:") as whole:
            wanted, = whole.run((pixels.astype(np.float32) - 10) / 200, layout="nhwc")
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        exported = self.folder / "float.onnx"
        self.assertEqual(self.rknn.export_rknn(str(exported)), 0)
        with rknnd.Session(exported, "sim:") as again:
            np.testing.assert_array_equal(again.run(pixels.astype(np.float32), layout="nhwc")[0], found)

    def test_layers_that_were_equalized_have_golden_values(self):
        """Of which the float model that was loaded has none."""
        rng, factors = np.random.default_rng(1), np.logspace(-1.5, 1.5, 8).astype(np.float32)
        weights = {"w1": rng.normal(0, .3, (8, 3, 3, 3)) * factors[:, None, None, None], "w2": rng.normal(0, .3, (8, 1, 3, 3)),
                   "w3": rng.normal(0, .3, (6, 8, 1, 1)) / factors[:, None, None]}
        node = onnx.helper.make_node
        graph = onnx.helper.make_graph(
            [node("Conv", ["x", "w1"], ["c1"]), node("Relu", ["c1"], ["r1"]), node("Conv", ["r1", "w2"], ["c2"], group=8),
             node("Relu", ["c2"], ["r2"]), node("Conv", ["r2", "w3"], ["y"])], "g",
            [onnx.helper.make_tensor_value_info("x", 1, [1, 3, 12, 12])], [onnx.helper.make_tensor_value_info("y", 1, [1, 6, 8, 8])],
            [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(self.folder / "net.onnx"))
        for i in range(4):
            np.save(self.folder / f"{i}.npy", rng.uniform(0, 255, (1, 12, 12, 3)).astype(np.float32))
        self.list.write_text("".join(f"{i}.npy\n" for i in range(4)))
        self.rknn.config(mean_values=[[120, 120, 120]], std_values=[[60, 60, 60]])
        self.rknn.load_onnx(str(self.folder / "net.onnx"))
        self.assertEqual(self.rknn.build(dataset=str(self.list)), 0)
        with said():
            self.assertEqual(self.rknn.accuracy_analysis([str(self.folder / "0.npy")], output_dir=str(self.folder / "out")), 0)
        found = rows((self.folder / "out/error_analysis.txt").read_text())
        for name in ("r1_equalized", "r2_equalized", "y"):
            self.assertGreater(found[name][0][0], 0.99, name)

    def test_several_samples_at_once(self):
        pictures = [np.asarray(PIL.Image.open(path), np.uint8).reshape(1, 8, 8, 1) for path in self.pictures[:3]]
        for options in ({"dataset": str(self.list)}, {"do_quantization": False}):
            self.rknn.config(std_values=[[255]])
            self.rknn.load_onnx(str(DIGITS_FLOAT))
            self.assertEqual((self.rknn.build(**options), self.rknn.init_runtime()), (0, 0))
            alone = [self.rknn.inference([one])[0] for one in pictures]
            self.assertEqual((self.rknn.build(rknn_batch_size=3, **options), self.rknn.init_runtime()), (0, 0))
            found, = self.rknn.inference([np.concatenate(pictures)])
            np.testing.assert_allclose(found, np.concatenate(alone), atol=1e-6)
            exported = self.folder / "batch.onnx"
            self.assertEqual(self.rknn.export_rknn(str(exported)), 0)
            self.assertEqual(onnx.load(str(exported)).graph.input[0].type.tensor_type.shape.dim[0].dim_value, 3)

    def test_samples_that_would_be_mixed(self):
        """Each of these nodes computes over the first dimension."""
        node, shape = onnx.helper.make_node, [1, 4]
        for nodes, out in (([node("Softmax", ["x"], ["y"], axis=0)], shape),
                           ([node("Transpose", ["x"], ["y"], perm=[1, 0])], [4, 1]),
                           ([node("Softmax", ["x"], ["y"], axis=-2)], shape),
                           ([node("ReduceMean", ["x"], ["y"], axes=[-2], keepdims=1)], shape),
                           ([node("Softmax", ["a"], ["y"], axis=-2), node("Relu", ["x"], ["a"])][::-1], shape),
                           ([node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=1)], shape),
                           ([node("ReduceMean", ["x"], ["y"], keepdims=1)], [1, 1]),
                           ([node("Concat", ["x", "x"], ["y"], axis=0)], [2, 4]),
                           ([node("Einsum", ["x"], ["y"], equation="ij->ij")], shape),
                           ([node("Reshape", ["x", "two"], ["y"])], [2, 2])):
            graph = onnx.helper.make_graph(nodes, "g", [onnx.helper.make_tensor_value_info("x", 1, shape)],
                                           [onnx.helper.make_tensor_value_info("y", 1, out)],
                                           [numpy_helper.from_array(np.array([2, 2]), "two")])
            path = self.folder / "mixes.onnx"
            onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(path))
            with self.subTest(nodes[-1].op_type), self.assertRaisesRegex(rknnd.Error, nodes[-1].op_type):
                rknnd.quantization.convert(path, self.folder / "out.onnx", batch=2)
            self.assertFalse((self.folder / "out.onnx").exists())

    def test_what_cannot_be_kept_is_said(self):
        for name, value in (("quantized_dtype", "w4a16"), ("quantized_dtype", 8), ("quantized_algorithm", "best"), ("quantized_method", "tensor"),
                            ("optimization_level", 4), ("optimization_level", True), ("target_platform", "rk1"),
                            ("remove_weight", True), ("quantize_weight", True), ("remove_reshape", True), ("quantised", 1),
                            ("inputs_yuv_fmt", "nv12"), ("auto_hybrid_euc_thresh", 1.0), ("channel_mean_value", "0 0 0 1"),
                            ("reorder_channel", "0 1 2"), ("dynamic_input", "1,3,8,8"), ("dynamic_input", [[1, 3, 8, 8]]),
                            ("dynamic_input", [[[1, 3, 8, 0]]]), ("dynamic_input", [[[1, 2]], [[1, 2], [1, 2]]]),
                            ("std_values", [[0]]), ("std_values", [[255, -1]]), ("auto_hybrid_cos_thresh", 98),
                            ("auto_hybrid_cos_thresh", "0.98")):
            self.fails("E config: ", name.split("_")[0], call=lambda n=name, v=value: self.rknn.config(**{n: v}))
            self.rknn.load_onnx(str(DIGITS_FLOAT))
            self.fails("config() has failed", call=lambda: self.rknn.build(dataset=str(self.list)))
        with said() as (_, err):
            self.assertEqual(0, self.rknn.config(custom_string="v1", single_core_mode=True, remove_weight=None, disable_rules=[],
                                               float_dtype="float16", std_values=np.array([[255.0]])))
        self.assertIn("custom_string has no effect", err.getvalue())
        self.assertEqual(err.getvalue().count("has no effect"), 2)
        for wrong in (0, -1, 1.5, "3", True):
            self.fails("rknn_batch_size is", call=lambda n=wrong: self.rknn.build(dataset=str(self.list), rknn_batch_size=n))
        self.fails("dataset is None", call=lambda: self.rknn.build())
        self.rknn.config(mean_values=[[1], [2]])
        self.fails("mean_values has 2 elements", call=lambda: self.rknn.build(dataset=str(self.list)))
        self.rknn.config(mean_values=[[1]])
        self.fails("call build() first", call=lambda: self.rknn.export_rknn("x.onnx"))
        self.rknn.config()
        self.assertEqual(self.rknn.build(do_quantization=False), 0)
        self.assertEqual(self.rknn.init_runtime(), 0)
        self.fails("load_onnx() first", call=lambda: RKNN().build(dataset=str(self.list)))


class Conversion(Toolkit):
    def test_every_call_says_what_does_it(self):
        rknn = self.rknn
        calls = {
            "export_rknn": lambda: rknn.export_rknn(export_path="./x.rknn"),
            "reg_custom_op": lambda: rknn.reg_custom_op(object()),
            "codegen": lambda: rknn.codegen(output_path="./app", inputs=["a.jpg"], overwrite=True),
            "export_encrypted_rknn_model": lambda: rknn.export_encrypted_rknn_model("a.rknn", "b.rknn", 1),
            "load_caffe": lambda: rknn.load_caffe(model="a.prototxt", blobs="a.caffemodel"),
            "load_tensorflow": lambda: rknn.load_tensorflow(tf_pb="a.pb", inputs=["a"], outputs=["b"]),
            "load_tflite": lambda: rknn.load_tflite(model="a.tflite"),
            "load_darknet": lambda: rknn.load_darknet(model="a.cfg", weight="a.weights"),
            "load_pytorch": lambda: rknn.load_pytorch(model="a.pt", input_size_list=[[1, 3, 4, 4]]),
        }
        for name, call in calls.items():
            with said() as (_, err):
                self.assertEqual(call(), -1, name)
            self.assertTrue(err.getvalue().startswith(f"E {name}: "), err.getvalue())
            self.assertEqual(err.getvalue().count("\n"), 1)
            self.assertIn("load_onnx(", err.getvalue())
        self.fails("export_rknn('./x_int8.onnx')", "makes ./x.rknn", "without mean_values", call=calls["export_rknn"])

    def test_modules_of_the_converter(self):
        for words in (["-m", "rknn.api.rknn_convert", "-t", "rk3588"],
                      ["-c", "from rknn.utils import onnx_edit; raise SystemExit(onnx_edit(model='a'))"]):
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=dict(
                os.environ, PYTHONPATH=os.pathsep.join((PACKAGES, os.environ["PYTHONPATH"]))))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("does not convert", done.stderr)

    def test_attributes_of_nodes(self):
        from onnx import helper
        from rknn.api.custom_op import get_node_attr
        node = helper.make_node("cstSoftmax", ["a"], ["b"], axis=-1)
        self.assertEqual((get_node_attr(node, "axis"), get_node_attr(node, "other")), (-1, None))


if __name__ == "__main__":
    unittest.main()
