#!/usr/bin/python3
"""RKNN: hybrid quantization in two steps and in one, its files, and what is said of wrong ones."""
import json
import os
import pathlib
import unittest.mock
import zipfile

import numpy as np
import onnx
import PIL.Image
import rknnd
from onnx.external_data_helper import set_external_data

from support.compat import MODELS, said, use_packages
from support.paths import DIGITS
from test_toolkit import DIGITS_FLOAT, Toolkit, rows, unittest

use_packages()
from rknn.api import RKNN  # noqa: E402

FILES = ["digits.data", "digits.model", "digits.quantization.cfg"]


def products_in_float(path):
    """Outputs of products whose weight is no DequantizeLinear's."""
    graph = onnx.load(str(path)).graph
    stored = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    return {node.output[0] for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul") and node.input[1] not in stored}


class Hybrid(Toolkit):
    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.pictures = sorted((DIGITS.parent / "pictures").glob("*.png"))
        (self.folder / "dataset.txt").write_text("".join(f"{path}\n" for path in self.pictures))

    def load(self, **settings):
        self.assertEqual(0, self.rknn.config(mean_values=[[0]], std_values=[[255]], **settings))
        self.assertEqual(self.rknn.load_onnx(str(DIGITS_FLOAT)), 0)

    def step1(self, settings=None, **options):
        self.load(**(settings or {}))
        self.assertEqual(self.rknn.hybrid_quantization_step1(dataset="./dataset.txt", **options), 0)

    def step2(self, rknn=None):
        """As a program of its own does it: a new object, without config() and load_onnx()."""
        rknn = rknn or RKNN()
        self.addCleanup(rknn.release)
        answer = rknn.hybrid_quantization_step2(model_input="./digits.model", data_input="./digits.data",
                                                model_quantization_cfg="./digits.quantization.cfg")
        return answer, rknn

    def exported(self, rknn, name="out.onnx"):
        self.assertEqual(rknn.export_rknn(f"./{name}"), 0)
        return (self.folder / name).read_bytes()

    def layers(self):
        """Of the table: names under custom_quantize_layers."""
        lines = pathlib.Path("digits.quantization.cfg").read_text().splitlines()
        return [line.strip().rpartition(":")[0] for line in lines[1:lines.index("quantize_parameters:")]]

    def test_few_samples_are_warned_of(self):
        self.load(quantized_algorithm="mmse")
        (self.folder / "dataset.txt").write_text("".join(f"{path}\n" for path in self.pictures[:3]))
        with said() as (_, err):
            self.assertEqual(self.rknn.hybrid_quantization_step1(dataset="./dataset.txt"), 0)
        self.assertIn(f"W hybrid_quantization_step1: 3 samples are few for mmse", err.getvalue())

    def test_an_analysis_before_build(self):
        self.load()
        with said() as (_, err):
            self.assertEqual(self.rknn.accuracy_analysis([str(self.pictures[0])]), -1)
        self.assertIn("call build(), or load_rknn()", err.getvalue())

    def test_without_an_edit_it_is_what_build_makes(self):
        for settings in ({}, {"quantized_algorithm": "mmse", "quantized_method": "layer", "optimization_level": 1}):
            self.step1(settings)
            self.assertEqual(sorted(path.name for path in self.folder.glob("digits*")), FILES)
            self.assertFalse([path for path in self.folder.iterdir() if path.name.startswith(".")])
            answer, other = self.step2()
            self.assertEqual(answer, 0)
            self.load(**settings)
            self.assertEqual(self.rknn.build(dataset="./dataset.txt"), 0)
            self.assertEqual(self.exported(other), self.exported(self.rknn), settings)

    def test_the_second_step_needs_the_three_files_alone(self):
        self.step1()
        (self.folder / "dataset.txt").unlink()
        self.rknn.release()
        answer, rknn = self.step2()
        self.assertEqual(answer, 0)
        self.assertEqual(rknn.init_runtime(), 0)
        with rknnd.Session(DIGITS_FLOAT, "sim:") as whole:
            for path in self.pictures:
                pixels = np.asarray(PIL.Image.open(path), np.uint8).reshape(1, 8, 8, 1)
                found, = rknn.inference([pixels])
                wanted, = whole.run(pixels.astype(np.float32) / 255, layout="nhwc")
                np.testing.assert_allclose(found, wanted, atol=0.1)
        with said():
            self.assertEqual(rknn.accuracy_analysis([str(self.pictures[7])], output_dir=None), 0)
        found = rows((self.folder / "snapshot/error_analysis.txt").read_text())
        self.assertGreater(found["relu2"][0][0], 0.99)

    def test_weights_in_other_files_come_with_it(self):
        (self.folder / "far").mkdir()
        far = self.folder / "far/digits.onnx"
        model = onnx.load(str(DIGITS_FLOAT))
        for weight in model.graph.initializer:
            set_external_data(weight, "weights.bin")  # as onnx 1.7 of Debian 11 does it, too
        onnx.save(model, str(far))
        self.assertEqual(0, self.rknn.config(mean_values=[[0]], std_values=[[255]]))
        self.assertEqual(self.rknn.load_onnx(str(far)), 0)
        self.assertEqual(self.rknn.hybrid_quantization_step1(dataset="./dataset.txt"), 0)
        self.assertEqual(self.rknn.build(do_quantization=False), 0)
        self.exported(self.rknn, "float.onnx")
        (self.folder / "far/weights.bin").unlink()
        with rknnd.Session(self.folder / "float.onnx", "sim:") as session:
            self.assertEqual(session.run(np.zeros((1, 8, 8, 1), np.float32), layout="nhwc")[0].shape, (1, 10))
        answer, other = self.step2()
        self.assertEqual(answer, 0)
        self.load()
        self.assertEqual(self.rknn.build(dataset="./dataset.txt"), 0)
        self.assertEqual(self.exported(other), self.exported(self.rknn))

    def test_weights_of_a_model_above_2_gb(self):
        """They lie in NAME.model.data; here of a small model, which is written so."""
        def convert(source, output, **_options):
            model = onnx.load(str(source))
            for weight in model.graph.initializer:
                set_external_data(weight, f"{pathlib.Path(output).name}.data")  # as above
            onnx.save(model, str(output))
        self.step1()
        answer, whole = self.step2()
        self.assertEqual(answer, 0)
        with unittest.mock.patch("rknnd.compat._hybrid.quantization.convert", convert):
            self.step1()
        self.assertEqual(sorted(os.listdir(".")), sorted(["dataset.txt", "digits.model.data", *FILES]))
        answer, apart = self.step2()
        self.assertEqual(answer, 0)
        self.assertEqual(self.exported(apart), self.exported(whole))
        weights = self.folder / "digits.model.data"
        weights.write_bytes(bytes(len(weights.read_bytes())))
        for words in "is not the model", "digits.model.data is missing":
            with said() as (_, err):
                self.assertEqual(self.step2()[0], -1)
            self.assertIn(words, err.getvalue())
            weights.unlink(missing_ok=True)

    def test_what_is_edited_is_taken(self):
        self.step1()
        table = self.folder / "digits.quantization.cfg"
        answer, rknn = self.step2()
        self.assertEqual((answer, products_in_float("digits.model") > set()), (0, True))
        self.exported(rknn)
        self.assertEqual(products_in_float("out.onnx"), set())
        middle = onnx.load(str(DIGITS_FLOAT)).graph
        middle = [node.output[0] for node in middle.node if node.op_type == "Conv"][1]
        table.write_text(table.read_text().replace("custom_quantize_layers:\n", f"custom_quantize_layers:\n    {middle}: float16\n", 1))
        answer, rknn = self.step2()
        self.assertEqual(answer, 0)
        self.exported(rknn)
        self.assertEqual(products_in_float("out.onnx"), {middle})

    def test_parts_that_are_named(self):
        """What lies between two tensors, found once more in the file that the names are taken from."""
        self.step1(custom_hybrid=[["pool1", "relu2"], ["relu2", "probability"]])
        makes = {output: node for node in onnx.load("digits.model").graph.node for output in node.output}
        wanted = set()
        for first, last in (("pool1", "relu2"), ("relu2", "probability")):
            way, reached = [last], set()
            while way:
                name = way.pop()
                if name != first and name in makes and name not in reached:
                    reached.add(name)
                    way += makes[name].input
            wanted |= reached
        self.assertEqual(set(self.layers()), wanted)
        self.assertEqual(self.step2()[0], 0)

    def test_several_samples_at_once(self):
        self.step1(rknn_batch_size=2)
        answer, rknn = self.step2()
        self.assertEqual((answer, rknn.init_runtime()), (0, 0))
        pair = np.concatenate([np.asarray(PIL.Image.open(path), np.uint8).reshape(1, 8, 8, 1) for path in self.pictures[:2]])
        self.assertEqual(rknn.inference([pair])[0].shape, (2, 10))

    def test_proposals(self):
        self.step1({"auto_hybrid_cos_thresh": 0.5}, proposal=True)
        self.assertEqual(self.layers(), [])
        with rknnd.Quantizer(DIGITS_FLOAT, str(self.folder / "dataset.txt"), std=[255], server="sim:") as whole:
            goal = (1 + whole.propose(0.5, 20).plain_cosine) / 2  # half as far from what the float model says
            wanted = list(whole.propose(goal, 20).floats)
            whole.write("same.onnx")
        self.step1({"auto_hybrid_cos_thresh": goal}, proposal=True, proposal_dataset_size=20)
        self.assertTrue(wanted)
        self.assertEqual(self.layers(), wanted)
        answer, rknn = self.step2()
        self.assertEqual(answer, 0)
        self.assertEqual(self.exported(rknn), (self.folder / "same.onnx").read_bytes())
        self.load(auto_hybrid_cos_thresh=goal)
        self.assertEqual(self.rknn.build(True, "./dataset.txt", None, True), 0)
        hybrid = self.exported(self.rknn)
        self.assertEqual(self.rknn.build(dataset="./dataset.txt", auto_hybrid=False), 0)
        self.assertNotEqual(self.exported(self.rknn), hybrid)

    def test_a_goal_out_of_reach(self):
        self.load(auto_hybrid_cos_thresh=1)
        self.fails("E hybrid_quantization_step1: ", "is not reached",
                   call=lambda: self.rknn.hybrid_quantization_step1("./dataset.txt", proposal=True))
        self.fails("E build: ", "is not reached", call=lambda: self.rknn.build(dataset="./dataset.txt", auto_hybrid=True))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["dataset.txt"])

    def test_open_shapes_and_constants_are_kept(self):
        pixels = np.random.default_rng(5).integers(0, 256, (1, 9, 8, 3)).astype(np.float32)
        (self.folder / "dataset.txt").write_text(self.save("p.npy", pixels) + "\n")
        self.rknn.config(dynamic_input=[[[1, 3, 6, 10]], [[1, 3, 9, 8]]])
        self.assertEqual(self.rknn.load_onnx(str(MODELS / "dynamic_picture.onnx")), 0)
        self.assertEqual(self.rknn.hybrid_quantization_step1("./dataset.txt"), 0)
        other = RKNN()
        self.addCleanup(other.release)
        self.assertEqual(other.hybrid_quantization_step2("dynamic_picture.model", "dynamic_picture.data",
                                                         "dynamic_picture.quantization.cfg"), 0)
        self.assertEqual(other.init_runtime(), 0)
        shapes = [other.inference([np.zeros(shape, np.float32)])[0].shape[2:] for shape in ((1, 6, 10, 3), (1, 9, 8, 3))]
        self.assertEqual(shapes, [(6, 10), (9, 8)])

    def test_settings_are_those_of_step_one(self):
        self.step1({"quantized_algorithm": "mmse"})
        other = RKNN()
        with said() as (_, err):
            other.config(quantized_algorithm="normal", mean_values=[[3]])
            self.assertEqual(self.step2(other)[0], 0)
        self.assertIn("mean_values, std_values, quantized_algorithm of config() are not used", err.getvalue())

    def test_step_one_says_what_is_wrong(self):
        rknn = self.rknn
        self.fails("load_onnx() first", call=lambda: rknn.hybrid_quantization_step1("./dataset.txt"))
        self.load()
        for words, options in ((("dataset is None",), {}), (("nowhere.txt", "cannot be read"), {"dataset": "./nowhere.txt"}),
                               (("proposal_dataset_size is 0",), {"proposal_dataset_size": 0}),
                               (("custom_hybrid is 'relu1'",), {"custom_hybrid": "relu1"}),
                               (("custom_hybrid is [['relu1']]",), {"custom_hybrid": [["relu1"]]}),
                               (('no tensor "nothing"',), {"custom_hybrid": [["relu1", "nothing"]]}),
                               (("no way leads from",), {"custom_hybrid": [["relu2", "relu1"]]}),
                               (("rknn_batch_size is 0",), {"rknn_batch_size": 0})):
            given = {"dataset": "./dataset.txt", **options} if options else {}
            self.fails("E hybrid_quantization_step1: ", *words, call=lambda g=given: rknn.hybrid_quantization_step1(**g))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["dataset.txt"])

    def test_weights_of_the_float_model_are_not_lost(self):
        """NAME.data is where exporters put the weights of NAME.onnx, too."""
        model = onnx.load(DIGITS_FLOAT)
        for tensor in model.graph.initializer:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
            set_external_data(tensor, "digits.data")
        onnx.save(model, str(self.folder / "digits.onnx"))
        before = (self.folder / "digits.data").read_bytes()
        self.rknn.config(mean_values=[[0]], std_values=[[255]])
        self.assertEqual(self.rknn.load_onnx("./digits.onnx"), 0)
        self.fails("digits.data has weights of the float model, which would be lost", "in another one",
                   call=lambda: self.rknn.hybrid_quantization_step1("./dataset.txt"))
        self.assertEqual(self.rknn.build(dataset="./dataset.txt"), 0)
        (self.folder / "link.onnx").symlink_to("digits.data")
        self.fails("has weights of the float model", call=lambda: self.rknn.export_rknn("./link.onnx"))
        self.assertEqual((self.folder / "digits.data").read_bytes(), before)

    def test_step_two_says_what_is_wrong(self):
        self.step1()
        whole = {name: (self.folder / name).read_bytes() for name in FILES}
        data, model, table = FILES

        def settings(**changes):
            with zipfile.ZipFile(self.folder / data) as packed:
                parts = {name: packed.read(name) for name in packed.namelist()}
            parts["settings.json"] = json.dumps({**json.loads(parts["settings.json"]), **changes}).encode()
            with zipfile.ZipFile(self.folder / data, "w") as packed:
                for name, values in parts.items():
                    packed.writestr(name, values)

        def replace(name, values):
            (self.folder / name).write_bytes(values)

        for words, change in (
                (("digits.data", "was not written by"), lambda: replace(data, b"no ZIP file")),
                (("digits.data", "was not written by"), lambda: replace(data, whole[data][:len(whole[data]) // 2])),
                (("digits.data", "its format is 'x'"), lambda: settings(format="x")),
                (("digits.data", "was not written by"), lambda: settings(constants=["../../x"])),
                (("digits.data", "was not written by"), lambda: settings(config=5)),
                (("there are no samples",), lambda: settings(n_samples=0)),
                (("not of this version of rknnd",), lambda: settings(n_samples=3)),
                (("quantized_method is 'x'",), lambda: settings(config={"quantized_method": "x"})),
                (("digits.model is not the model that",), lambda: replace(model, DIGITS.read_bytes())),
                (("line 2",), lambda: replace(table, whole[table].replace(b"layers:\n", b"layers:\n    nothing: float16\n", 1))),
                (("digits.quantization.cfg",), lambda: replace(table, b"")),
                (("does not exist",), lambda: (self.folder / table).unlink())):
            for name, values in whole.items():
                replace(name, values)
            change()
            self.fails("E hybrid_quantization_step2: ", *words, call=lambda: self.step2()[0])


if __name__ == "__main__":
    unittest.main()
