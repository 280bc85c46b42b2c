#!/usr/bin/python3
"""Servers of a program's own: the software NPU, the emulator, and a board's NPU, where this machine has none."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

from support.rknnctl import rknnctl
from support.service import DIGITS

PICTURE = pathlib.Path(DIGITS).parent / "pictures/7_0.png"


class Private(unittest.TestCase):
    def run_on(self, uri, *words):
        """Its output, and what rknnctl says of it."""
        with tempfile.TemporaryDirectory(prefix="rknnd-private-") as folder:
            done = rknnctl("run", DIGITS, "-i", PICTURE, "--raw", "-o", folder, *words, uri=uri)
            self.assertEqual(done.returncode, 0, done.stderr)
            return np.load(next(pathlib.Path(folder).glob("*.npy"))), done.stdout

    def test_the_emulator_gives_what_the_software_npu_gives(self):
        found, said = self.run_on("emu:rk3588", "--perf")
        wanted, said_of_sim = self.run_on("sim:rk3588", "--perf")
        np.testing.assert_array_equal(found, wanted)
        self.assertEqual(found.argmax(), 7)
        self.assertIn("Machine: what the emulator took", said)
        self.assertNotIn("software NPU", said)
        self.assertIn("Machine: what the software NPU took", said_of_sim)

    def test_it_is_the_emulator(self):
        done = rknnctl("run", DIGITS, "-i", PICTURE, "--json", uri="emu:rk3588")
        self.assertEqual(done.returncode, 0, done.stderr)
        server = json.loads(done.stdout)["server"]
        self.assertEqual((server["chip"], server["backend"], server["uri"]), ("rk3588", "emu", "emu:rk3588"))

    def test_what_cannot_be_is_said(self):
        for uri, words in (("emu:", '"emu:" names no chip'), ("emu:rk9", "none of rk3588"), ("emu:rk3576", "the model is for rk3588"),
                           ("open:rknpu:/dev/null/none", "/dev/null/none"), ("open:sideways", "names no way")):
            with self.subTest(uri):
                done = rknnctl("run", DIGITS, "-i", PICTURE, uri=uri)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
