#!/usr/bin/python3
"""rknnctl quantize: ranges as plain numpy finds them from the values themselves, and accuracy of what comes out. Other tests of it, which
share Case, are in quantize/."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper
from sklearn.datasets import load_digits

from support.service import BUILD, PATIENCE, SOURCE, Daemon

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


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def in_channels(array, axis):
    """Of a scale or zero point: so that it goes with the axis of a four-dimensional tensor."""
    return array.reshape([-1 if k == axis else 1 for k in range(4)]) if array.ndim else array


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

    def test_equal_weights_that_are_stored_once(self):
        """As exporters store them. Each is changed by itself: by its equalization, by its batch normalization."""
        factors = np.logspace(-1.5, 1.5, 8).astype(np.float32)
        constants = {"w1": self.weights(8, 8, 3, 3) * factors[:, None, None, None], "v": self.weights(8, 8, 3, 3) / factors[:, None, None],
                     "f": factors, "z": np.zeros(8, np.float32), "o": np.ones(8, np.float32)}
        constants |= {"w2": constants["w1"], "w3": constants["w1"]}
        node = helper.make_node
        net = self.write([node("Conv", ["x", "w1"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "v"], ["b"]), node("Conv", ["b", "w2"], ["c"]),
                          node("BatchNormalization", ["c", "f", "z", "z", "o"], ["d"]), node("Conv", ["d", "w3"], ["y"])], [1, 8, 16, 16], constants, y=[1, 8, 6, 6])
        listed = self.arrays([self.rng.normal(0, 1, (1, 16, 16, 8)).astype(np.float32) for _ in range(4)])
        said = json.loads(self.quantize(net, listed, "--json"))
        self.assertEqual((said["folded"], said["equalized"]), (1, 2))
        plain, model = self.out.read_bytes(), onnx.load(net)
        (self.folder / "m").mkdir()
        with open(self.folder / "m/w.bin", "wb") as file:
            for weight in model.graph.initializer:
                if weight.name == "w1":
                    file.write(weight.raw_data)
                if weight.name.startswith("w"):
                    onnx.external_data_helper.set_external_data(weight, "w.bin", offset=0, length=len(weight.raw_data))
                    weight.ClearField("raw_data")
        (self.folder / "m/m.onnx").write_bytes(model.SerializeToString())
        self.quantize(self.folder / "m/m.onnx", listed)
        self.assert_same_constants(self.out, plain)

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


if __name__ == "__main__":
    unittest.main()
