#!/usr/bin/python3
"""rknnctl quantize: what it says of wrong data sets, models and disks, and calibrations that are ended and gone on with."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

from integration.rknnctl.test_quantize import FLOAT, RKNNCTL, Case
from support.service import PATIENCE, SOURCE, Daemon, wait_for


class Failures(Case):
    """Words, a code, and no file."""

    def test_data_sets(self):
        good = np.ones((1, 8, 8, 1), np.float32)
        bad = good.copy()
        bad[0, 3, 3, 0] = np.nan
        self.assertIn("No such file", self.quantize(FLOAT, self.folder / "none.txt", code=5))
        (self.folder / "empty.txt").write_text("\n\n")
        self.assertIn("no line", self.quantize(FLOAT, self.folder / "empty.txt", code=5))
        (self.folder / "gone.txt").write_text("gone.npy\n")
        self.assertIn("gone.npy", self.quantize(FLOAT, self.folder / "gone.txt", code=5))
        self.assertIn("sample 2", self.quantize(FLOAT, self.arrays([good, np.ones((1, 9, 8, 1), np.float32)], "shape"), code=5))
        words = self.quantize(FLOAT, self.arrays([good, good, bad], "nan"), code=5)
        self.assertRegex(words, r"sample 3 \(line 3\).*image.*NaN")
        (self.folder / "two.txt").write_text("shape0.npy shape0.npy\n")
        self.assertIn("more files than", self.quantize(FLOAT, self.folder / "two.txt", code=2))

    def test_one_constant_picture_is_warned_of(self):
        done = self.rknnctl("quantize", FLOAT, "--dataset", self.arrays([np.zeros((1, 8, 8, 1), np.float32)]), "-o", self.out)
        self.assertIn("warning: an input was one and the same number", done.stderr)
        onnx.checker.check_model(onnx.load(self.out), full_check=True)

    def test_models(self):
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.quantize(FLOAT, listed)
        quantized = self.out.rename(self.folder / "quantized.onnx")
        self.assertIn("quantized already", self.quantize(quantized, listed, code=4))
        older = onnx.load(quantized)
        older.opset_import[0].version = 12
        onnx.save(older, self.folder / "older.onnx")
        self.assertIn("quantized already", self.quantize(self.folder / "older.onnx", listed, code=4))
        relu = self.write([helper.make_node("Relu", ["x"], ["y"])], [1, 4], {}, y=[1, 4])
        self.assertIn("nothing to quantize", self.quantize(relu, listed, code=4))
        (self.folder / "cut.onnx").write_bytes(FLOAT.read_bytes()[:5000])
        self.assertIn("no ONNX model", self.quantize(self.folder / "cut.onnx", listed, code=4))
        self.assertIn("No such file", self.quantize(self.folder / "none.onnx", listed, code=4))
        self.assertIn("cannot be read", self.quantize(SOURCE / "examples/digits/digits.rknn", listed, code=4))

    def model_with_weights_beside(self):
        """The model, the file of its weights, and a link to that."""
        model = onnx.load(FLOAT)
        for tensor in model.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))  # as bytes, which alone can lie elsewhere
        onnx.save(model, str(self.folder / "net.onnx"), save_as_external_data=True, location="net.data", size_threshold=0)
        (self.folder / "link").symlink_to("net.data")
        return self.folder / "net.onnx", self.folder / "net.data", self.folder / "link"

    def test_the_float_model_is_not_lost(self):
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        net, link = self.folder / "net.onnx", self.folder / "link.onnx"
        shutil.copy(FLOAT, net)
        link.symlink_to("net.onnx")
        for options in (("-o", net), ("-o", link), ("-o", self.out, "--write-float", net), ("-o", self.out, "--report", link)):
            done = self.rknnctl("quantize", net, "--dataset", listed, *options, code=2)
            self.assertIn("is the float model, which would be lost", done.stderr)
        self.assertEqual(net.read_bytes(), FLOAT.read_bytes())
        self.assertFalse(self.out.exists())

    def test_weights_of_the_float_model_are_not_lost(self):
        """They may lie where an output's own weights, or a file of hybrid quantization, would go."""
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        net, weights, link = self.model_with_weights_beside()
        before = weights.read_bytes()
        for options in (("-o", self.folder / "net", "--external-data"), ("-o", weights), ("-o", self.out, "--report", link),
                        ("-o", self.out, "--write-float", weights), ("--hybrid-step1", weights)):
            with self.subTest(options=options):
                done = self.rknnctl("quantize", net, "--dataset", listed, *options, code=2)
                self.assertRegex(done.stderr, "(net.data|link) has weights of the float model, which would be lost")
        self.assertEqual(weights.read_bytes(), before)
        self.rknnctl("quantize", net, "--dataset", listed, "-o", self.out, "--external-data")

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_nothing_of_the_float_model_is_lost_to_python(self):
        import rknnd  # pylint: disable=import-outside-toplevel
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        net, weights, link = self.model_with_weights_beside()
        before, same = weights.read_bytes(), self.folder / "same.onnx"
        same.symlink_to("net.onnx")
        with self.assertRaisesRegex(rknnd.ParameterError, "is the float model, which would be lost"):
            rknnd.quantize(net, same, str(listed), server=self.daemon.uri)
        with rknnd.Quantizer(net, str(listed), server=self.daemon.uri) as quantizer:
            for write in (quantizer.write, quantizer.write_float, quantizer.write_table, quantizer.write_report):
                with self.assertRaisesRegex(rknnd.ParameterError, "has weights of the float model"):
                    write(link)
        self.assertEqual(weights.read_bytes(), before)

    def test_a_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.assertIn("File too large", self.quantize(FLOAT, listed, code=1, preexec_fn=limit))

    def test_outputs_that_are_no_ordinary_files(self):
        listed = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 1)).astype(np.float32)])
        self.quantize(FLOAT, listed, "--report", self.folder / "page.html")
        model = self.out.read_bytes()
        self.out.rename(self.folder / "target.onnx")
        self.out.symlink_to("target.onnx")
        (self.folder / "target.onnx").write_bytes(b"before")
        self.quantize(FLOAT, listed)
        self.assertTrue(self.out.is_symlink())
        self.assertEqual((self.folder / "target.onnx").read_bytes(), model)
        for name, option in ("full.onnx", "-o"), ("full.html", "--report"), ("full.cfg", "--hybrid-step1"):
            full = self.folder / name
            full.symlink_to("/dev/full")
            words = [] if option != "--report" else ["-o", self.folder / "beside.onnx"]
            done = self.rknnctl("quantize", FLOAT, "--dataset", listed, *words, option, full, code=1)
            self.assertIn("No space left", done.stderr)
            self.assertTrue(full.is_symlink())
        self.assertEqual((self.folder / "beside.onnx").read_bytes(), model)  # of a report that cannot be written nothing depends
        words = self.folder / "beside.onnx", "--write-float", self.folder / "full.html", "--report", self.folder / "page2.html"
        done = self.rknnctl("quantize", FLOAT, "--dataset", listed, "-o", *words, code=1)
        self.assertIn("beside.onnx is written, but not all that was asked for beside it", done.stderr)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())

    def test_a_calibration_that_is_ended_is_gone_on_with(self):
        samples = [self.rng.normal(0, 1 + i, (1, 8, 8, 1)).astype(np.float32) for i in range(60)]
        listed = self.arrays(samples)
        whole = json.loads(self.quantize(FLOAT, listed, "--json"))
        self.out.unlink()
        state = self.folder / "int8.onnx.calibration"
        slow = Daemon("--backend", "sim:rk3588,slow%100")
        self.addCleanup(slow.stop)
        command = [RKNNCTL, "quantize", FLOAT, "--dataset", listed, "-o", self.out, "--clients", "1"]
        at_work = subprocess.Popen(command, env=slow.env, stderr=subprocess.PIPE, text=True)
        wait_for("some samples", lambda: slow.status()["jobs_done"] >= 12)
        at_work.send_signal(signal.SIGINT)
        _, words = at_work.communicate(timeout=PATIENCE)
        self.assertEqual(at_work.returncode, 1, words)
        self.assertIn(f"goes on from {state}", words)
        self.assertTrue(state.exists())
        self.assertFalse(self.out.exists())
        copy = shutil.copy(state, self.folder / "copy")
        others = self.rknnctl("quantize", FLOAT, "--dataset", listed, "-o", self.folder / "other.onnx", "--json", "--rgb2bgr", "--state", copy)
        self.assertEqual(json.loads(others.stdout)["resumed"], 0)  # other samples
        (self.folder / "other.onnx").unlink()
        said = json.loads(self.quantize(FLOAT, listed, "--json"))
        self.assertGreaterEqual(said["resumed"], 8)
        self.assertEqual(said["tensors"], whole["tensors"])
        self.assertFalse(state.exists())
        state.write_text("something of somebody")
        self.assertIn("no unfinished calibration", self.rknnctl(*command[1:], code=2).stderr)
        state.unlink()
        os.mkfifo(state)
        self.assertIn("is no file", self.rknnctl(*command[1:], code=2).stderr)

    def ended(self, daemon, ready, *words):
        """Words of a command that Ctrl-C ends once ready() is true."""
        with subprocess.Popen([RKNNCTL, "quantize", FLOAT, "-o", self.out, "--clients", "1", *map(str, words)], env=daemon.env, stderr=subprocess.PIPE,
                              text=True) as at_work:
            wait_for("it to have come so far", ready)
            at_work.send_signal(signal.SIGINT)
            _, said = at_work.communicate(timeout=PATIENCE)
            self.assertEqual(at_work.returncode, 1, said)
            self.assertFalse(self.out.exists())
            return said

    def test_tries_that_are_ended_cost_no_calibration(self):
        listed, state = self.arrays([self.rng.normal(0, 0.2 + i / 20, (1, 8, 8, 1)).astype(np.float32) for i in range(12)]), self.folder / "int8.onnx.calibration"
        refused = self.quantize(FLOAT, listed, "--auto-hybrid", "--goal", "cos=1", code=1)
        self.assertFalse(state.exists(), "it is not gone on with")
        least, most = map(float, re.search(r"cosine is (\S+) in 8 bits, and (\S+) with", refused).groups())
        words = "--dataset", listed, "--auto-hybrid", "--goal", f"cos={(least + most) / 2}"
        said = json.loads(self.quantize(FLOAT, *words[1:], "--json"))
        self.assertGreater(said["hybrid"]["tries"], 2)
        whole = self.out.read_bytes()
        self.out.unlink()
        slow = Daemon("--backend", "sim:rk3588,slow%100")
        self.addCleanup(slow.stop)
        early = self.ended(slow, lambda: slow.status()["jobs_done"] >= 1, *words)
        self.assertRegex(early, "interrupted$")  # and nothing that it would go on from, as there is nothing
        self.assertFalse(state.exists())
        self.assertIn(f"goes on from {state}", self.ended(slow, state.exists, *words))
        again = json.loads(self.quantize(FLOAT, *words[1:], "--json"))
        self.assertEqual((again["resumed"], self.out.read_bytes() == whole, state.exists()), (12, True, False))


if __name__ == "__main__":
    unittest.main()
