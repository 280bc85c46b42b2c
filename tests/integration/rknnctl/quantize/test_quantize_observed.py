#!/usr/bin/python3
"""rknnctl quantize: what the server's own nodes see of tensors is what dumps show, and names do not matter. Of large tensors those
values are counted that docs/quantization.md says."""
import json
import math
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

from support.service import Daemon

from integration.rknnctl.test_quantize import ALGORITHMS, SIDE, Case, form


class Observed(Case):
    def net(self, names=("c", "p", "f")):
        """Images, of five channels and of nine, and a matrix."""
        conv, pool, flat = names
        constants = {"w": self.weights(5, 3, 3, 3), "v": self.weights(9, 5, 1, 1), "m": self.weights(36, 4),
                     "shape": np.array([1, 36], np.int64)}
        return self.write([helper.make_node("Conv", ["x", "w"], [conv], pads=[1] * 4),
                           helper.make_node("Conv", [conv, "v"], ["d"]), helper.make_node("Relu", ["d"], ["r"]),
                           helper.make_node("AveragePool", ["r"], [pool], kernel_shape=[4, 4], strides=[4, 4]),
                           helper.make_node("Reshape", [pool, "shape"], [flat]), helper.make_node("MatMul", [flat, "m"], ["y"])],
                          [1, 3, 8, 8], constants, y=[1, 4])

    def samples(self, n):
        return self.arrays([self.rng.normal(0.2, 1 + i % 7, (1, 8, 8, 3)).astype(np.float32) for i in range(n)])

    def constants(self):
        return {t.name: numpy_helper.to_array(t) for t in onnx.load(self.out).graph.initializer}

    def test_it_is_what_dumps_show(self):
        net = self.net()
        for n in (3, 40):
            listed = self.samples(n)
            for algorithm in ALGORITHMS:
                with self.subTest(algorithm=algorithm, n=n):
                    here = json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--clients", 3, "--json"))["tensors"]
                    ours = self.constants()
                    there = json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--dumps", "--json"))["tensors"]
                    for a, b in zip(here, there, strict=True):
                        self.assertEqual(a, b)
                    for name, theirs in self.constants().items():
                        # A mean that is added up in another order moves a bias by a step of it.
                        step = 1 if theirs.dtype == np.int32 else 0
                        np.testing.assert_allclose(ours[name], theirs, atol=step, rtol=0, err_msg=name)

    def test_samples_of_one_list_may_have_other_types(self):
        net, floats = self.net(), [self.rng.integers(0, 9, (1, 8, 8, 3)).astype(np.float32) for _ in range(8)]
        types = (np.float32, np.uint8, np.int64, np.float32, np.float64, np.int16, np.uint32, np.uint16)
        seen = []
        for samples in (floats, [s.astype(t) for s, t in zip(floats, types, strict=True)]):
            for way in ((), ("--dumps",)):
                told = self.quantize(net, self.arrays(samples), "--algorithm", "mmse", "--clients", 1, "--json", *way)
                seen.append(json.loads(told)["tensors"])
        for other in seen[1:]:
            self.assertEqual(other, seen[0])

    def test_samples_of_one_request(self):
        """What comes out does not depend on how many go together: a server that has no memory of the client's takes each alone. Words are
        of the sample that they are about."""
        net, plain = self.net(), [self.rng.normal(0.2, 1 + i % 7, (1, 8, 8, 3)).astype(np.float32) for i in range(40)]
        other = Daemon("--backend", "sim", transport="tcp")
        self.addCleanup(other.stop)
        mixed = [s.astype(np.uint8) if i in (20, 31) else s for i, s in enumerate(plain)]
        for samples in (plain, mixed):
            for algorithm in ALGORITHMS:
                made = []
                for more in (("--clients", 1), ("--clients", 3), ("--clients", 2, "--server", other.env["RKNND_SERVER"])):
                    told = json.loads(self.quantize(net, self.arrays(samples), "--algorithm", algorithm, "--json", *more))
                    self.assertEqual(told["samples"], len(samples))
                    made.append((told["tensors"], self.out.read_bytes()))
                self.assertEqual(made[0][0], made[1][0])
                self.assertEqual(made[0], made[2])
        for bad, words in ((np.full((1, 8, 8, 3), np.nan, np.float32), "tensor x has 192 values"), (np.ones((1, 7, 8, 3), np.float32), "shape 1x7x8x3")):
            samples = [bad if i == 27 else s for i, s in enumerate(plain)]
            done = self.rknnctl("quantize", net, "--dataset", self.arrays(samples), "-o", self.out, "--clients", 1, *self.USUAL, code=5)
            self.assertRegex(done.stderr, rf"sample 28 \(line 28\): .*{words}")

    def test_names_may_be_anything(self):
        listed = self.samples(3)
        plain = json.loads(self.quantize(self.net(), listed, "--json"))["tensors"]
        self.rng = np.random.default_rng(1)
        net = self.net(("a\tb", "new\nline", "\x1b[31m"))
        strange = json.loads(self.quantize(net, listed, "--json"))["tensors"]
        self.assertEqual(len(strange), len(plain))

    def test_values_that_are_not_finite_are_found(self):
        samples = [np.ones((1, 8, 8, 3), np.float32) for _ in range(3)]
        samples[1][0, 5, 5, 1] = np.nan
        samples[1][0, 2, 5, 1] = np.inf
        said = self.quantize(self.net(), self.arrays(samples), code=5)
        self.assertIn("sample 2 (line 2): tensor x has 2 values that are no finite numbers", said)


# ---- which values are counted, from docs/quantization.md ----

