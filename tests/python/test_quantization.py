#!/usr/bin/python3
"""rknnd.quantize(): the same file as rknnctl's, from pictures and from arrays; what ends it, and what goes on from there."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np
import onnx
import rknnd
from PIL import Image
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from support.paths import DIGITS
from support.service import BUILD

FLOAT = DIGITS.with_suffix(".onnx")
PICTURES = sorted((DIGITS.parent / "pictures").glob("*.png"))
PIXELS = [np.asarray(Image.open(path), np.uint8).reshape(1, 8, 8, 1) for path in PICTURES]


class Quantizing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "int8.onnx"
        self.list = self.folder / "list.txt"
        self.list.write_text("".join(f"{path}\n" for path in PICTURES))

    def quantize(self, samples, **more):
        return rknnd.quantize(FLOAT, self.output, samples, server="sim:", **{"std": [255], **more})

    def by_rknnctl(self, *options):
        path = self.folder / "rknnctl.onnx"
        subprocess.run([BUILD / "bin/rknnctl", "quantize", FLOAT, "--dataset", self.list, "-o", path, "--std", "255", *options],
                       check=True, capture_output=True, env={**os.environ, "RKNND_SERVER": "sim:"})
        return path.read_bytes()

    def refused(self, kind, *words, samples=None, **more):
        with self.assertRaises(kind) as raised:
            self.quantize(PIXELS if samples is None else samples, **more)
        for word in words:
            self.assertIn(word, str(raised.exception))
        self.assertFalse(self.output.exists())


class Results(Quantizing):
    def test_the_file_is_rknnctls(self):
        for settings, options in (({}, []), ({"algorithm": "mmse", "method": "layer"}, ["--algorithm", "mmse", "--method", "layer"]),
                                  ({"symmetric": True, "without": ["bias-correction", "equalization"], "keep_float": ["relu2"]},
                                   ["--symmetric", "--without", "bias-correction", "--without", "equalization",
                                    "--keep-float", "relu2"])):
            self.quantize(self.list, **settings)
            self.assertEqual(self.output.read_bytes(), self.by_rknnctl(*options), settings)

    def test_arrays_are_as_good_as_files(self):
        self.quantize(self.list)
        expected = self.output.read_bytes()
        names = [{"image": one} for one in PIXELS]
        planes = [[one.reshape(1, 1, 8, 8)] for one in PIXELS]
        for samples, layout in ((PIXELS, "nhwc"), (names, "nhwc"), (planes, "nchw"), (np.stack(PIXELS), "nhwc"),
                                ([[str(path)] for path in PICTURES], "nhwc")):
            self.quantize(samples, layout=layout)
            self.assertEqual(self.output.read_bytes(), expected)

    def test_files_of_all_kinds_of_numbers(self):
        """Whatever np.save() makes of the same pixels; integers of NumPy have 64 bits unless somebody says so."""
        self.quantize(PIXELS)
        expected = self.output.read_bytes()
        for dtype in ("u1", "<f4", ">f4", "<f8", ">f8", "<i8", ">i2", "<u8", "<i4"):
            for i, one in enumerate(PIXELS):
                np.save(self.folder / f"{i}.npy", np.asfortranarray(one.astype(dtype)))
            self.list.write_text("".join(f"{i}.npy\n" for i in range(len(PIXELS))))
            self.quantize(self.list)
            self.assertEqual(self.output.read_bytes(), expected, dtype)
        self.output.unlink()
        np.save(self.folder / "1.npy", np.full((1, 8, 8, 1), (1 << 24) + 1))
        self.refused(rknnd.InputError, "int64", "values that float32 cannot hold", samples=self.list)

    def test_numbers(self):
        done = self.quantize(PIXELS)
        tensors = {one.name: one for one in done.tensors}
        first = tensors["image_normalized"]
        largest = max(one.max() for one in PIXELS) / 255
        self.assertAlmostEqual(first.scale, largest / 255, places=7)
        self.assertEqual((first.zp, first.min), (-128, 0))
        self.assertEqual(sum(node.quantized for node in done.nodes), done.n_quantized)
        self.assertEqual(done.n_tensors, len(tensors))
        with rknnd.Session(FLOAT, "sim:") as whole, rknnd.Session(self.output, "sim:") as small:
            for pixels in PIXELS:
                wanted, = whole.run(pixels.astype(np.float32) / 255, layout="nhwc")
                found, = small.run(pixels.astype(np.float32), layout="nhwc")
                self.assertEqual(wanted.argmax(), found.argmax())
                np.testing.assert_allclose(found, wanted, atol=0.1)

    def test_progress_and_servers_of_other_threads(self):
        seen = []
        server = rknnd.server().uri if os.environ.get("RKNND_SERVER") else None
        self.quantize(PIXELS, progress=lambda done, of: seen.append((done, of)), clients=3)
        self.assertEqual(sorted(seen), [(i + 1, len(PIXELS)) for i in range(len(PIXELS))])
        self.assertEqual(os.environ.get("RKNND_SERVER") and rknnd.server().uri, server)


class Converting(Quantizing):
    def branch(self, name, factor, file):
        """What an If takes: x times a weight, which goes to the end of a file."""
        weight = numpy_helper.from_array(factor * np.arange(1024, dtype=np.float32).reshape(64, 16), f"w{name}")
        with file.open("ab") as stream:
            set_external_data(weight, file.name, stream.tell(), len(weight.raw_data))
            stream.write(weight.raw_data)
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        return helper.make_graph([helper.make_node("MatMul", ["x", f"w{name}"], [f"y{name}"])], name, [],
                                 [helper.make_tensor_value_info(f"y{name}", 1, [1, 16])], [weight])

    def test_weights_of_graphs_inside_nodes_come_with_it(self):
        (self.folder / "far").mkdir()
        far, weights = self.folder / "far/if.onnx", self.folder / "far/weights.bin"
        choice = helper.make_node("If", ["c"], ["y"], then_branch=self.branch("a", 1, weights), else_branch=self.branch("b", 2, weights))
        graph = helper.make_graph([choice], "g", [helper.make_tensor_value_info("x", 1, [1, 64])],
                                  [helper.make_tensor_value_info("y", 1, [1, 16])], [numpy_helper.from_array(np.array(False), "c")])
        far.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
        rknnd.quantization.convert(far, self.output)
        x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
        weights.rename(self.folder / "weights.bin")
        with rknnd.Session(self.output, "sim:") as session:
            expected = x.astype(np.float64) @ (2 * np.arange(1024.).reshape(64, 16))
            np.testing.assert_allclose(session.run(x)[0], expected, rtol=1e-5)
        weights.symlink_to(self.folder / "weights.bin")
        with self.assertRaisesRegex(rknnd.ModelError, "symbolic link"):
            rknnd.quantization.convert(far, self.output)


class Endings(Quantizing):
    def test_what_does_not_fit(self):
        bad = [PIXELS[0].astype(np.float32), np.full((1, 8, 8, 1), np.nan, np.float32)]
        self.refused(rknnd.InputError, "sample 2: tensor", samples=bad)
        np.save(self.folder / "nan.npy", bad[1])
        self.refused(rknnd.InputError, f"sample 2 ({self.folder / 'nan.npy'}): tensor", samples=[bad[0], str(self.folder / "nan.npy")])
        self.refused(rknnd.InputError, "(1, 9, 9, 1)", samples=[np.zeros((1, 9, 9, 1), np.uint8)])
        self.refused(rknnd.InputError, "there are no samples", samples=[])
        empty = self.folder / "empty.txt"
        empty.write_text("# nothing\n\n")
        self.refused(rknnd.InputError, f"{empty}: there is no line with files", samples=empty)
        self.refused(rknnd.InputError, "nowhere.png", samples=["nowhere.png"])
        self.refused(rknnd.InputError, "cannot be read", samples=str(self.folder / "nolist.txt"))
        self.refused(rknnd.InputError, "no input is called x", samples=[{"x": PIXELS[0]}])
        self.refused(rknnd.ParameterError, "samples is of type int", samples=5)
        for name, value in (("algorithm", "best"), ("method", 3), ("without", ["x"]), ("without", "batchnorm"),
                            ("keep_float", [1]), ("mean", ["a"]), ("std", [float("inf")]), ("clients", 0)):
            self.refused(rknnd.ParameterError, name, **{name: value})
        self.refused(rknnd.Error, "no_such_node", keep_float=["no_such_node"])
        with self.assertRaises(rknnd.ModelError):
            rknnd.quantize(DIGITS, self.output, PIXELS, server="sim:")

    def test_exceptions_come_out(self):
        def end(_done, _of):
            raise KeyError("enough")

        class Broken(list):
            def __getitem__(self, index):
                raise IndexError(f"sample {index} is gone")

        self.assertRaisesRegex(KeyError, "enough", self.quantize, PIXELS, progress=end)

        def count(done, _of):
            told.append(done)
            if done == 100:
                raise KeyError("enough")

        told = []
        self.assertRaisesRegex(KeyError, "enough", self.quantize, PIXELS * 20, progress=count, clients=1)
        self.assertEqual(told, list(range(1, 101)))  # nothing behind that, of however many samples at a time
        self.assertRaisesRegex(IndexError, "is gone", self.quantize, Broken(PIXELS))
        self.assertFalse(self.output.exists())

    def test_a_try_ends_with_the_first_sample_that_misses_the_goal(self):
        class Counted(list):
            reads = 0

            def __getitem__(self, index):
                self.reads += 1
                return super().__getitem__(index)

        samples, reads = Counted(PIXELS[:8]), []

        def tried(_floats, _cosine):
            reads.append(samples.reads)
            samples.reads = 0

        with rknnd.Quantizer(FLOAT, samples, std=[255], server="sim:", clients=1) as whole:
            samples.reads = 0
            with self.assertRaisesRegex(rknnd.Error, "the goal of 1 is not reached"):
                whole.propose(1.0, tried=tried)
        self.assertEqual(reads[0], 16)  # the float model's, too
        self.assertIn(1, reads)
        self.assertEqual(reads[-1], 8)  # what is told of the goal is of all samples
        self.assertEqual(set(reads), {16, 8, 2, 1})  # 2: what a layer costs

    def test_interrupted_it_goes_on(self):
        """Ctrl-C in the middle: KeyboardInterrupt, and the same call takes up what was done."""
        self.quantize(PIXELS * 20)
        expected, state = self.output.read_bytes(), self.folder / "state"
        self.output.unlink()

        def interrupt(done, _of):
            if done == 100:
                os.kill(os.getpid(), signal.SIGINT)
                self.assertTrue(ended.wait(60))

        ended, original = threading.Event(), rknnd._calibration.on_a_thread
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with unittest.mock.patch("rknnd._calibration.on_a_thread",
                                 lambda work, end: original(work, lambda: (end(), ended.set()))):
            self.assertRaises(KeyboardInterrupt, self.quantize, PIXELS * 20, progress=interrupt, state=state)
        self.assertTrue(state.exists())
        self.assertFalse(self.output.exists())
        done = self.quantize(PIXELS * 20, state=state)
        self.assertGreater(done.n_resumed, 0)
        self.assertFalse(state.exists())
        self.assertEqual(self.output.read_bytes(), expected)

    def test_other_samples_begin_anew(self):
        """What was kept of some arrays is not gone on with for others, nor for the same ones read in another way."""
        def end(done, _of):
            if done == 16:
                raise KeyError("enough")

        pictures, state = [str(path) for path in PICTURES], self.folder / "state"
        darker = [one // 2 for one in PIXELS]
        for first, then, settings in ((PIXELS * 3, darker * 3, {}), (pictures * 3, pictures * 3, {"rgb2bgr": True})):
            self.assertRaises(KeyError, self.quantize, first, progress=end, state=state, clients=1)
            self.assertTrue(state.exists())
            self.assertEqual(self.quantize(then, state=state, **settings).n_resumed, 0)
        self.assertRaises(KeyError, self.quantize, PIXELS * 3, progress=end, state=state, clients=1)
        self.assertGreater(self.quantize(PIXELS * 3, state=state).n_resumed, 0)

    def test_what_nobody_closes_ends_with_the_program(self):
        program = ("import numpy as np, rknnd\n"
                   f"q = rknnd.Quantizer({str(FLOAT)!r}, [np.ones((1, 8, 8, 1), np.float32)], server='sim:')\n"
                   f"g = rknnd.Session({str(DIGITS)!r}, 'sim:').golden(np.ones((1, 8, 8, 1), np.uint8))")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_its_library(self):
        program = ("import rknnd, rknnd.quantization as q; q.NAME = 'librknnd-nothing.so'\n"
                   f"rknnd.quantize({str(FLOAT)!r}, '/dev/null', [])")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no samples", done.stderr)
        done = subprocess.run([sys.executable, "-c", program.replace("[])", "[1])")], capture_output=True, text=True, check=False)
        self.assertIn("rknnd-tools", done.stderr)


if __name__ == "__main__":
    unittest.main()
