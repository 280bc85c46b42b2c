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
# Nets that find faces: size of their pictures (width, height), mean and deviation, whether they take BGR, and what makes them good
# enough (docs/quantization.md): options, and begins of the names of nodes that stay float.
FACES = {
    "ultraface_slim320": ((320, 240), (127, 127, 127), (128, 128, 128), False, ["--algorithm", "mmse"], ()),
    "retinaface": ((640, 640), (104, 117, 123), (1, 1, 1), True, [], ("/stage1/", "/BboxHead", "/ClassHead", "/LandmarkHead")),
}


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return a @ b / np.sqrt((a @ a) * (b @ b))


# ---- boxes, by the nets' papers ----

def overlap(box, others):
    """Intersection over union of a box with each of others; corners."""
    sides = np.clip(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0, None).prod(1)
    return sides / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - sides)


def anchors(size):
    """Centre and size, in units of the picture, of RetinaFace's: two for each place of each of three grids."""
    made = []
    for step, sizes in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        n = size // step
        made += [((x + .5) / n, (y + .5) / n, side / size, side / size) for y in range(n) for x in range(n) for side in sizes]
    return np.array(made)


def decode(name, outputs):
    """All boxes and how sure the net is of each."""
    if name == "ultraface_slim320":  # scores, boxes
        return outputs[1].reshape(-1, 4).astype(np.float64), outputs[0].reshape(-1, 2)[:, 1]
    offsets, scores = outputs[0].reshape(-1, 4).astype(np.float64), outputs[1].reshape(-1, 2)
    known = anchors(640)
    centres, sizes = known[:, :2] + .1 * offsets[:, :2] * known[:, 2:], known[:, 2:] * np.exp(.2 * offsets[:, 2:])
    return np.concatenate([centres - sizes / 2, centres + sizes / 2], 1), 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))


def faces(name, outputs, sure):
    """Boxes of which the net is sure, the surest of each heap that overlaps by more than .4."""
    boxes, scores = decode(name, outputs)
    order, kept = [i for i in np.argsort(-scores) if scores[i] > sure], []
    while order:
        kept.append(order[0])
        order = [i for i in order[1:] if overlap(boxes[kept[-1]], boxes[i:i + 1])[0] <= .4]
    return boxes[kept]


def photos():
    """Pictures with a face, pictures without one, and more to calibrate with."""
    from sklearn.datasets import load_sample_image
    child = Image.fromarray(np.load(MODELS.parent / "golden/pp_human_segv2_custom_argmax.rk3588.in0.npy")[0])
    with Image.open(MODELS / "cat.png") as image:
        cat = image.convert("RGB")
    others = [Image.fromarray(load_sample_image(name)) for name in ("flower.jpg", "china.jpg")]
    parts = [image.crop((i * 40, 0, i * 40 + 130, 130)) for image in (cat, *others) for i in range(4)]
    near = [child.crop(part) for part in ((80, 0, 176, 96), (96, 8, 160, 72), (60, 0, 190, 110))]
    return [child, *near], [cat, cat.crop((150, 40, 400, 300)), *others], parts


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

    def write_list(self, images, size, bgr):
        lines = []
        for i, image in enumerate(images):
            pixels = np.asarray(image.resize(size, Image.BILINEAR), np.float32)
            np.save(self.folder / f"p{i}.npy", np.ascontiguousarray((pixels[..., ::-1] if bgr else pixels).transpose(2, 0, 1)[None]))
            lines.append(f"p{i}.npy\n")
        (self.folder / "list.txt").write_text("".join(lines))
        return [np.load(self.folder / line.strip()) for line in lines]

    def test_faces_are_where_they_were(self):
        """Boxes of the model in 8 bits, in ONNX Runtime and here, against those of the float one in ONNX Runtime."""
        with_face, without, more = photos()
        for name, (size, mean, std, bgr, options, floats) in FACES.items():
            path = MODELS / f"{name}.onnx"
            kept = [node.name for node in onnx.load(path).graph.node if floats and node.name.startswith(floats)
                    and node.op_type in ("Conv", "LeakyRelu")]
            options = options + [word for node in kept for word in ("--keep-float", node)]
            pixels = self.write_list([*with_face, *without, *more], size, bgr)[:len(with_face) + len(without)]
            with self.subTest(name):
                out, _ = self.quantize(path, "--mean", ",".join(map(str, mean)), "--std", ",".join(map(str, std)), *options)
                least = []
                for i, values in enumerate(pixels):
                    normal = ((values - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))).astype(np.float32)
                    wanted = faces(name, self.in_ort(path, normal), 0.7)
                    self.assertEqual(len(wanted), int(i < len(with_face)))
                    np.save(self.folder / "x.npy", values)
                    for outputs in (self.in_ort(out, values), self.here(out)):
                        found = faces(name, outputs, 0.7)
                        self.assertEqual(len(found), len(wanted), f"picture {i}")
                        least += [overlap(box, found).max() for box in wanted]
                print(f"{name}: boxes overlap by {min(least):.3f} at least")
                self.assertGreaterEqual(min(least), 0.9)

    def test_classes_are_the_same(self):
        """SqueezeNet on all pictures at hand: the first class, and how many of the first five."""
        images = [image for group in photos() for image in group]
        path, n = MODELS / "squeezenet_f32.onnx", len(images)
        pixels = self.write_list(images, (224, 224), False)
        real = [self.in_ort(path, values)[0] for values in pixels]
        for algorithm in ("normal", "mmse"):
            out, _ = self.quantize(path, "--algorithm", algorithm)
            stored = [self.in_ort(out, values)[0] for values in pixels]
            first = sum(a.argmax() == b.argmax() for a, b in zip(real, stored))
            five = sum(len(set(np.argsort(a)[-5:]) & set(np.argsort(b)[-5:])) for a, b in zip(real, stored)) / 5
            print(f"squeezenet_f32, {algorithm}: {first} of {n} first classes, {100 * five / n:.1f} % of the first five, "
                  f"cosine {min(map(cosine, real, stored)):.4f}")
            self.assertGreaterEqual(first, n * 0.8)
            self.assertGreaterEqual(five, n * 0.8)

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
