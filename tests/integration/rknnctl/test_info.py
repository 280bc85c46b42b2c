#!/usr/bin/python3
"""rknnctl info of a model: a summary that fits a screen, of whatever file; the rest with --all."""
import json
import re
import subprocess
import tempfile
import unittest

from support.paths import SHARED
from support.rknnctl import on_terminal
from support.service import BUILD, DIGITS, PATIENCE, Daemon

from rknnwriter import examples

RKNNCTL = BUILD / "bin/rknnctl"


def screen(uri, *words):
    """What is left on a terminal of 80 columns, and the exit code."""
    text, code = on_terminal(["-s", uri, *words], env={"NO_COLOR": "1"})
    return re.sub(r"[^\n]*\r\x1b\[K", "", text.replace("\r\n", "\n")), code


class Info(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim")
        cls.uri = cls.daemon.uri

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def lines(self, model, code=0):
        """The summary's lines by their names."""
        text, ended = screen(self.uri, "info", model)
        self.assertEqual(ended, code, text)
        self.assertLessEqual(len(text.splitlines()), 24, text)
        text = text.split("\nrknnctl: ")[0]
        self.assertLessEqual(max(map(len, text.splitlines())), max(80, len(str(model))), text)
        found = {}
        for line in text.splitlines():
            if match := re.match(r"  (\w+) +(.*)", line):
                name, found[match[1]] = match[1], match[2]
            elif found and line.startswith("  "):
                found[name] += " " + line.strip()
        return found

    def test_digits(self):
        """8 x 8 x 16 x 9 + 4 x 4 x 32 x 144 + 10 x 512 multiply-accumulates, as its layers are."""
        said = self.lines(DIGITS)
        self.assertRegex(said["file"], r"RKNN, container 6 for rk3588, .*KiB$")
        self.assertRegex(said["inputs"], r"^image INT8 1x8x8x1 NHWC scale ")
        self.assertRegex(said["nodes"], r"^\d+ nodes?: \d+ on the NPU, \d+ on the CPU")
        self.assertRegex(said["time"], r"^about .* one core of a rk3588, \d+ FPS \(estimate")
        self.assertRegex(said["limit"], r"^(memory|computing) for \d+ % of that time; \d+ % of the multipliers")
        self.assertRegex(said["server"], r"runs it$")
        self.assertRegex(said["size"], r"^88\.1 kMAC a run; \d")

    def test_custom_string(self):
        """Where files hold it is not certain: the text is found in each of the places that are free for it."""
        for slot in (11, 15, 17, 18):
            model = examples.conv()
            model.root_slots[slot] = "words of mine"
            with self.subTest(slot), tempfile.NamedTemporaryFile(suffix=".rknn") as file:
                model.save(file.name)
                said = subprocess.run([RKNNCTL, "-s", self.uri, "info", "--json", file.name], check=True,
                                      capture_output=True, timeout=PATIENCE).stdout
                self.assertEqual(json.loads(said)["model"]["custom_string"], "words of mine")

    def test_all_has_the_rest(self):
        short, _ = screen(self.uri, "info", DIGITS)
        text, code = screen(self.uri, "info", "--all", DIGITS)
        self.assertEqual(code, 0)
        for words in ("heartbeat", "layer estimates (", "build attributes", "nodes (8)", "Conv:conv1", "steps "):
            self.assertIn(words, text)
            self.assertNotIn(words, short)
        self.assertIn("--all", short)

    def test_without_a_model_it_is_the_server(self):
        text, code = screen(self.uri, "info")
        self.assertEqual(code, 0)
        self.assertRegex(text, r"backend +sim")

    def test_a_refused_file_says_why(self):
        with tempfile.NamedTemporaryFile(suffix=".rknn") as file:
            file.write(b"RKNN" + bytes(100))
            file.flush()
            said = self.lines(file.name, code=4)
        self.assertIn("refuses it: ", said["server"])
        self.assertIn("104 B", said["file"])

    @unittest.skipUnless((SHARED / "models").is_dir(), f"{SHARED}/models is not there")
    def test_whatever_file(self):
        """Each has its summary; those that are refused are, and their inputs are known where they can be read."""
        models = sorted((SHARED / "models").rglob("*.rknn")) + sorted((SHARED / "models").rglob("*.onnx"))
        self.assertGreater(len(models), 40)
        for model in models:
            done = subprocess.run([RKNNCTL, "-s", self.uri, "info", "-j", model], capture_output=True, check=False,
                                  timeout=PATIENCE)
            description = json.loads(done.stdout)["model"]
            refused = description.get("refused")
            self.assertEqual(done.returncode, 4 if refused else 0, model)
            said = self.lines(model, 4 if refused else 0)
            self.assertIn("refuses it: " if refused else "runs it", said["server"])
            if description.get("inputs"):
                self.assertLessEqual({"inputs", "outputs", "file"}, set(said), model)
            if not refused:
                self.assertLessEqual({"types", "nodes", "size", "memory", "time"}, set(said), model)

    @unittest.skipUnless((SHARED / "models").is_dir(), f"{SHARED}/models is not there")
    def test_known_nets(self):
        """Numbers that their papers and libraries give."""
        onnx = SHARED / "models/onnx"
        mobilenet = self.lines(onnx / "mobilenetv2-12-qdq.onnx")
        self.assertIn("301 MMAC a run; 3.47 M parameters", mobilenet["size"])
        self.assertIn("open dimension", mobilenet["shapes"])
        self.assertIn("25.5 M parameters", self.lines(onnx / "light/light_resnet50.onnx")["size"])
        self.assertIn("4.09 GMAC", self.lines(onnx / "light/light_resnet50.onnx")["size"])
        segmentation = self.lines(SHARED / "models/rknn/pp_human_segv2_custom_argmax.rk3588.rknn")
        self.assertIn("mean 127.5 std 127.5", segmentation["inputs"])
        self.assertIn("2 on the CPU (ArgMax, Reshape)", segmentation["nodes"])
        custom = self.lines(SHARED / "models/rknn/dual_residual_custom.rk3588.rknn")
        self.assertIn("cstDualResidual", custom["custom"])


if __name__ == "__main__":
    unittest.main()