def apart(values, most):
    """How many values of each tensor one that is counted stands for."""
    k = -(-values.size // most)
    while math.gcd(values.size, k) > 1:
        k += 1
    return k


def counted(values, k, tails):
    """Numbers, and how many values each stands for. `values`: in the order that they are counted in."""
    flat, weight = values.ravel(), np.full(len(values.ravel()[::k]), k)
    kept, more = flat[::k], []
    for end in (flat.max(), -flat.min()) if tails and k > 1 else ():
        sign = 1 if end == flat.max() else -1
        for part in (0.25, 0.5, 0.75, 0.875) if end > 0 else ():
            tail = flat[sign * flat > np.float32(part) * end]
            if len(tail) <= min(max(flat.size // 4096, 4), 128):
                inside = sign * kept <= np.float32(part) * end
                kept, weight = kept[inside], weight[inside]
                more.append(tail)
                break
    more = np.concatenate([*more, np.zeros(0, np.float32)])
    return np.concatenate([kept, more]), np.concatenate([weight, np.ones(len(more), int)])


class Counted(Case):
    def judge(self, net, samples, ordered, layout, ways=((), ("--dumps",), ("--clients", 5))):
        """`ordered`: the samples' values as they are counted. The tensors are x and y = 2 x."""
        listed = self.arrays(samples)
        largest = float(max(np.abs(v).max() for v in ordered))
        width = 2.0**(math.floor(math.log2(largest)) + 1 - 11)
        for algorithm, choose in ALGORITHMS.items():
            cuts = algorithm != "normal"
            k = apart(ordered[0], max(131072 // len(samples), 32) if cuts else max(16384 // len(samples), 16))
            self.assertGreater(k, 2)
            pairs = [counted(v, k, cuts) for v in ordered]
            values, weights = (np.concatenate([p[i] for p in pairs]) for i in (0, 1))
            counts = np.bincount(np.floor(values.astype(np.float64) / width).astype(int) + SIDE, weights, 2 * SIDE)
            low, high = (min(float(v.min()) for v in ordered), max(float(v.max()) for v in ordered))
            low, high = map(float, choose((counts, width), min(low, 0), max(high, 0)))
            for more in ways:
                said = json.loads(self.quantize(net, listed, "--algorithm", algorithm, "--without", "comparison", "--layout", layout, "--json",
                                                *more))
                seen = {t["name"]: t for t in said["tensors"]}
                for name, factor in (("x", 1), ("y", 2)):
                    with self.subTest(algorithm=algorithm, tensor=name, more=more):
                        scale, zp = form(low * factor, high * factor)
                        self.assertAlmostEqual(seen[name]["scale"], float(scale), delta=1e-6 * float(scale))
                        self.assertEqual(seen[name]["zero_point"], zp)

    def values(self, shape, i):
        """Most near 0, a few far out, more so in some samples; in one none below 0, in one none above."""
        v = self.rng.laplace(0, 1 + i % 3, shape) * (1 + 3 * (self.rng.random(shape) > 0.999))
        return (np.abs(v) if i == 4 else -np.abs(v) if i == 5 else v).astype(np.float32)

    def test_images(self):
        for shape in ((1, 6, 60, 70), (1, 16, 50, 40), (1, 1, 129, 301)):
            net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], group=shape[1])], shape,
                             {"w": np.full((shape[1], 1, 1, 1), 2, np.float32)}, y=shape)
            samples = [self.values((1, *shape[2:], shape[1]), i) for i in range(30)]
            with self.subTest(shape):
                self.judge(net, samples, samples, "nhwc")
                self.judge(net, [s.transpose(0, 3, 1, 2) for s in samples], samples, "nchw")

    def test_zeros(self):
        """Half of what a Relu leaves is 0, in one bin; and values of which none is near 0."""
        shape = (1, 6, 60, 70)
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], group=6)], shape, {"w": np.full((6, 1, 1, 1), 2, np.float32)}, y=shape)
        numbers = [self.rng.normal(0, 1, (1, 60, 70, 6)) for _ in range(30)]
        for values in ([np.maximum(v, 0) for v in numbers], [50 + v for v in numbers]):
            samples = [v.astype(np.float32) for v in values]
            self.judge(net, samples, samples, "nhwc", ways=((),))

    def test_lines(self):
        shape = (1, 5, 5003)
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], group=5)], shape, {"w": np.full((5, 1, 1), 2, np.float32)}, y=shape)
        samples = [self.values(shape, i) for i in range(30)]
        self.judge(net, samples, [s.transpose(0, 2, 1) for s in samples], "nhwc", ways=((),))

    def test_all_values(self):
        shape = (1, 6, 60, 70)
        net = self.write([helper.make_node("Conv", ["x", "w"], ["y"], group=6)], shape, {"w": np.full((6, 1, 1, 1), 2, np.float32)}, y=shape)
        samples = [self.values((1, 60, 70, 6), i) for i in range(30)]
        every = np.concatenate([s.ravel() for s in samples])
        width = 2.0**(math.floor(math.log2(float(np.abs(every).max()))) + 1 - 11)
        counts = np.bincount(np.floor(every.astype(np.float64) / width).astype(int) + SIDE, minlength=2 * SIDE).astype(np.float64)
        low, high = ALGORITHMS["mmse"]((counts, width), float(every.min()), float(every.max()))
        for more in ((), ("--dumps",)):
            said = json.loads(self.quantize(net, self.arrays(samples), "--algorithm", "mmse", "--without", "comparison", "--all-values",
                                            "--json", *more))
            tensor, = [t for t in said["tensors"] if t["name"] == "x"]
            np.testing.assert_allclose(tensor["scale"], form(float(low), float(high))[0], rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
