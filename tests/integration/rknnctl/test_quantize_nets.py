#!/usr/bin/python3
"""Public nets through rknnctl quantize: what comes out against ONNX Runtime, in 8 bits and in floats, and mmse against
normal. Without the nets, or npm's ONNX Runtime, there is nothing to do (77)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from PIL import Image

from onnxtools import ort
from support.service import BUILD, SOURCE, Daemon

RKNNCTL = BUILD / "bin/rknnctl"
MODELS = ort.shared_models()
# Net -> mean and deviation of its pixels (None: numbers from 0 to 1 by chance), least cosine of each output to that in floats.
NETS = {
    "squeezenet_f32": ((0, 1), 0.98),
    "ultraface_slim320": ((127, 128), 0.999),
    "retinaface": ((np.array([104, 117, 123]), 1), 0.9),
    "lprnet": ((127.5, 128), 0.995),
    "mnist": (None, 0.99),
    "BCResNet-t2-simplified": (None, 0.99),
    "light/light_shufflenet": ((127, 128), 0.99),
}
HYBRID = {"retinaface": 0.99}  # goals far above what 8 bits alone reach
CAT = 285


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return a @ b / np.sqrt((a @ a) * (b @ b))


class Nets(unittest.TestCase):
    modules = None  # of ONNX Runtime

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim")
        cls.runtime = ort.Runtime(cls.modules)

    @classmethod
    def tearDownClass(cls):
        cls.runtime.__exit__()
        cls.daemon.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-nets-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def input_of(self, model, pixels):
        constants = {t.name for t in model.graph.initializer}
        info, = [i for i in model.graph.input if i.name not in constants]
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if not pixels:
            return np.random.default_rng(3).uniform(0, 1, shape).astype(np.float32)
        with Image.open(MODELS / "cat.png") as image:
            values = np.asarray(image.convert("RGB").resize((shape[3], shape[2])), np.float64)
        return np.ascontiguousarray(((values - pixels[0]) / pixels[1]).transpose(2, 0, 1)[None], np.float32)

    def quantize(self, path, *options):
        out = self.folder / "int8.onnx"
        done = self.daemon.rknnctl("quantize", path, "--dataset", self.folder / "list.txt", "--layout", "nchw", "-o", out, "--json",
                                   *options, patience=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, json.loads(done.stdout)

    def in_ort(self, path, values):
        values.tofile(self.folder / "in0.bin")
        self.runtime.run(path, self.folder)
        names = [o.name for o in onnx.load(path, load_external_data=False).graph.output]
        return [np.fromfile(self.folder / f"out{i}.bin", np.float32) for i in range(len(names))]

    def here(self, path):
        done = self.daemon.rknnctl("run", path, "-i", self.folder / "x.npy", "--layout", "nchw", "-o", self.folder / "out", patience=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        paths = sorted((self.folder / "out").glob("*.npy"))
        self.assertTrue(paths)
        return [np.load(p).astype(np.float32) for p in paths]

    def test_nets(self):
        for name, (pixels, least) in NETS.items():
            path = MODELS / f"{name}.onnx"
            values = self.input_of(onnx.load(path), pixels)
            np.save(self.folder / "x.npy", values)
            (self.folder / "list.txt").write_text("x.npy\n")
            with self.subTest(name):
                self.one_net(path, values, least)

    def test_layers_in_floats_reach_the_goal(self):
        """In ONNX Runtime, too, which rounds a few values the other way."""
        for name, goal in HYBRID.items():
            path = MODELS / f"{name}.onnx"
            values = self.input_of(onnx.load(path), NETS[name][0])
            np.save(self.folder / "x.npy", values)
            (self.folder / "list.txt").write_text("x.npy\n")
            with self.subTest(name):
                real = self.in_ort(path, values)
                plain = min(map(cosine, real, self.in_ort(self.quantize(path)[0], values)))
                out, said = self.quantize(path, "--auto-hybrid", "--goal", f"cos={goal}")
                got = min(map(cosine, real, self.in_ort(out, values)))
                print(f"{name}: {plain:.5f}, with {len(said['hybrid']['floats'])} of {len(said['hybrid']['nodes'])} layers in floats "
                      f"{got:.5f} (said {said['hybrid']['cosine']:.5f}), {said['hybrid']['tries']} tries, {said['seconds']:.1f} s")
                self.assertLess(plain, goal)
                self.assertGreater(got, goal - (1 - goal) / 10)
                self.assertLess(len(said["hybrid"]["floats"]), len(said["hybrid"]["nodes"]) / 2)

    def one_net(self, path, values, least):
        real = self.in_ort(path, values)
        errors = {}
        for algorithm in ("mmse", "normal"):
            out, said = self.quantize(path, "--algorithm", algorithm)
            stored = self.in_ort(out, values)
            for old, new in zip(real, stored):
                self.assertGreater(cosine(old, new), least, algorithm)
            errors[algorithm] = {t["name"]: t["mean_square_error"] for t in said["tensors"] if t["mean_square_error"] is not None}
        worse = [n for n, e in errors["mmse"].items() if e > errors["normal"][n] * (1 + 1e-9)
                 and not self.shares(said, n)]
        self.assertEqual(worse, [], "mmse has a larger error than normal")
        for ours, theirs in zip(self.here(out), stored):
            self.assertGreater(cosine(ours, theirs), 0.999)
        if path.stem == "squeezenet_f32":
            self.assertEqual([o[0].argmax() for o in (real, stored)], [CAT, CAT])

    @staticmethod
    def shares(said, name):
        """The least error is that of a group together."""
        mine, = [t for t in said["tensors"] if t["name"] == name]
        return sum(t["scale"] == mine["scale"] and t["range"] == mine["range"] for t in said["tensors"]) > 1


if __name__ == "__main__":
    if not MODELS.is_dir():
        sys.exit(77)
    Nets.modules = ort.install(pathlib.Path(os.environ["RKNND_ORT"]))
    if not Nets.modules:
        sys.exit(77)
    unittest.main()
