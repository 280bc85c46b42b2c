#!/usr/bin/python3
"""rknnctl quantize --all-values: ranges of all groups of tensors of all nets at hand, as a plain program finds them that was written from
docs/quantization.md alone. Arguments are other models, or folders of them. Without any model there is nothing to do (77)."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper

from support.paths import SHARED
from support.rknnctl import OnDaemon
from support.service import BUILD

RKNNCTL = BUILD / "bin/rknnctl"
FEW_FILES = 100  # outputs of one model
SAMPLES = 3


# ---- the rules ----

class Histogram:
    """2048 bins on each side of 0, of the least width that is a power of two."""

    def __init__(self, values):
        values = values.astype(np.float64)
        self.low, self.high = min(values.min(), 0.0), max(values.max(), 0.0)
        exponent = -120
        while max(-self.low, self.high) / 2.0**exponent >= 2048:
            exponent += 1
        self.width = 2.0**exponent
        places = np.floor(values / self.width).astype(np.int64)
        self.count = {int(place): int(n) for place, n in zip(*np.unique(places, return_counts=True))}
        self.values = len(values)


def scale_and_zero(low, high):
    scale = np.float32((float(high) - float(low)) / 255)
    if not scale > np.float32(1e-30):
        scale = np.float32(1)
    return float(scale), min(max(round(-128 - float(low) / float(scale)), -128), 127)  # Python's round() goes to even numbers, too


def by_mmse(h):
    places = np.array(sorted(h.count))
    middles, counts = (places + 0.5) * h.width, np.array([h.count[p] for p in places], np.float64)
    factors = [1 - 0.025 * i for i in range(32)]
    least, chosen = math.inf, (h.low, h.high)
    for f in factors if h.low < 0 else [1]:
        for g in factors if h.high > 0 else [1]:
            low, high = np.float32(h.low * f), np.float32(h.high * g)
            scale, zero = scale_and_zero(low, high)
            back = (np.clip(np.rint(middles / scale), -128 - zero, 127 - zero)) * scale
            error = ((back - middles)**2 * counts).sum()
            if error < least * (1 - 1e-9):
                least, chosen = error, (low, high)
    return chosen


def by_kl(h):
    if h.values < 4096:
        return h.low, h.high
    count = np.zeros(2 * 2048)
    for place, n in h.count.items():
        count[place + 2048] = n
    count[2048] = min(count[2048], max(count[2047], count[2049]))
    first, last = min(h.count), max(h.count)
    farthest = max(-first, last + 1)
    least, chosen = math.inf, (h.low, h.high)
    for t in [*range(128, farthest, 16), farthest]:
        begin, end = max(-t, min(first, 0)) + 2048, min(t, max(last + 1, 0)) + 2048
        if end - begin < 256:
            continue
        inside = count[begin:end]
        whole = inside.copy()
        whole[0] += count[:begin].sum()
        whole[-1] += count[end:].sum()
        there = whole > 0
        if there.sum() < 2:
            continue
        each = len(inside) // 256
        level = np.minimum(np.arange(len(inside)) // each, 255)
        filled = np.bincount(level, there, 256)
        share = np.maximum(np.bincount(level, inside, 256) / np.maximum(filled, 1), 1e-4)
        p, q = whole[there] / whole.sum(), share[level][there]
        divergence = (p * np.log(p / (q / q.sum()))).sum()
        if divergence < least - 1e-9:
            least, chosen = divergence, (h.low, h.high) if t == farthest else (max(h.low, -t * h.width), min(h.high, t * h.width))
    return chosen


# ---- nets ----

def models():
    given = [pathlib.Path(a) for a in sys.argv[1:] if not a.startswith("-")] or [SHARED / "models/onnx"]
    return sorted(p for g in given for p in (g.rglob("*.onnx") if g.is_dir() else [g]))


def inputs_of(path):
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    return [i for i in graph.input if i.name not in constants]


class Net:
    """A model with samples of numbers by chance, in a folder."""

    def __init__(self, daemon, path, folder):
        self.env, self.path, self.folder = {**os.environ, "RKNND_SERVER": daemon.uri}, path, folder
        rng, lines = np.random.default_rng(5), []
        shapes = [[d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in inputs_of(path)]
        for sample in range(SAMPLES):
            lines.append([])
            for i, shape in enumerate(shapes):
                values = (rng.normal(0, 1, shape) * rng.choice([0.1, 1, 3])).astype(np.float32)
                name = folder / f"{sample}_{i}.npy"
                np.save(name, np.ascontiguousarray(np.moveaxis(values, 1, 3)) if values.ndim == 4 else values)
                lines[-1].append(name)
        self.lines = lines
        (folder / "list.txt").write_text("".join(" ".join(p.name for p in line) + "\n" for line in lines))

    def rknnctl(self, *words):
        return subprocess.run([RKNNCTL, *map(str, words)], capture_output=True, text=True, check=False, env=self.env)

    def quantize(self, algorithm):
        """What it says; a text: why the model is refused."""
        done = self.rknnctl("quantize", self.path, "--dataset", self.folder / "list.txt", "-o", self.folder / "int8.onnx", "--algorithm", algorithm,
                            "--all-values", "--without", "comparison", "--write-float", self.folder / "float.onnx", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    def values(self, names):
        """Of tensors of the float model, which become its outputs."""
        model = onnx.load(self.folder / "float.onnx")
        found, computed = {}, {o for n in model.graph.node for o in n.output}
        for sample in self.lines:
            for i, path in zip(inputs_of(self.path), sample):
                found.setdefault(i.name, []).append(np.load(path).ravel())
        wanted = [n for n in names if n in computed]
        for at in range(0, len(wanted), FEW_FILES):
            some = wanted[at:at + FEW_FILES]
            del model.graph.output[:]
            model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in some)
            onnx.save(model, self.folder / "shown.onnx")
            for sample in self.lines:
                done = self.rknnctl("run", self.folder / "shown.onnx", *(w for p in sample for w in ("-i", p)), "-o", self.folder / "out")
                assert done.returncode == 0, done.stderr
                for i, name in enumerate(some):
                    found.setdefault(name, []).append(np.load(self.folder / f"out/out{i}.npy").ravel())
        return {n: np.concatenate(found[n]) for n in names}


class Reference(OnDaemon):
    OPTIONS = ("--backend", "sim")

    def compare(self, net):
        """How many groups there are."""
        n, values = 0, None
        for algorithm, choose in (("mmse", by_mmse), ("kl_divergence", by_kl)):
            said = net.quantize(algorithm)
            if isinstance(said, str):
                print(f"{net.path.name}: {said.strip().splitlines()[-1][:150]}")
                return 0
            seen = [t for t in said["tensors"] if t["seen"]]
            values = values or net.values([t["name"] for t in seen])
            for group in sorted({t["group"] for t in seen}):
                members = [t for t in seen if t["group"] == group]
                histogram = Histogram(np.concatenate([values[t["name"]] for t in members]))
                low, high = choose(histogram)
                scale, zero = scale_and_zero(low, high)
                n += 1
                with self.subTest(net=net.path.name, algorithm=algorithm, tensor=members[0]["name"]):
                    self.assertAlmostEqual(members[0]["scale"], scale, delta=1e-6 * scale)
                    self.assertEqual(members[0]["zero_point"], zero)
        return n

    def test_all_groups(self):
        n = 0
        for path in models():
            with tempfile.TemporaryDirectory(prefix="quantize-reference-") as folder:
                n += self.compare(Net(self.daemon, path, pathlib.Path(folder)))
        print(f"{n} groups")


if __name__ == "__main__":
    if not models():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
