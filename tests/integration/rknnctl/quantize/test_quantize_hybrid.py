#!/usr/bin/python3
"""rknnctl quantize: layers in floats, by the tool's own choice and by a table that is edited. What a model computes is said by plain numpy."""
import json
import os
import re
import unittest

import numpy as np
import onnx
import yaml
from onnx import helper, numpy_helper

from integration.rknnctl.test_quantize import SIDE, Case, attributes, histogram, in_channels


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


if __name__ == "__main__":
    unittest.main()
