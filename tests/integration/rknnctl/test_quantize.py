#!/usr/bin/python3
"""rknnctl quantize: ranges as plain numpy finds them from the values themselves, accuracy of what comes out, what it
says of wrong data sets and models, and calibrations that are ended and gone on with."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import yaml
from onnx import helper, numpy_helper
from sklearn.datasets import load_digits

from support.service import BUILD, PATIENCE, SOURCE, Daemon, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
FLOAT = SOURCE / "examples/digits/digits.onnx"
SIDE = 2048  # bins


# ---- the ways to choose a range, from docs/quantization.md ----

def histogram(values):
    """Counts of the bins [i, i + 1) * width for i from -SIDE on, and the width."""
    largest = float(np.abs(values).max())
    power = int(np.floor(np.log2(largest))) + 1 - 11
    while largest >= SIDE * 2.0**power:
        power += 1
    width = 2.0**power
    index = np.floor(values.astype(np.float64) / width).astype(int) + SIDE
    return np.bincount(index, minlength=2 * SIDE).astype(np.float64), width


def form(low, high):
    scale = np.float32((high - low) / 255) if high > low else np.float32(1)
    return scale, int(np.clip(np.rint(-128 - low / np.float64(scale)), -128, 127))


def mmse(histogram_of, low, high):
    counts, width = histogram_of
    used = np.flatnonzero(counts)
    middles, counts = (used - SIDE + 0.5) * width, counts[used]
    factors = 1 - 0.025 * np.arange(32)
    best = None
    for f in factors if low < 0 else [1.0]:
        for g in factors if high > 0 else [1.0]:
            ends = np.float32(low * f), np.float32(high * g)
            scale, zp = form(*map(float, ends))
            stored = np.clip(np.rint(middles / np.float64(scale)) + zp, -128, 127)
            error = (((stored - zp) * np.float64(scale) - middles)**2 * counts).sum()
            if best is None or error < best[0]:
                best = error, ends
    return best[1]


def divergence(p, q):
    there = p > 0
    p, q = p / p.sum(), q / q.sum()
    return (p[there] * np.log(p[there] / q[there])).sum()


def kl(histogram_of, low, high):
    counts, width = histogram_of
    if counts.sum() < 2 * SIDE:
        return low, high
    used = np.flatnonzero(counts)
    counts = counts.copy()
    counts[SIDE] = min(counts[SIDE], max(counts[SIDE - 1], counts[SIDE + 1]))
    first, last = min(used[0], SIDE), max(used[-1] + 1, SIDE)
    most = max(SIDE - first, last - SIDE)
    best = None
    for half in [*range(128, most, 16), most]:
        begin, end = max(first, SIDE - half), min(last, SIDE + half)
        if end - begin < 256:
            continue
        plain = counts[begin:end]
        p = plain.copy()
        p[0] += counts[:begin].sum()
        p[-1] += counts[end:].sum()
        if np.count_nonzero(p) < 2:
            continue
        q = np.zeros_like(p)
        each = len(p) // 256
        for level in range(256):
            part = slice(level * each, len(p) if level == 255 else (level + 1) * each)
            filled = p[part] > 0
            if filled.any():
                q[part] = np.where(filled, plain[part].sum() / filled.sum(), 0)
        q = np.where(p > 0, np.maximum(q, 1e-4), q)
        d = divergence(p, q)
        if best is None or d < best[0] * (1 - 1e-9):  # windows that differ by empty bins are equal
            best = d, (low, high) if half == most else (max(low, -half * width), min(high, half * width))
    return best[1] if best else (low, high)


ALGORITHMS = {"normal": lambda _, low, high: (low, high), "mmse": mmse, "kl_divergence": kl}


class Case(unittest.TestCase):
    USUAL = ()  # options of each run

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-quantize-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "int8.onnx"
        self.rng = np.random.default_rng(int(os.environ.get("RKNND_SEED", "1")))

    def rknnctl(self, *words, code=0, **more):
        done = subprocess.run([RKNNCTL, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "RKNND_SERVER": self.daemon.uri}, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def quantize(self, model, samples, *options, code=0, **more):
        done = self.rknnctl("quantize", model, "--dataset", samples, "-o", self.out, *self.USUAL, *options, code=code, **more)
        self.assertEqual(sorted(p.name for p in self.folder.glob("int8.onnx?*")), [], "what is left over")
        if code:
            self.assertFalse(self.out.exists())
            return done.stderr
        return done.stdout

    def arrays(self, arrays, name="list.txt"):
        """A list of samples of one input each."""
        for i, array in enumerate(arrays):
            np.save(self.folder / f"{name}{i}.npy", array)
        (self.folder / name).write_text("".join(f"{name}{i}.npy\n" for i in range(len(arrays))))
        return self.folder / name

    def write(self, nodes, shape, constants, name="net.onnx", opset=13, **outputs):
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("x", 1, shape)],
            [helper.make_tensor_value_info(k, 1, v) for k, v in outputs.items()],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 7
        onnx.save(model, self.folder / name)
        return self.folder / name

    def weights(self, *shape):
        return self.rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)

    def run_all(self, model, samples, layout="nhwc"):
        import rknnd  # pylint: disable=import-outside-toplevel
        with rknnd.Session(model, self.daemon.uri) as session:
            return np.concatenate([session.run(s, layout=layout)[0] for s in samples])


def digits():
    """Pictures 0 to 1, NHWC, and labels: what examples/digits/train.py learns from, and what it holds out."""
    data = load_digits()
    pixels = np.rint(data.images * (255 / 16)).astype(np.float32)[..., None] / 255
    order = np.random.default_rng(8).permutation(len(pixels))
    return pixels[order], data.target[order]


class Ranges(Case):
    def test_they_are_those_of_numpy(self):
        """Values come from dumps of the float model, one for each sample."""
        pixels, _ = digits()
        samples = list(pixels[500:512][:, None])
        listed = self.arrays(samples)
        values = {"image": np.concatenate([s.ravel() for s in samples])}
        for i in range(len(samples)):
            folder = self.folder / f"dump{i}"
            self.rknnctl("dump", FLOAT, "-i", self.folder / f"list.txt{i}.npy", "-o", folder)
            for path in folder.glob("*.npy"):
                name = path.stem.split("_", 1)[1]
                values[name] = np.concatenate([values.get(name, np.zeros(0, np.float32)), np.load(path).ravel()])
        for algorithm, choose in ALGORITHMS.items():
            said = json.loads(self.quantize(FLOAT, listed, "--algorithm", algorithm, "--without", "equalization", "--without", "comparison",
                                            "--json"))
            seen = {t["name"]: t for t in said["tensors"] if t["seen"]}
            self.assertEqual(set(seen), {"image", "relu1", "relu2", "fc"})
            for name, tensor in seen.items():
                with self.subTest(algorithm=algorithm, tensor=name):
                    low, high = min(float(values[name].min()), 0), max(float(values[name].max()), 0)
                    scale, zp = form(*map(float, choose(histogram(values[name]), low, high)))
                    self.assertAlmostEqual(tensor["scale"], float(scale), delta=1e-6 * float(scale))
                    self.assertEqual(tensor["zero_point"], zp)

    def test_skewed_values_are_clipped_where_numpy_clips_them(self):
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 1, 64, 64],
                         {"w": np.ones((1, 1, 1, 1), np.float32)}, y=[1, 1, 64, 64])
        samples = [self.rng.laplace(0, 1, (1, 64, 64, 1)).astype(np.float32) for _ in range(4)]
        samples[2][0, 5, 5, 0] = 100
        every = np.concatenate([s.ravel() for s in samples])
        for algorithm, choose in ALGORITHMS.items():
            said = json.loads(self.quantize(net, self.arrays(samples), "--algorithm", algorithm, "--without", "comparison", "--json"))
            tensor, = [t for t in said["tensors"] if t["name"] == "x"]
            low, high = choose(histogram(every), float(every.min()), float(every.max()))
            with self.subTest(algorithm):
                np.testing.assert_allclose(tensor["range"], [low, high], rtol=1e-6)
                self.assertEqual(high < 99, algorithm != "normal")

    def test_of_windows_that_are_equal_it_is_the_narrowest(self):
        """They differ by empty bins, and for numpy by the order in which it adds up."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 1, 64, 64], {"w": np.ones((1, 1, 1, 1), np.float32)}, y=[1, 1, 64, 64])
        for i in range(8):
            sample = np.abs(self.rng.normal(0, 3, (1, 64, 64, 1))).astype(np.float32)
            sample[0, 0, :12, 0] = 60 + self.rng.uniform(0, 3, 12)
            low, high = kl(histogram(sample.ravel()), 0.0, float(sample.max()))
            said = json.loads(self.quantize(net, self.arrays([sample]), "--algorithm", "kl_divergence", "--json"))
            with self.subTest(i):
                np.testing.assert_allclose(next(t for t in said["tensors"] if t["name"] == "x")["range"], [low, high], rtol=1e-6)

    def test_clients_and_order_do_not_matter(self):
        samples = [self.rng.normal(0, 1 + i, (1, 8, 8, 1)).astype(np.float32) for i in range(9)]
        first = json.loads(self.quantize(FLOAT, self.arrays(samples), "--clients", 1, "--json"))
        second = json.loads(self.quantize(FLOAT, self.arrays(samples[::-1], "other.txt"), "--clients", 5, "--json"))
        self.assertEqual(first["tensors"], second["tensors"])


