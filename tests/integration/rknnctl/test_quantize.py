#!/usr/bin/python3
"""rknnctl quantize: ranges as plain numpy finds them from the values themselves, accuracy of what comes out, what it
says of wrong data sets and models, and calibrations that are ended and gone on with."""
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


def mmse(values, low, high):
    counts, width = histogram(values)
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


def kl(values, low, high):
    counts, width = histogram(values)
    used = np.flatnonzero(counts)
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
        q = np.zeros_like(p)
        each = len(p) // 256
        for level in range(256):
            part = slice(level * each, len(p) if level == 255 else (level + 1) * each)
            filled = p[part] > 0
            if filled.any():
                q[part] = np.where(filled, plain[part].sum() / filled.sum(), 0)
        q = np.where(p > 0, np.maximum(q, 1e-4), q)
        d = divergence(p, q)
        if best is None or d < best[0]:
            best = d, (low, high) if half == most else (max(low, -half * width), min(high, half * width))
    return best[1] if best else (low, high)


ALGORITHMS = {"normal": lambda values, low, high: (low, high), "mmse": mmse, "kl_divergence": kl}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "sim")
        cls.rng = np.random.default_rng(int(os.environ.get("RKNND_SEED", "1")))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-quantize-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "int8.onnx"

    def rknnctl(self, *words, code=0, **more):
        done = subprocess.run([RKNNCTL, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "RKNND_SERVER": self.daemon.uri}, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def quantize(self, model, samples, *options, code=0, **more):
        done = self.rknnctl("quantize", model, "--dataset", samples, "-o", self.out, *options, code=code, **more)
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
            said = json.loads(self.quantize(FLOAT, listed, "--algorithm", algorithm, "--without", "equalization", "--json"))
            seen = {t["name"]: t for t in said["tensors"] if t["seen"]}
            self.assertEqual(set(seen), {"image", "relu1", "relu2", "fc"})
            for name, tensor in seen.items():
                with self.subTest(algorithm=algorithm, tensor=name):
                    low, high = min(float(values[name].min()), 0), max(float(values[name].max()), 0)
                    scale, zp = form(*map(float, choose(values[name], low, high)))
                    self.assertAlmostEqual(tensor["scale"], float(scale), delta=1e-6 * float(scale))
                    self.assertEqual(tensor["zero_point"], zp)

    def test_skewed_values_are_clipped_where_numpy_clips_them(self):
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 1, 64, 64],
                         {"w": np.ones((1, 1, 1, 1), np.float32)}, y=[1, 1, 64, 64])
        samples = [self.rng.laplace(0, 1, (1, 64, 64, 1)).astype(np.float32) for _ in range(4)]
        samples[2][0, 5, 5, 0] = 100
        every = np.concatenate([s.ravel() for s in samples])
        for algorithm, choose in ALGORITHMS.items():
            said = json.loads(self.quantize(net, self.arrays(samples), "--algorithm", algorithm, "--json"))
            tensor, = [t for t in said["tensors"] if t["name"] == "x"]
            low, high = choose(every, float(every.min()), float(every.max()))
            with self.subTest(algorithm):
                np.testing.assert_allclose(tensor["range"], [low, high], rtol=1e-6)
                self.assertEqual(high < 99, algorithm != "normal")

    def test_clients_and_order_do_not_matter(self):
        samples = [self.rng.normal(0, 1 + i, (1, 8, 8, 1)).astype(np.float32) for i in range(9)]
        first = json.loads(self.quantize(FLOAT, self.arrays(samples), "--clients", 1, "--json"))
        second = json.loads(self.quantize(FLOAT, self.arrays(samples[::-1], "other.txt"), "--clients", 5, "--json"))
        self.assertEqual(first["tensors"], second["tensors"])


class Results(Case):
    def run_all(self, model, samples, layout="nhwc"):
        import rknnd  # pylint: disable=import-outside-toplevel
        with rknnd.Session(model, self.daemon.uri) as session:
            return np.concatenate([session.run(s, layout=layout)[0] for s in samples])

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
    def test_equalization_saves_small_channels(self):
        """Channels a thousand times as large as others: one scale for all of them is none for the small ones."""
        factors = np.logspace(-1.5, 1.5, 8).astype(np.float32)
        constants = {"w1": self.weights(8, 3, 3, 3) * factors[:, None, None, None], "b1": self.weights(8) * factors,
                     "w2": self.weights(8, 1, 3, 3), "w3": self.weights(6, 8, 1, 1) / factors[:, None, None]}
        node = helper.make_node
        net = self.write([node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4), node("Relu", ["c1"], ["r1"]),
                          node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4, group=8), node("Relu", ["c2"], ["r2"]),
                          node("Conv", ["r2", "w3"], ["y"])], [1, 3, 16, 16], constants, y=[1, 6, 16, 16])
        samples = [self.rng.normal(0, 1, (1, 16, 16, 3)).astype(np.float32) for _ in range(8)]
        real, off = self.run_all(net, samples), {}
        for without in ("batchnorm", "equalization"):
            said = json.loads(self.quantize(net, self.arrays(samples), "--method", "layer", "--without", without, "--json"))
            self.assertEqual(said["equalized"], 2 if without == "batchnorm" else 0)
            off[without] = np.linalg.norm(self.run_all(self.out, samples) - real) / np.linalg.norm(real)
        self.assertLess(off["batchnorm"], 0.05)
        self.assertGreater(off["equalization"], 4 * off["batchnorm"])

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

    def test_weights_in_other_files(self):
        model = onnx.load(FLOAT)
        (self.folder / "m").mkdir()
        onnx.save(model, str(self.folder / "m/m.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.quantize(self.folder / "m/m.onnx", listed)
        apart = self.out.read_bytes()
        self.assertEqual(sorted(os.listdir(self.folder / "m")), ["m.onnx", "weights.bin"])
        self.quantize(FLOAT, listed)
        same, other = onnx.load(self.out), onnx.load_from_string(apart)
        self.assertEqual({t.name: numpy_helper.to_array(t).tolist() for t in same.graph.initializer},
                         {t.name: numpy_helper.to_array(t).tolist() for t in other.graph.initializer})


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
        self.assertRegex(words, "image.*NaN")
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
        relu = self.write([helper.make_node("Relu", ["x"], ["y"])], [1, 4], {}, y=[1, 4])
        self.assertIn("nothing to quantize", self.quantize(relu, listed, code=4))
        (self.folder / "cut.onnx").write_bytes(FLOAT.read_bytes()[:5000])
        self.assertIn("no ONNX model", self.quantize(self.folder / "cut.onnx", listed, code=4))
        self.assertIn("No such file", self.quantize(self.folder / "none.onnx", listed, code=4))
        self.assertIn("cannot be read", self.quantize(SOURCE / "examples/digits/digits.rknn", listed, code=4))

    def test_a_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        listed = self.arrays([np.ones((1, 8, 8, 1), np.float32)])
        self.assertIn("File too large", self.quantize(FLOAT, listed, code=1, preexec_fn=limit))

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
        said = json.loads(self.quantize(FLOAT, listed, "--json"))
        self.assertGreaterEqual(said["resumed"], 8)
        self.assertEqual(said["tensors"], whole["tensors"])
        self.assertFalse(state.exists())
        state.write_text("something of somebody")
        self.assertIn("no unfinished calibration", self.rknnctl(*command[1:], code=2).stderr)


if __name__ == "__main__":
    unittest.main()
