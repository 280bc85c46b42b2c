#!/usr/bin/python3
"""Every member of every answer by tables written from the protocol's public descriptions, in another language than ours and
with another HTTP library: described.js, run by Node."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from kserve_front import Front
from support.service import PATIENCE, Daemon
from test_kserve import identity

NODE = shutil.which("node") or shutil.which("nodejs")
SCRIPT = pathlib.Path(__file__).with_name("described.js")
MODELS = {"fp32": np.float32, "fp16": np.float16, "uint8": np.uint8, "int8": np.int8, "int32": np.int32, "int64": np.int64, "bool": np.bool_}


class Protocol(unittest.TestCase):
    def test_every_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            models = pathlib.Path(folder)
            for name, dtype in MODELS.items():
                identity(models / f"of_{name}.onnx", dtype, [2, 3, 4])
            identity(models / "a b ä%2.onnx", np.float32, [2, 3, 4])
            identity(models / "two.onnx", np.float32, [2, 3, 4], 2)
            (models / "bad.rknn").write_bytes(b"no model")
            daemon = Daemon("--backend", "sim:rk3588")
            front = Front(daemon, models)
            done = subprocess.run([NODE, SCRIPT, str(front.port)], capture_output=True, text=True, timeout=PATIENCE, check=False)
            front.stop()
            daemon.stop()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        *differences, last = done.stdout.splitlines()
        self.assertEqual(differences, [])
        self.assertGreater(int(last.split()[0]), 5000)


if __name__ == "__main__":
    if not NODE:
        print("skipped: node is not installed")
        sys.exit(77)
    unittest.main()
