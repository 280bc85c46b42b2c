#!/usr/bin/python3
"""Names are a model's: whatever is in them, nothing but their letters reaches a terminal or a spreadsheet."""
import csv
import io
import json
import os
import re
import shutil
import unittest

try:
    import onnx
    from onnx import TensorProto, helper
except ModuleNotFoundError:
    onnx = None
import numpy as np
from support.rknnctl import OnDaemon, rknnctl

ESCAPE = "\x1b[2J\x1b]0;title\x07"   # clears the screen, names the window
C1 = "\u009b31m"                     # the same in one character
BIDI = "\u202egnp\u2066\u200f\u061c"  # turns what follows round
HIDDEN = "\u200b\ufeff\u2028\U000e0041"
FORMULA = '=HYPERLINK("http://example.org")'
HARMLESS = "größe/层"
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


@unittest.skipUnless(onnx, "the Python module onnx is not installed")
class Names(OnDaemon):
    OPTIONS = ("--backend", "sim:rk3588")

    def setUp(self):
        super().setUp()
        names = ["x" + ESCAPE, FORMULA, "-" + BIDI, "+" + HIDDEN, "@" + C1, HARMLESS]
        ops = ["Relu", "Sigmoid", "Abs", "Exp", "Tanh"]
        nodes = [helper.make_node(op, [a], [b], b + "\n") for op, a, b in zip(ops, names, names[1:])]
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4, 8, 8)) for n in (names[0], names[-1])]
        graph = helper.make_graph(nodes, "graph" + ESCAPE, value[:1], value[1:])
        self.input = self.folder / "in.npy"
        np.save(self.input, np.ones((1, 8, 8, 4), np.float32))
        self.file, self.names = self.folder / "names.onnx", names
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.file)

    def said(self, *words):
        done = rknnctl(*words, uri=self.uri)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout + done.stderr
        found = FORBIDDEN.search(text)
        self.assertIsNone(found, f"rknnctl {words[0]} writes {found and found.group()!r}: {text[:400]!r}")
        return done.stdout

    def test_text(self):
        for words in (["info"], ["info", "--all"], ["info", "--dot"], ["memory"], ["run"], ["perf"], ["dump"],
                      ["bench", "-n", "2"], ["stats"], ["trace", "-o", self.folder / "t.json"], ["doctor"]):
            with self.subTest(command=words):
                model = [self.file] if words[0] not in ("stats", "trace") else []
                more = {"run": ["-i", self.input], "dump": ["-i", self.input, "-o", self.folder / "out"]}
                self.said(*words, *model, *more.get(words[0], []))

    def test_letters_stay(self):
        self.assertIn(HARMLESS, self.said("info", "--all", self.file))

    def test_spreadsheets(self):
        for words in (["perf", "-C"], ["memory", "-C"], ["run", "-C"]):
            done = rknnctl(*words, self.file, uri=self.uri)
            if "unknown option" in done.stderr:
                continue
            with self.subTest(command=words):
                for row in csv.reader(io.StringIO(self.said(*words, self.file))):
                    for cell in row:
                        self.assertFalse(re.match(r"[=@]|[+-](?![0-9.])", cell), f"a formula: {cell}")

    def test_json_says_what_is_there(self):
        model = json.loads(self.said("info", "-j", self.file))["model"]
        written = [t["name"] for n in model["nodes"] for t in n["outputs"]]
        self.assertEqual(written, self.names[1:])

    def test_paths_of_any_bytes(self):
        """JSON is UTF-8, file names need not be."""
        model = self.folder / os.fsdecode(b"m\xffdel.onnx")
        shutil.copy(self.file, model)
        samples = self.folder / os.fsdecode(b"i\xe9.npy")
        shutil.copy(self.input, samples)
        to = self.folder / os.fsdecode(b"o\xfft")
        for words in (["run", "-i", samples, "-o", to], ["perf"], ["memory"], ["bench", "-n", "2"], ["info"],
                      ["compare", "--with", "sim:", "-i", samples], ["accuracy", "-g", model, "-i", samples]):
            with self.subTest(command=words[0]):
                said = json.loads(self.said(words[0], model, *words[1:], "--json"))
                for key in ("model", "golden"):
                    if isinstance(said.get(key), str):
                        self.assertTrue(said[key].endswith("m?del.onnx"), said[key])
                if words[0] != "info":
                    self.assertIsInstance(said["model"], str)

    def test_errors(self):
        done = rknnctl("run", self.file, "-i", "nowhere" + ESCAPE + "=" + str(self.file), uri=self.uri)
        self.assertNotEqual(done.returncode, 0)
        self.assertIsNone(FORBIDDEN.search(done.stderr), repr(done.stderr))


if __name__ == "__main__":
    unittest.main(verbosity=2)