class Results(Case):
    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_digits_are_as_good_as_in_floats(self):
        pixels, labels = digits()
        held = list(pixels[:500][:, None])
        wanted = (self.run_all(FLOAT, held).argmax(1) == labels[:500]).mean()
        for options in ((), ("--method", "layer"), ("--algorithm", "mmse"), ("--symmetric",)):
            self.quantize(FLOAT, self.arrays(list(pixels[500:600][:, None])), *options)
            got = (self.run_all(self.out, held).argmax(1) == labels[:500]).mean()
            with self.subTest(options):
                self.assertGreaterEqual(got, wanted - 0.002)

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_the_normalization_is_in_the_model(self):
        pixels, _ = digits()
        raw = [np.rint(p * 255).astype(np.uint8)[None] for p in pixels[:40]]
        self.quantize(FLOAT, self.arrays(raw), "--mean", "0", "--std", "255")
        np.testing.assert_allclose(self.run_all(self.out, raw), self.run_all(FLOAT, [r.astype(np.float32) / 255 for r in raw]),
                                   atol=0.05)

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def test_every_pass_leaves_what_the_float_model_computes(self):
        shape = [1, 3, 16, 16]
        gamma = self.rng.uniform(0.5, 2, 8).astype(np.float32)
        constants = {"w1": self.weights(8, 3, 3, 3), "b1": self.weights(8), "g": gamma, "be": self.weights(8),
                     "m": self.weights(8), "v": gamma, "w2": self.weights(8, 1, 3, 3), "w3": self.weights(6, 8, 1, 1),
                     "w4": self.weights(10, 6 * 64), "b4": self.weights(10)}
        constants["w1"][3] *= 50  # for the equalization
        node = helper.make_node
        nodes = [node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4), node("BatchNormalization", ["c1", "g", "be", "m", "v"], ["n"]),
                 node("Relu", ["n"], ["r"]), node("Conv", ["r", "w2"], ["c2"], pads=[1] * 4, group=8), node("Relu", ["c2"], ["r2"]),
                 node("Conv", ["r2", "w3"], ["c3"]), node("MaxPool", ["c3"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "w4", "b4"], ["y"], transB=1)]
        samples = [self.rng.normal(0, 1, (1, 16, 16, 3)).astype(np.float32) for _ in range(8)]
        for opset in (9, 13):
            net = self.write(nodes, shape, constants, opset=opset, y=[1, 10])
            real = self.run_all(net, samples)
            for left_out in ((), ("batchnorm",), ("activations",), ("equalization",), ("bias-correction",),
                             ("batchnorm", "activations", "equalization", "bias-correction")):
                said = json.loads(self.quantize(net, self.arrays(samples), "--json",
                                                *[w for p in left_out for w in ("--without", p)]))
                self.assertEqual(said["folded"], int("batchnorm" not in left_out))
                got = self.run_all(self.out, samples)
                with self.subTest(opset=opset, without=left_out):
                    self.assertGreater((got * real).sum() / np.linalg.norm(got) / np.linalg.norm(real), 0.995)

    @unittest.skipIf(os.environ.get("RKNND_SANITIZE"), "the Python package cannot load a sanitized library")
    def unlike_channels(self):
        """Channels a thousand times as large as others: one scale for all of them is none for the small ones."""
        factors = np.logspace(-1.5, 1.5, 8).astype(np.float32)
        constants = {"w1": self.weights(8, 3, 3, 3) * factors[:, None, None, None], "b1": self.weights(8) * factors,
                     "w2": self.weights(8, 1, 3, 3), "w3": self.weights(6, 8, 1, 1) / factors[:, None, None]}
        node = helper.make_node
        net = self.write([node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4), node("Relu", ["c1"], ["r1"]),
                          node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, group=8), node("Relu", ["c2"], ["r2"]),
                          node("Conv", ["r2", "w3"], ["y"])], [1, 3, 16, 16], constants, y=[1, 6, 16, 16])
        return net, [self.rng.normal(0, 1, (1, 16, 16, 3)).astype(np.float32) for _ in range(8)]

    def test_equalization_saves_small_channels(self):
        net, samples = self.unlike_channels()
        real = self.run_all(net, samples)
        for method in ("layer", "channel"):
            off = {}
            for without in ("batchnorm", "equalization"):
                said = json.loads(self.quantize(net, self.arrays(samples), "--method", method, "--without", without, "--json"))
                self.assertEqual(said["equalized"], 2 if without == "batchnorm" else 0)
                off[without] = np.linalg.norm(self.run_all(self.out, samples) - real) / np.linalg.norm(real)
            with self.subTest(method):
                self.assertLess(off["batchnorm"], 0.05)
                self.assertGreater(off["equalization"], 4 * off["batchnorm"])

    def test_tensors_with_factors_have_names_of_their_own(self):
        """And the float model's name is still good for a choice. What is written beside has them, too."""
        net, samples = self.unlike_channels()
        listed, beside = self.arrays(samples), self.folder / "float.onnx"
        said = json.loads(self.quantize(net, listed, "--write-float", beside, "--json"))
        self.assertEqual({t["name"] for t in said["tensors"]}, {"x", "r1_equalized", "r2_equalized", "y"})
        self.assertEqual([o for n in onnx.load(beside).graph.node for o in n.output],
                         ["c1_equalized", "r1_equalized", "c2_equalized", "r2_equalized", "y"])
        np.testing.assert_allclose(self.run_all(beside, samples), self.run_all(net, samples), rtol=1e-4, atol=1e-5)
        np.save(self.folder / "one.npy", samples[0])
        for golden, compared in ((net, {"y"}), (beside, {"r1_equalized", "r2_equalized", "y"})):
            done = json.loads(self.rknnctl("accuracy", self.out, "--golden", golden, "-i", self.folder / "one.npy", "--json").stdout)
            near = {row["name"]: row["entire"]["cosine"] > 0.99 for row in done["layers"] if row["entire"]}
            self.assertEqual({name for name in near if name in {"c1", "r1", "c2", "r2"} or "equalized" in name or name == "y"} - compared,
                             set(), near)
            self.assertLessEqual(compared, set(near))
            self.assertTrue(all(near.values()), near)
        said = json.loads(self.quantize(net, listed, "--keep-float", "r2", "--json"))
        self.assertIn("c2_equalized", [n["output"] for n in said["float"]])

    def test_channels_that_are_nearly_alike_are_left_alone(self):
        net, samples = self.unlike_channels()
        model = onnx.load(net)
        for t in model.graph.initializer:
            values = numpy_helper.to_array(t)
            if t.name != "b1":
                t.CopyFrom(numpy_helper.from_array(np.sign(values) * np.float32(0.1), t.name))
        onnx.save(model, net)
        said = json.loads(self.quantize(net, self.arrays(samples), "--json"))
        self.assertEqual((said["equalized"], {t["name"] for t in said["tensors"]}), (0, {"x", "r1", "r2", "y"}))

    def test_a_node_that_is_to_stay_float_does(self):
        pixels, _ = digits()
        said = json.loads(self.quantize(FLOAT, self.arrays(list(pixels[:4][:, None])), "--keep-float", "conv2", "--json"))
        self.assertIn({"name": "conv2", "op": "Conv", "output": "conv2", "reason": "it was asked for"}, said["float"])
        nodes = {n.name: n for n in onnx.load(self.out).graph.node}
        self.assertIn("w1", nodes["conv2"].input)
        self.assertNotIn("w0", nodes["conv1"].input)
        self.assertIn('"conv7"', self.fresh_failure(FLOAT, "--keep-float", "conv7", code=2))

    def fresh_failure(self, model, *options, code):
        self.out.unlink(missing_ok=True)
        return self.quantize(model, self.folder / "list.txt", *options, code=code)

    def test_what_is_not_understood_stays(self):
        model = onnx.load(FLOAT)
        model.metadata_props.add(key="custom", value="kept")
        model.graph.doc_string = "words"
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        onnx.save(model, self.folder / "other.onnx")
        self.quantize(self.folder / "other.onnx", self.arrays([np.ones((1, 8, 8, 1), np.float32)]), "--shape", "image=1x1x8x8")
        made = onnx.load(self.out)
        onnx.checker.check_model(made, full_check=True)
        self.assertEqual([(p.key, p.value) for p in made.metadata_props], [("custom", "kept")])
        self.assertEqual(made.graph.doc_string, "words")
        self.assertEqual(made.graph.input[0], model.graph.input[0])
        self.assertEqual(list(made.graph.output), list(model.graph.output))

    def test_weights_that_are_inputs(self):
        """Before version 4 of the format every weight was an input, too; those that are put in are none."""
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 3, 8, 8], {"w": self.weights(4, 3, 3, 3)}, y=[1, 4, 6, 6])
        model = onnx.load(net)
        model.ir_version = 3
        model.graph.input.append(helper.make_tensor_value_info("w", 1, [4, 3, 3, 3]))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, net)
        listed = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 3)).astype(np.float32)])
        self.quantize(net, listed, "--mean", "1,2,3", "--write-float", self.folder / "float.onnx")
        for path in (self.out, self.folder / "float.onnx"):
            onnx.checker.check_model(onnx.load(path), full_check=True)
        self.assertEqual([i.name for i in onnx.load(self.out).graph.input], ["x"])

    def test_weights_in_other_files(self):
        model = onnx.load(FLOAT)
        (self.folder / "m").mkdir()
        onnx.save(model, str(self.folder / "m/m.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
        (self.folder / "m").chmod(0o555)
        self.addCleanup((self.folder / "m").chmod, 0o755)
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        said = self.quantize(self.folder / "m/m.onnx", listed, "--write-float", self.folder / "f.onnx")
        self.assertIn(" in 8 bits", said)
        apart = self.out.read_bytes()
        self.assertEqual(sorted(os.listdir(self.folder / "m")), ["m.onnx", "weights.bin"])
        self.quantize(FLOAT, listed, "--write-float", self.folder / "f2.onnx")
        self.assert_same_constants(self.out, apart)
        self.assert_same_constants(self.folder / "f.onnx", (self.folder / "f2.onnx").read_bytes())

    def assert_same_constants(self, path, other):
        values = [{t.name: numpy_helper.to_array(t).tolist() for t in made.graph.initializer}
                  for made in (onnx.load(str(path)), onnx.load_from_string(other))]
        self.assertTrue(values[0])
        self.assertEqual(*values)

    def test_nodes_in_another_order(self):
        """As converters to float16 leave them: what they add comes last. ONNX Runtime takes such files, too."""
        model = onnx.load(FLOAT)
        nodes = list(model.graph.node)
        listed = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 1)).astype(np.float32)])
        self.quantize(FLOAT, listed)
        plain = self.out.read_bytes()
        del model.graph.node[:]
        model.graph.node.extend(nodes[::-1])
        onnx.save(model, str(self.folder / "turned.onnx"))
        self.quantize(self.folder / "turned.onnx", listed)
        onnx.checker.check_model(onnx.load(self.out), full_check=True)
        self.assert_same_constants(self.out, plain)
        for made in (FLOAT, self.folder / "turned.onnx"):
            self.rknnctl("run", made, "-i", self.folder / "list.txt0.npy", "-o", self.folder / pathlib.Path(made).stem)
        np.testing.assert_array_equal(*(np.load(self.folder / pathlib.Path(made).stem / "out0.npy") for made in (FLOAT, "turned.onnx")))

    def test_what_lies_in_bodies_alone(self):
        product = helper.make_node("MatMul", ["x", "w"], ["y"])
        body = helper.make_graph([product], "body", [], [helper.make_tensor_value_info("y", 1, [1, 4])],
                                 [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
        node = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("c", 9, [1]), helper.make_tensor_value_info("x", 1, [1, 4])],
                                  [helper.make_tensor_value_info("z", 1, [1, 4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(self.folder / "if.onnx"))
        listed = self.arrays([np.ones((1, 4), np.float32)])
        self.assertRegex(self.quantize(self.folder / "if.onnx", listed, code=4), "no Conv, Gemm or MatMul outside of the graphs")

    def external(self, place):
        """A model whose first weight lies in another file."""
        model = onnx.load(FLOAT)
        weight = next(t for t in model.graph.initializer if len(t.dims) == 4)
        kept = numpy_helper.to_array(weight).tobytes()
        onnx.external_data_helper.set_external_data(weight, **place)
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        (self.folder / "m").mkdir(exist_ok=True)
        (self.folder / "m/m.onnx").write_bytes(model.SerializeToString())
        return self.folder / "m/m.onnx", kept

    def test_where_weights_of_other_files_may_lie(self):
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.quantize(FLOAT, listed)
        plain = self.out.read_bytes()
        net, kept = self.external({"location": "in/side.bin", "offset": 3, "length": 0})
        place = {"location": "in/side.bin", "offset": 3, "length": len(kept)}
        net, _ = self.external(place)
        (net.parent / "in").mkdir()
        (net.parent / "in/side.bin").write_bytes(b"odd" + kept)  # so no float is where processors want it
        self.quantize(net, listed)
        self.assert_same_constants(self.out, plain)
        self.out.unlink()
        (self.folder / "outside.bin").write_bytes(b"odd" + kept)
        (net.parent / "link.bin").symlink_to(self.folder / "outside.bin")
        (net.parent / "linked").symlink_to(self.folder)
        os.mkfifo(net.parent / "pipe")
        for location, words in (("../outside.bin", "not in the model's folder"), ("in/../../outside.bin", "not in the model's folder"),
                                (str(self.folder / "outside.bin"), "not in the model's folder"), ("", "not in the model's folder"),
                                ("link.bin", "symbolic link"), ("linked/outside.bin", "Not a directory"),
                                ("in", "is no file"), ("pipe", "is no file"), ("none.bin", "none.bin: No such file"),
                                ("in/side.bin/x", "Not a directory")):
            with self.subTest(location):
                net, _ = self.external({**place, "location": location})
                self.assertRegex(self.quantize(net, listed, code=4), words)
        for wrong, words in (({"offset": len(kept)}, "ends before its elements"), ({"length": len(kept) * 2}, "ends before"),
                             ({"offset": 1 << 63}, "ends before"), ({"length": 4}, "its elements are not"),
                             ({"offset": -1}, "makes no sense")):
            with self.subTest(wrong):
                net, _ = self.external({**place, **wrong})
                self.assertIn(words, self.quantize(net, listed, code=4))

    def test_weights_go_to_another_file(self):
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.quantize(FLOAT, listed)
        plain = self.out.read_bytes()
        (self.folder / "two").mkdir()
        two, data = self.folder / "two/net.onnx", self.folder / "two/net.onnx.data"

        def write(output, code=0, **more):
            return self.rknnctl("quantize", FLOAT, "--dataset", listed, "-o", output, "--external-data", code=code, **more).stderr

        write(two)
        write(two)  # in place of those that are there
        self.assertEqual(sorted(os.listdir(two.parent)), ["net.onnx", "net.onnx.data"])
        onnx.checker.check_model(str(two), full_check=True)
        self.assert_same_constants(two, plain)
        weights = [t for t in onnx.load(two, load_external_data=False).graph.initializer if t.data_location]
        self.assertTrue(weights)
        self.assertLess(two.stat().st_size, len(plain) - sum(np.prod(t.dims) for t in weights) / 2)
        np.save(self.folder / "sample.npy", self.rng.normal(0, 1, (1, 8, 8, 1)).astype(np.float32))
        for model in two, self.out:
            self.rknnctl("run", model, "-i", self.folder / "sample.npy", "-o", self.folder / model.stem)
        np.testing.assert_array_equal(*(np.load(self.folder / model.stem / "out0.npy") for model in (two, self.out)))
        before = two.read_bytes()
        data.unlink()
        data.mkdir()
        self.assertIn("net.onnx.data: Is a directory", write(two, 1))
        self.assertEqual((two.read_bytes(), os.listdir(data)), (before, []))
        data.rmdir()
        self.assertIn("File too large", write(two, 1, preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))))
        self.assertEqual((two.read_bytes(), os.listdir(two.parent)), (before, ["net.onnx"]))
        (self.folder / "link.onnx").symlink_to(two)
        for output in ("/dev/stdout", self.folder / "link.onnx"):
            self.assertIn("no link and no device", write(output, 1))


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def in_channels(array, axis):
    """Of a scale or zero point: so that it goes with the axis of a four-dimensional tensor."""
    return array.reshape([-1 if k == axis else 1 for k in range(4)]) if array.ndim else array


def compute(model, x, wanted="y"):
    """What a chain of Conv (stride 1), Relu, MaxPool (2x2), QuantizeLinear and DequantizeLinear gives out, by plain numpy in
    doubles. `x`: planes."""
    values = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer} | {"x": x.astype(np.float64)}
    for n in model.graph.node:
        ins, more = [values[name] for name in n.input], attributes(n)
        if n.op_type == "QuantizeLinear":
            out = np.clip(np.rint(ins[0] / ins[1]) + ins[2], -128, 127)
        elif n.op_type == "DequantizeLinear":
            scale, zp = [in_channels(a, more.get("axis", 1)) if ins[0].ndim > 1 else a for a in (*ins[1:], np.zeros(()))][:2]
            out = (ins[0] - zp) * scale
        elif n.op_type == "Conv":
            pad = more.get("pads", [0] * 4)
            windows = np.lib.stride_tricks.sliding_window_view(
                np.pad(ins[0], ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3]))), ins[1].shape[2:], (2, 3))
            out = np.einsum("nchwij,ocij->nohw", windows, ins[1]) + (in_channels(ins[2], 1) if len(ins) > 2 else 0)
        elif n.op_type == "MaxPool":
            a = ins[0]
            out = a.reshape(*a.shape[:2], a.shape[2] // 2, 2, a.shape[3] // 2, 2).max((3, 5))
        else:
            assert n.op_type == "Relu", n.op_type
            out = np.maximum(ins[0], 0)
        values[n.output[0]] = out
    return values[wanted]


def rewritten(path, *changes):
    """The file with texts in it replaced, each of which is there."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)


class Hybrid(Case):
    """Layers in floats. What a model computes is said by plain numpy (compute())."""

    BAD = "bad_out"
    USUAL = ("--without", "equalization")  # which would cure these nets

    def net(self, name="net.onnx"):
        """Six layers, of which the fourth has weights that 8 bits cannot hold: in each row one is 1000 times as large as the
        others, and its input is always nearly 0."""
        dead = 5
        constants = {f"w{i}": self.weights(16, 16, 1, 1) for i in range(6)}
        constants |= {f"b{i}": self.weights(16) * np.float32(0.1) for i in range(6)} | {"w0": self.weights(16, 3, 3, 3)}
        constants["w2"][dead] *= 1e-6
        constants["b2"][dead] = 1e-6
        constants["w3"][:, dead] = 1000 * np.abs(constants["w3"]).max()
        names = ["x", "r0", "r1", "r2", self.BAD, "r4", "y"]
        nodes = []
        for i in range(6):
            pads = {"pads": [1] * 4} if i == 0 else {}
            out = names[i + 1] if i == 5 else f"c{i}"
            nodes.append(helper.make_node("Conv", [names[i], f"w{i}", f"b{i}"], [out], name=f"layer{i}", **pads))
            if i < 5:
                nodes.append(helper.make_node("Relu", [f"c{i}"], [names[i + 1]], name=f"relu{i}"))
        return self.write(nodes, [1, 3, 8, 8], constants, name, y=[1, 16, 8, 8])

    def samples(self, n=12):
        return [self.rng.normal(0, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(n)]

    def cosine(self, net, samples):
        """The least one of a sample."""
        models = [onnx.load(path) for path in (self.out, net)]
        least = 1
        for sample in samples:
            a, b = (compute(m, sample.transpose(0, 3, 1, 2)).ravel() for m in models)
            least = min(least, a @ b / np.sqrt((a @ a) * (b @ b)))
        return least

    def products_in_floats(self):
        model = onnx.load(self.out)
        constants = {t.name for t in model.graph.initializer}
        return [n.name for n in model.graph.node if n.op_type == "Conv" and n.input[1] in constants]

    def test_the_bad_layer_alone_stays_float(self):
        net, samples = self.net(), self.samples(8)  # all of which are tried
        listed = self.arrays(samples)
        self.quantize(net, listed)
        without = self.cosine(net, samples)
        self.assertLess(without, 0.99)
        said = json.loads(self.quantize(net, listed, "--auto-hybrid", "--goal", "cos=0.999", "--json"))
        self.assertEqual(self.products_in_floats(), ["layer3"])
        self.assertEqual(said["hybrid"]["floats"], ["c3"])
        self.assertGreaterEqual(self.cosine(net, samples), 0.999)
        self.assertAlmostEqual(said["hybrid"]["cosine_without"], without, delta=0.02)
        noise = {n["name"]: n["noise"] for n in said["hybrid"]["nodes"]}
        self.assertEqual(max(noise, key=noise.get), "layer3")
        self.assertEqual(set(noise), {f"layer{i}" for i in range(6)})

    def test_noise_is_what_numpy_measures(self):
        net, samples = self.net(), self.samples(4)
        said = json.loads(self.quantize(net, self.arrays(samples), "--auto-hybrid", "--goal", "cos=0.5", "--json"))
        scales = {t["name"]: (t["scale"], t["zero_point"]) for t in said["tensors"]}
        model = onnx.load(net)
        values = [[compute(model, s.transpose(0, 3, 1, 2), name) for name in ("r0", "r1")] for s in samples]
        noise = 0
        for k, name in enumerate(("r0", "r1")):
            counts, width = histogram(np.concatenate([one[k].ravel() for one in values]))
            middles, (scale, zp) = (np.arange(2 * SIDE) - SIDE + 0.5) * width, scales[name]
            stored = (np.clip(np.rint(middles / scale) + zp, -128, 127) - zp) * scale
            within = np.cumsum(counts[SIDE:] + counts[:SIDE][::-1])
            usual = middles[SIDE + np.searchsorted(within, 0.9 * counts.sum())]
            noise += (((stored - middles)**2 * counts).sum() / counts.sum()) / usual**2
        w = numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == "w1")).reshape(16, -1).astype(np.float64)
        step = np.abs(w).max(1, keepdims=True) / 127
        noise += (((np.rint(w / step) * step - w)**2).mean(1) / np.sort(np.abs(w), 1)[:, 8]**2).mean()
        got = next(n["noise"] for n in said["hybrid"]["nodes"] if n["name"] == "layer1")
        self.assertAlmostEqual(got, noise, delta=1e-3 * noise)

    def test_values_far_out_take_both_sides_in_floats(self):
        """A tensor is int8 as long as a layer that makes or reads it is."""
        constants = {f"w{i}": self.weights(16, 16, 1, 1) for i in range(4)}
        constants["w1"][3] *= 3000
        constants["w2"][:, 3] /= 3000
        names = ["x", "t0", "t1", "t2", "y"]
        net = self.write([helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], name=f"layer{i}") for i in range(4)],
                         [1, 16, 8, 8], constants, y=[1, 16, 8, 8])
        samples = [self.rng.normal(0, 1, (1, 8, 8, 16)).astype(np.float32) for _ in range(6)]
        self.quantize(net, self.arrays(samples), "--auto-hybrid", "--goal", "cos=0.999")
        self.assertEqual(self.products_in_floats(), ["layer1", "layer2"])
        self.assertGreaterEqual(self.cosine(net, samples), 0.999)

    def test_tries_side_by_side_choose_what_one_after_the_other_does(self):
        """Of a model whose shape is open: each try's thread loads it with the shape that was given."""
        constants = {f"w{i}": self.weights(12, 12, 3, 3) for i in range(8)}
        for i in (2, 5, 6):
            constants[f"w{i}"][i] *= 300
        net = self.write([helper.make_node("Conv", [f"t{i}" if i else "x", f"w{i}"], [f"t{i + 1}" if i < 7 else "y"], pads=[1] * 4) for i in range(8)],
                         ["n", 12, 8, "w"], constants, y=["n", 12, 8, "w"])
        listed = self.arrays([self.rng.normal(0, 1, (1, 8, 8, 12)).astype(np.float32) for _ in range(6)])
        said = {n: json.loads(self.quantize(net, listed, "--auto-hybrid", "--goal", "cos=0.9995", "--clients", n, "-x", "x=1x12x8x8", "--json"))
                for n in (1, 2, 5)}
        self.assertGreater(len(said[1]["hybrid"]["floats"]), 1)
        for n in (2, 5):
            for key in ("floats", "nodes", "cosine", "cosine_without"):
                self.assertEqual(said[n]["hybrid"][key], said[1]["hybrid"][key], (n, key))
            self.assertEqual(said[n]["tensors"], said[1]["tensors"])

    def test_a_goal_that_is_reached_takes_nothing(self):
        net, samples = self.net(), self.samples(4)
        self.quantize(net, self.arrays(samples))
        plain = self.out.read_bytes()
        said = json.loads(self.quantize(net, self.arrays(samples), "--auto-hybrid", "--goal", "cos=0.1", "--json"))
        self.assertEqual((said["hybrid"]["floats"], said["hybrid"]["tries"]), ([], 1))
        self.assertEqual(self.out.read_bytes(), plain)

    def test_a_goal_out_of_reach(self):
        self.out.unlink(missing_ok=True)
        words = self.quantize(self.net(), self.arrays(self.samples(2)), "--auto-hybrid", "--goal", "cos=1", code=1)
        self.assertRegex(words, r"the goal of 1 is not reached: .* with all nodes but one product in floats")

    def step1(self, net, listed, *options, code=0):
        return self.rknnctl("quantize", net, "--dataset", listed, "--hybrid-step1", self.folder / "net.cfg", *self.USUAL, *options, code=code)

    def step2(self, net, listed, *options, code=0):
        self.out.unlink(missing_ok=True)
        return self.quantize(net, listed, "--hybrid-step2", self.folder / "net.cfg", *options, code=code)

    def test_both_steps_make_what_one_makes(self):
        net = self.net()
        listed = self.arrays(self.samples())
        for options in ((), ("--algorithm", "mmse"), ("--symmetric",), ("--method", "layer")):
            with self.subTest(options):
                self.quantize(net, listed, "--auto-hybrid", *options)
                at_once = self.out.read_bytes()
                self.step1(net, listed, *options)
                said = json.loads(self.step2(net, listed, *options, "--json"))
                self.assertEqual(said["resumed"], said["samples"], "nothing is run again")
                self.assertEqual(self.out.read_bytes(), at_once)
                (self.folder / "net.cfg.calibration").unlink()

    def test_the_table_is_yaml_that_says_what_is_in_the_model(self):
        net = self.net()
        listed = self.arrays(self.samples())
        self.step1(net, listed)
        said = json.loads(self.quantize(net, listed, "--json"))
        table = yaml.safe_load((self.folder / "net.cfg").read_text())
        self.assertEqual(set(table), {"custom_quantize_layers", "quantize_parameters"})
        self.assertEqual(table["custom_quantize_layers"], {"c3": "float16"})
        self.assertEqual(set(table["quantize_parameters"]), {t["name"] for t in said["tensors"]})
        for tensor in said["tensors"]:
            one = table["quantize_parameters"][tensor["name"]]
            self.assertEqual((one["qtype"], one["qmethod"], one["dtype"]), ("asymmetric_quantized", "layer", "int8"))
            np.testing.assert_allclose([one["min"][0], one["max"][0], one["scale"][0]], [*tensor["range"], tensor["scale"]], rtol=1e-7)
            self.assertEqual(one["zero_point"], [tensor["zero_point"]])

    def test_what_is_edited_is_taken(self):
        net = self.net()
        listed = self.arrays(self.samples())
        self.step1(net, listed)
        cfg = self.folder / "net.cfg"
        # Layers by the tensor that is stored, as the table has it, and by a node's name.
        rewritten(cfg, ("    c3: float16\n", "    # ours:\n    r1: float16\r\n\n    layer4: float16\n"))
        self.step2(net, listed)
        self.assertEqual(self.products_in_floats(), ["layer1", "layer4"])
        old = yaml.safe_load(cfg.read_text())["quantize_parameters"]["r0"]["max"][0]
        text = cfg.read_text()
        begin = text.index("    r0:\n")
        at = text.index("max:\n        - ", begin) + len("max:\n        - ")
        cfg.write_text(text[:at] + "2.55" + text[text.index("\n", at):])
        self.assertNotEqual(old, 2.55)
        said = json.loads(self.step2(net, listed, "--json"))
        tensor, = [t for t in said["tensors"] if t["name"] == "r0"]
        np.testing.assert_allclose(tensor["range"] + [tensor["scale"]], [0, 2.55, 0.01], rtol=1e-6)
        constants = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}
        self.assertAlmostEqual(float(constants["r0_scale"]), 0.01, places=7)

    def test_a_layer_behind_a_move(self):
        """Tensors that a move joined have scales of their own when it is float."""
        constants = {"w0": self.weights(8, 3, 3, 3), "w1": self.weights(8, 8, 1, 1)}
        node = helper.make_node
        net = self.write([node("Conv", ["x", "w0"], ["c0"], name="layer0"),
                          node("MaxPool", ["c0"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
                          node("Conv", ["p", "w1"], ["y"], name="layer1")], [1, 3, 10, 10], constants, y=[1, 8, 4, 4])
        samples = [self.rng.normal(0, 1, (1, 10, 10, 3)).astype(np.float32) for _ in range(4)]
        listed = self.arrays(samples)
        self.step1(net, listed, "--goal", "cos=0.9")
        rewritten(self.folder / "net.cfg", ("custom_quantize_layers:\n", "custom_quantize_layers:\n    p: float16\n"))
        said = json.loads(self.step2(net, listed, "--json"))
        self.assertIn("pool", [n["name"] for n in said["float"]])
        self.assertGreater(self.cosine(net, samples), 0.999)

    def test_tables_that_are_refused(self):
        net = self.net()
        listed = self.arrays(self.samples(4))
        self.step1(net, listed)
        cfg = self.folder / "net.cfg"
        good = cfg.read_text()
        line = {text: i for i, text in reversed(list(enumerate(good.splitlines(), 1)))}
        for old, new, where, words in (
                ("    c3: float16", "    c3: int4", 2, "can only be float16, int16 or int8"),
                ("    c3: float16", "    c9: float16", 2, "no layer \"c9\""),
                ("    c3: float16", "    x: float16", 2, "no layer \"x\""),
                ("    c3: float16", "    c3: float16\n    c3: float16", 3, "twice"),
                ("        qmethod: layer", "       qmethod: layer", line["    x:"] + 2, "blanks"),
                ("    c3: float16", "    c3: float16\n     c4: float16", 3, "blanks"),
                ("    c3: float16", "    'c3: float16", 2, "damaged quotes"),
                ("custom_quantize_layers:", "customized_quantize_layers:", 1, "RKNN-Toolkit 1"),
                ("    c3: float16", "\tc3: float16", 2, "tabs"),
                ("    c3: float16", "    c3", 2, "a colon"),
                ("    r1:", "    r7:", line["    r1:"], "r7 is none that"),
                ("    r1:", "    r0:", line["    r1:"], "r0 is there twice"),
                ("    r1:", "    r1: 3", line["    r1:"], "nothing is expected"),
                ("    c3: float16", "    c3:float16", 2, "a colon"),
                ("    c3: float16", "    c3: 'float16", 2, "can only be float16"),
                ("min:\n        - ", "min: [", line["    x:"] + 4, "on the next line"),
                ("min:\n        - ", "min: [] # ", line["    x:"] + 4, "a number"),
                ("min:\n        - ", "min: [1, 2] # ", line["    x:"] + 4, "a number"),
                ("min:\n        - ", "min: ", line["    x:"] + 4, "on the next line"),
                ("qtype: asymmetric_quantized", "qtype: symmetric_quantized", line["    x:"], "by the options"),
                ("qtype: asymmetric_quantized", "qtype: dynamic", line["    x:"] + 1, "qtype can only be"),
                ("qmethod: layer", "qmethod: channel", line["    x:"] + 2, "qmethod can only be"),
                ("dtype: int8", "dtype: int4", line["    x:"] + 3, "dtype can only be int8 or int16"),
                ("dtype: int8", "dtype: int16", line["    x:"], "LAYER: int16"),
                ("dtype: int8", "dtype: int8\n        dtype: int8", line["    x:"] + 4, "twice"),
                ("dtype: int8", "dtype: int8\n        axis: 1", line["    x:"] + 4, "no property"),
                ("        dtype: int8\n", "", line["    x:"], "has no dtype"),
                ("min:\n        - -", "min:\n        - ", line["    x:"], "0 must be in it|follow from"),
                ("min:\n        - ", "min:\n        - nan", line["    x:"] + 5, "a number"),
                ("min:\n        - ", "min:\n        - 1e99", line["    x:"] + 5, "a number"),
                ("scale:\n        - 0", "scale:\n        - 9", line["    x:"], "follow from min and max"),
                ("quantize_parameters:", "quantize_parameter:", line["quantize_parameters:"], "not known")):
            with self.subTest(new):
                cfg.write_text(good)
                rewritten(cfg, (old, new))
                self.assertRegex(self.step2(net, listed, code=2), rf"net.cfg: line {where}: .*({words})")
        for text, words in (("", "it ends without \"custom_quantize_layers:\""), (good[:good.index("    r2:")], "r2 is missing"),
                            (good[:-4], "line"), (good[:good.index("quantize_param")], "without \"quantize_parameters:\"")):
            cfg.write_text(text)
            self.assertIn(words, self.step2(net, listed, code=2))
        cfg.unlink()
        self.assertIn("No such file", self.step2(net, listed, code=2))
        os.mkfifo(cfg)
        self.assertIn("no file", self.step2(net, listed, code=2))

    def test_tables_as_editors_and_programs_write_them(self):
        """They say the same, so the same model comes out."""
        net = self.net()
        listed = self.arrays(self.samples(4))
        self.step1(net, listed)
        cfg = self.folder / "net.cfg"
        good = cfg.read_text()
        self.step2(net, listed)
        wanted = self.out.read_bytes()
        for text in (b"\xef\xbb\xbf" + good.replace("\n", "\r\n").encode(), ("%YAML 1.2\n---\n# by hand\n" + good).encode(),
                     good.replace("c3: float16", "'c3': float16   # the worst").encode(), good.replace("    c3: ", "  c3 :     ").encode(),
                     re.sub(r":\n +- (\S+)", r":   [ \1 ]", good).encode(), re.sub(r"(qtype|dtype|c3): (\S+)", r"\1 : '\2'", good).encode(),
                     good.replace("        - ", "        -   ").encode(), yaml.dump(yaml.safe_load(good)).encode(),
                     yaml.dump(yaml.safe_load(good), sort_keys=False, indent=8, default_style=None).encode()):
            with self.subTest(text[:40]):
                cfg.write_bytes(text)
                self.step2(net, listed)
                self.assertEqual(self.out.read_bytes(), wanted)
        cfg.write_text(good.replace("    c3: float16\n", ""))
        self.step2(net, listed)
        none = self.out.read_bytes()
        self.assertNotEqual(none, wanted)
        cfg.write_text(yaml.dump(yaml.safe_load(good) | {"custom_quantize_layers": {}}))
        self.step2(net, listed)
        self.assertEqual(self.out.read_bytes(), none)

    def test_options_that_do_not_fit_together(self):
        net, listed = self.net(), self.arrays(self.samples(1))
        for words, options in (("exclude each other", ("--auto-hybrid", "--hybrid-step2", "f.cfg")),
                               ("--goal is for", ("--goal", "cos=0.9")), ("writes no model", ("--hybrid-step1", "f.cfg")),
                               ("cos=0.999", ("--auto-hybrid", "--goal", "0.9")), ("cos=0.999", ("--auto-hybrid", "--goal", "cos=")),
                               ("cos=0.999", ("--auto-hybrid", "--goal", "cos=1.1")), ("cos=0.999", ("--auto-hybrid", "--goal", "cos=nan"))):
            with self.subTest(options):
                self.assertIn(words, self.quantize(net, listed, *options, code=2))

    def test_names_that_yaml_would_read_otherwise(self):
        names = ["Conv__350:0", "a: b", "- x", "#1", "\"q\"", "back\\slash", "{y}"]
        constants = {f"w{i}": self.weights(4, 4, 1, 1) for i in range(len(names))}
        chain = ["x", *names]
        net = self.write([helper.make_node("Conv", [chain[i], f"w{i}"], [chain[i + 1]]) for i in range(len(names))],
                         [1, 4, 4, 4], constants, **{names[-1]: [1, 4, 4, 4]})
        listed = self.arrays([self.rng.normal(0, 1, (1, 4, 4, 4)).astype(np.float32)])
        self.step1(net, listed, "--goal", "cos=0.5")
        table = yaml.safe_load((self.folder / "net.cfg").read_text())
        self.assertEqual(set(table["quantize_parameters"]), set(chain))
        self.quantize(net, listed)
        plain = self.out.read_bytes()
        self.step2(net, listed)
        self.assertEqual(self.out.read_bytes(), plain)


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


if __name__ == "__main__":
    unittest.main()
