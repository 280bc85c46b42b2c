#!/usr/bin/python3
"""rknnctl info --lint: what is found in files, what is not, in each form, and as a gate."""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from rknnwriter import Model, Quant, ops
from support.paths import DIGITS, SOURCE
from support.service import BUILD

RKNNCTL = BUILD / "bin/rknnctl"
SHARED = SOURCE.parent / "shared/models"
Q = Quant.of_range(-4, 4)


def lint(*words):
    return subprocess.run([RKNNCTL, "info", "--lint", "-s", "sim:", *words], capture_output=True, text=True, check=False)


def conv(m, x, channels, kernel=1):
    rng = np.random.default_rng(1)
    return ops.conv(m, x, rng.normal(size=(channels, x.shape[1], kernel, kernel)) * 0.1, rng.normal(size=channels),
                    pad=kernel // 2, out=Q)


def middle(m):
    """A softmax on the CPU between two convolutions, and one at the end."""
    x = conv(m, m.input("image", (1, 16, 8, 8), Q), 16)
    x = conv(m, ops.softmax(m, x, out=Quant(1 / 256, -128), cpu=True), 16)
    m.output(ops.softmax(m, x, out=Quant(1 / 256, -128), cpu=True), "scores")


def wide(m):
    """A picture of three channels with a large kernel, then layers that take hardly any time."""
    x = conv(m, m.input("image", (1, 3, 256, 256), Q), 32, 7)
    for _ in range(4):
        x = conv(m, ops.max_pool(m, x, 2), 32)
    m.output(x, "out")


def depthwise(m):
    """Few channels with a kernel each, over a large picture: memory is what it waits for."""
    x = conv(m, m.input("image", (1, 32, 128, 128), Q), 32)
    rng = np.random.default_rng(1)
    x = ops.conv(m, x, rng.normal(size=(32, 1, 3, 3)), np.zeros(32), pad=1, group=32, out=Q)
    for _ in range(3):
        x = conv(m, ops.max_pool(m, x, 2), 64)
    m.output(x, "out")


def flat(m):
    """Memory again, of kernels that are ordinary."""
    x = conv(m, m.input("image", (1, 16, 256, 256), Q), 16)
    for _ in range(3):
        x = conv(m, ops.max_pool(m, x, 2), 16)
    m.output(x, "out")


def sums(m):
    """Sums of two tensors, and of one with itself, which is meant."""
    x = m.input("image", (1, 32, 16, 16), Q)
    a, b = conv(m, x, 32), conv(m, x, 32, 3)
    c = ops.add(m, a, b, out=Q)
    m.output(ops.add(m, c, c, out=Q), "out")


WRONG = {name: ["AddRelu"] for name in ("BCResNet-t2-simplified.rk3588", "sub_after_block1.rk3588")}


class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.rknn"

    def findings(self, fill, chip="rk3588"):
        m = Model(chip, fill.__name__)
        fill(m)
        m.save(self.path)
        said = lint("--json", self.path)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)["findings"]

    def test_cpu_in_the_middle(self):
        found = self.findings(middle)
        self.assertEqual([(f["kind"], f["op"]) for f in found], [("cpu", "exSoftmax13")])
        self.assertIn("1024 elements are read and 1024 written", found[0]["what"])
        self.assertAlmostEqual(found[0]["us"], (1024 + 1024) / 12000)  # bytes, and RK3588's memory in MB/s

    def test_few_channels(self):
        found = self.findings(wide)
        self.assertEqual([f["kind"] for f in found], ["slow"])
        self.assertIn("space to depth", found[0]["advice"])
        self.assertGreater(found[0]["us"], 100)

    def advice(self, fill, chip="rk3588"):
        return {f["op"]: f["advice"] for f in self.findings(fill, chip)}

    def test_depthwise(self):
        found = [f for f in self.findings(depthwise) if "depthwise" in f["advice"]]
        self.assertEqual(len(found), 1)
        self.assertIn("waits for memory", found[0]["what"])

    def test_memory(self):
        """Nothing is advised that the model has, or the chip has not."""
        for chip, cores in (("rk3588", True), ("rk3562", False)):
            with self.subTest(chip):
                advice, = set(self.advice(flat, chip).values())
                self.assertIn("fewer pixels", advice)
                self.assertEqual("more cores" in advice, cores)
                self.assertNotIn("fp16", advice)

    def test_sums_are_fine(self):
        self.assertEqual(self.findings(sums), [])

    def test_forms(self):
        found, = self.findings(middle)
        text = lint(self.path).stdout
        self.assertEqual(text.splitlines()[0], f"cpu: {found['node']} (exSoftmax13), at least 0.2 us")
        self.assertIn(found["advice"], text)
        head, row = list(csv.reader(io.StringIO(lint("--csv", self.path).stdout)))
        self.assertEqual(dict(zip(head, row)), {**found, "us": "0.2"})
        self.assertEqual(lint(DIGITS).stdout, "nothing to say\n")

    def test_gate(self):
        self.findings(middle)
        for limit, status in (("0", 6), ("1", 0)):
            said = lint("--fail-findings", limit, self.path)
            self.assertEqual(said.returncode, status, said.stderr)
            self.assertIn("cpu: ", said.stdout)  # shown all the same
        self.assertIn("1 finding", lint("--fail-findings", "0", self.path).stderr)
        self.assertEqual(lint("--fail-findings", "0", DIGITS).returncode, 0)

    def test_a_model_that_is_refused(self):
        path = SHARED / "rknn/multiple_input_demo_container2.rk3588.rknn"
        if not path.exists():
            self.skipTest("no shared models")
        said = lint(path)
        self.assertEqual((said.returncode, said.stdout), (4, ""))
        self.assertIn("compressed", said.stderr)

    def test_refuses(self):
        for words in ((), ("--dot", DIGITS), ("--json", "--csv", DIGITS)):
            self.assertEqual(lint(*words).returncode, 2, words)
        for words in (("--csv", DIGITS), ("--fail-findings", "0", DIGITS)):  # of what?
            said = subprocess.run([RKNNCTL, "info", "-s", "sim:", *words], capture_output=True, text=True, check=False)
            self.assertEqual(said.returncode, 2, words)
            self.assertIn("--lint", said.stderr)

    def test_shared_files(self):
        """AddRelus that add their second operand to itself, in those files where boards show it, and nowhere else."""
        files = {p.name[:-len(".rknn")]: p for p in SHARED.glob("*/*.rknn")}
        if not files:
            self.skipTest("no shared models")
        wrong = {}
        for name, path in sorted(files.items()):
            said = lint("--json", path)
            defects = [f for f in json.loads(said.stdout or "{}").get("findings", []) if f["kind"] == "converter"]
            self.assertEqual(len({f["node"] for f in defects}), len(defects), name)  # once, however many programs
            if defects:
                wrong[name] = sorted({f["op"] for f in defects})
        self.assertEqual(wrong, WRONG)


if __name__ == "__main__":
    sys.exit(unittest.main())
