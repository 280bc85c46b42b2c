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
from onnx import helper, numpy_helper
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
# Pieces of nets, on noise. (dual_residual has a custom operator, mobilenetv2-12-qdq is quantized.)
PIECES = ("multiple_input_demo", "rk3576_a_relu", "rk3576_bias_k3", "rk3576_chain", "rk3576_conv2d", "rk3576_dw", "rk3576_dwbig_112", "rk3576_pq_oc",
          "sub2_after_mul", "sub_after_block1", "sub_fix_after_pad", "sub_fix_after_swish", "test_bcblock", "test_conv_c1", "test_conv_c16",
          "test_stack_2", "light/light_squeezenet")
ROOM = 1.02  # ONNX Runtime rounds a few values the other way
HYBRID = {"retinaface": 0.99}  # goals far above what 8 bits alone reach
CAT = 285
# Nets that find faces: size of their pictures (width, height), mean and deviation, whether they take BGR, and options
# (docs/quantization.md).
FACES = {
    "ultraface_slim320": ((320, 240), (127, 127, 127), (128, 128, 128), False, []),
    "retinaface": ((640, 640), (104, 117, 123), (1, 1, 1), True, ["--auto-hybrid", "--goal", "cos=0.95"]),
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


# ---- nets with bodies ----

def net_of(path, rng, middle, more, sets=(("", 13),)):
    """Conv and Relu (its output is r), `middle` of that (i), and another Conv."""
    constants = {"w": rng.normal(0, .2, (4, 3, 3, 3)), "v": rng.normal(0, .5, (5, 4, 1, 1))} | more
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Relu", ["c"], ["r"]), *middle,
             helper.make_node("Conv", ["i", "v"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
                              [helper.make_tensor_value_info("y", 1, [1, 5, 8, 8])],
                              [numpy_helper.from_array(v if v.dtype == np.int64 else v.astype(np.float32), k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in sets])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def body(name, nodes, inputs, outputs, **constants):
    infos = [[helper.make_tensor_value_info(n, t, s) for n, t, s in values] for values in (inputs, outputs)]
    return helper.make_graph(nodes, name, *infos, [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()])


def branches(path, rng):
    """Which one is taken depends on the mean of the input."""
    shape = [1, 4, 8, 8]
    then = body("then", [helper.make_node("Conv", ["r", "u"], ["t"])], [], [("t", 1, shape)], u=rng.normal(0, .5, (4, 4, 1, 1)))
    other = body("else", [helper.make_node("Neg", ["r"], ["e"])], [], [("e", 1, shape)])
    return net_of(path, rng, [helper.make_node("ReduceMean", ["x"], ["m"], keepdims=0), helper.make_node("Greater", ["m", "zero"], ["q"]),
                              helper.make_node("If", ["q"], ["i"], then_branch=then, else_branch=other)], {"zero": np.zeros(())})


def loops(path, rng):
    state, flag = [1, 4, 8, 8], onnx.TensorProto.BOOL
    again = body("body", [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Conv", ["s", "u"], ["t"], pads=[1] * 4),
                          helper.make_node("Tanh", ["t"], ["s2"])],
                 [("n", onnx.TensorProto.INT64, []), ("on", flag, []), ("s", 1, state)], [("still", flag, []), ("s2", 1, state)],
                 u=rng.normal(0, .2, (4, 4, 3, 3)))
    return net_of(path, rng, [helper.make_node("Loop", ["times", "", "r"], ["i"], body=again)], {"times": np.array(3)})


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
                                   *options, patience=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, json.loads(done.stdout)

    def in_ort(self, path, *inputs):
        for i, values in enumerate(inputs):
            values.tofile(self.folder / f"in{i}.bin")
        self.runtime.run(path, self.folder)
        names = [o.name for o in onnx.load(path, load_external_data=False).graph.output]
        return [np.fromfile(self.folder / f"out{i}.bin", np.float32) for i in range(len(names))]

    def here(self, path):
        done = self.daemon.rknnctl("run", path, "-i", self.folder / "x.npy", "--layout", "nchw", "-o", self.folder / "out", patience=600)
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

    def test_mmse_is_not_worse_than_normal(self):
        """By outputs, in ONNX Runtime: the least and the mean cosine of samples of the calibration."""
        for name in PIECES:
            path = MODELS / f"{name}.onnx"
            graph, rng = onnx.load(path).graph, np.random.default_rng(11)
            constants = {t.name for t in graph.initializer}
            shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.input if i.name not in constants]
            samples = [[rng.normal(0, 1, shape).astype(np.float32) for shape in shapes] for _ in range(8)]
            for i, sample in enumerate(samples):
                for k, values in enumerate(sample):
                    np.save(self.folder / f"s{i}_{k}.npy", values)
            (self.folder / "list.txt").write_text("".join(" ".join(f"s{i}_{k}.npy" for k in range(len(shapes))) + "\n" for i in range(8)))
            off = {}
            for algorithm in (None, "normal", "mmse"):
                model = self.quantize(path, "--algorithm", algorithm)[0] if algorithm else path
                off[algorithm] = [np.concatenate(self.in_ort(model, *sample)) for sample in samples]
            errors = {a: [1 - cosine(x, y) for x, y in zip(off[None], off[a])] for a in ("normal", "mmse")}
            with self.subTest(name):
                for measure in (max, np.mean):
                    self.assertLessEqual(measure(errors["mmse"]), measure(errors["normal"]) * ROOM + 1e-7)

    def test_16_bits(self):
        """What another runtime makes of conversions to int16; errors are hundreds of times as small as in 8 bits."""
        for name in ("squeezenet_f32", "ultraface_slim320", "lprnet", "BCResNet-t2-simplified", "mnist"):
            path = MODELS / f"{name}.onnx"
            values = self.input_of(onnx.load(path), NETS[name][0])
            np.save(self.folder / "x.npy", values)
            (self.folder / "list.txt").write_text("x.npy\n")
            for dtype in ("w16a16i", "w16a16i_dfp"):
                with self.subTest(name, dtype=dtype):
                    out, _ = self.quantize(path, "--dtype", dtype)
                    stored = self.in_ort(out, values)
                    for old, new in zip(self.in_ort(path, values), stored):
                        self.assertGreater(cosine(old, new), 0.99999)
                    for ours, theirs in zip(self.here(out), stored):
                        self.assertGreater(cosine(ours, theirs), 0.99999)

    def test_branches_and_loops(self):
        """Bodies stay float, what is around them does not; this runtime and the other one agree."""
        rng = np.random.default_rng(1)
        for path in (branches(self.folder / "if.onnx", rng), loops(self.folder / "loop.onnx", rng)):
            samples = [rng.normal((-1)**i, 1, (1, 3, 8, 8)).astype(np.float32) for i in range(8)]
            for i, values in enumerate(samples):
                np.save(self.folder / f"{i}.npy", values)
            (self.folder / "list.txt").write_text("".join(f"{i}.npy\n" for i in range(len(samples))))
            for dtype, least in (("w8a8", 0.995), ("w16a16i", 0.99999)):
                out, said = self.quantize(path, "--dtype", dtype)
                with self.subTest(path.stem, dtype=dtype):
                    self.assertGreaterEqual(said["quantized"], 3)
                    for values in samples:
                        np.save(self.folder / "x.npy", values)
                        real, stored, ours = self.in_ort(path, values)[0], self.in_ort(out, values)[0], self.here(out)[0]
                        self.assertGreater(cosine(real, stored), least)
                        self.assertGreater(cosine(ours, stored), 0.9999)

    def test_clips_of_both_sides(self):
        """ONNX Runtime leaves out a Clip that changes no stored number, and failed where a bound was a little nearer than what can be stored."""
        rng = np.random.default_rng(2)
        samples = [rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32) for _ in range(4)]
        for i, values in enumerate(samples):
            np.save(self.folder / f"{i}.npy", values)
        np.save(self.folder / "x.npy", samples[0])
        (self.folder / "list.txt").write_text("".join(f"{i}.npy\n" for i in range(len(samples))))
        for low, high in ((-0.5, 0.7), (-3, 3), (-2, 6), (-100, 1)):
            path = net_of(self.folder / "clip.onnx", rng, [helper.make_node("Conv", ["r", "u"], ["m"]), helper.make_node("Clip", ["m", "lo", "hi"], ["i"])],
                          {"u": rng.normal(0, 5, (4, 4, 1, 1)), "lo": np.float32(low), "hi": np.float32(high)})
            with self.subTest(bounds=(low, high)):
                out, _ = self.quantize(path)
                real, stored, ours = self.in_ort(path, samples[0])[0], self.in_ort(out, samples[0])[0], self.here(out)[0]
                self.assertGreater(cosine(real, stored), 0.99)
                self.assertGreater(cosine(ours, stored), 0.9999)

    def test_gelus(self):
        """Of operator set 20, in both forms, and ONNX Runtime's own of older ones."""
        rng = np.random.default_rng(4)
        samples = [rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32) for _ in range(4)]
        for i, values in enumerate(samples):
            np.save(self.folder / f"{i}.npy", values)
        np.save(self.folder / "x.npy", samples[0])
        (self.folder / "list.txt").write_text("".join(f"{i}.npy\n" for i in range(len(samples))))
        forms = {"erf": ((("", 20),), {}), "tanh": ((("", 20),), {"approximate": "tanh"}),
                 "ONNX Runtime's": ((("", 13), ("com.microsoft", 1)), {"domain": "com.microsoft"})}
        for name, (sets, form) in forms.items():
            with self.subTest(form=name):
                path = net_of(self.folder / "gelu.onnx", rng, [helper.make_node("Conv", ["r", "u"], ["m"]), helper.make_node("Gelu", ["m"], ["i"], **form)],
                              {"u": rng.normal(0, 1, (4, 4, 1, 1))}, sets)
                real = self.in_ort(path, samples[0])[0]
                np.testing.assert_allclose(self.here(path)[0].ravel(), real, rtol=1e-4, atol=1e-4)
                out, _ = self.quantize(path)
                stored = self.in_ort(out, samples[0])[0]
                self.assertGreater(cosine(real, stored), 0.999)
                self.assertGreater(cosine(self.here(out)[0], stored), 0.9999)

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
        for name, (size, mean, std, bgr, options) in FACES.items():
            path = MODELS / f"{name}.onnx"
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
        errors, errors_of = {}, {}
        for algorithm in ("mmse", "normal"):
            # By histograms of all values: others count fewer for normal than for mmse, and no tails.
            _, said = self.quantize(path, "--algorithm", algorithm, "--all-values", "--without", "comparison")
            errors[algorithm] = {t["name"]: (t["mean_square_error"], t["range"]) for t in said["tensors"]
                                 if t["mean_square_error"] is not None}
            out, _ = self.quantize(path, "--algorithm", algorithm)
            stored = self.in_ort(out, values)
            for old, new in zip(real, stored):
                self.assertGreater(cosine(old, new), least, algorithm)
            errors_of[algorithm] = 1 - min(map(cosine, real, stored))
        worse = [n for n, (e, kept) in errors["mmse"].items() if e > errors["normal"][n][0] * (1 + 1e-9)
                 and kept != errors["normal"][n][1] and not self.shares(said, n)]
        self.assertEqual(worse, [], "mmse has a larger error than normal")
        self.assertLess(errors_of["mmse"], errors_of["normal"] * ROOM + 1e-7, "mmse's outputs are farther from the float model's")
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
    Nets.modules = ort.install()
    if not Nets.modules:
        sys.exit(77)
    unittest.main()
