#!/usr/bin/python3
"""Forms of ONNX that exporters, optimizers and quantizers write: functions of the file's own, sequences of tensors, operators
of ONNX Runtime's domain, spectra, constants of 4 bits and of bfloat16, zero points that are left out. numpy says what is to come
out."""
import itertools
import json
import math
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnxtools.forms import RUNTIME, Case, attention, node, normalized, rms


class Addends(Case):
    """What is added behind a convolution is its bias where it has one number for each channel, and only there."""

    def test_of_all_shapes(self):
        x, w, b = self.random(1, 3, 4, 4), self.random(4, 3, 1, 1), self.random(4)
        conv = np.einsum("nihw,oi->nohw", x, w[..., 0, 0])
        biased = conv + b[:, None, None]
        for shape in (4,), (4, 1), (4, 4), (4, 1, 1), (1, 4, 1), (1, 1, 4), (1, 4, 1, 1), (1, 1, 4, 1), (1, 1, 1, 4), (1, 4, 4, 4), (2, 4, 1, 1), (1,), ():
            addend = self.random(*shape)
            with self.subTest(shape=shape):
                self.gives(conv + addend, [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "a"], ["y"])], {"x": x}, {"w": w, "a": addend})
                nodes = [node("Conv", ["x", "w", "b"], ["c"]), node("Add", ["a", "c"], ["s"]), node("Relu", ["s"], ["y"])]
                self.gives(np.maximum(biased + addend, 0), nodes, {"x": x}, {"w": w, "b": b, "a": addend})

    def test_with_others_around_it(self):
        x, w, b, a = self.random(1, 3, 4, 4), self.random(4, 3, 1, 1), self.random(4), self.random(4, 1, 1)
        conv = np.einsum("nihw,oi->nohw", x, w[..., 0, 0])
        given = {"w": w, "b": b, "a": a, "s": self.random(4), "m": self.random(4), "v": self.random(4) ** 2 + 1}
        norm = (conv + a - given["m"][:, None, None]) / np.sqrt(given["v"] + 1e-5)[:, None, None] * given["s"][:, None, None] + b[:, None, None]
        self.gives(norm, [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "a"], ["d"]),
                          node("BatchNormalization", ["d", "s", "b", "m", "v"], ["y"])], {"x": x}, given)
        self.gives(np.maximum(conv, 0) + a, [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]), node("Add", ["r", "a"], ["y"])],
                   {"x": x}, {"w": w, "a": a})
        self.gives((conv + a) * conv, [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "a"], ["d"]), node("Mul", ["c", "d"], ["y"])],
                   {"x": x}, {"w": w, "a": a})


class Gelus(Case):
    """GELU in the nodes that exporters write, which become one; and what only looks like it."""
    ROOT = np.float32(2 ** .5)

    def setUp(self):
        super().setUp()
        self.x = self.random(2, 3, 11) * 3
        self.erf = np.vectorize(math.erf)(self.x / self.ROOT)
        self.given = {"root": self.ROOT, "part": 1 / self.ROOT, "one": np.float32(1), "half": np.float32(.5), "most": np.float32([.51]),
                      "t": self.random(2, 3, 11), "wide": self.random(4, 1, 1, 1)}

    def ends(self, expected, *nodes, first=("Div", ["x", "root"])):
        sums = [node(first[0], first[1], ["s"]), node("Erf", ["s"], ["e"]), node("Add", ["one", "e"], ["a"])]
        self.gives(expected, [*sums, *nodes], {"x": self.x}, self.given, within=1e-5)

    def test_in_all_orders(self):
        y = self.x * (1 + self.erf) / 2
        for first in ("Div", ["x", "root"]), ("Mul", ["part", "x"]), ("Mul", ["x", "part"]):
            self.ends(y, node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["y"]), first=first)
        self.ends(y, node("Mul", ["half", "a"], ["m"]), node("Mul", ["m", "x"], ["y"]))
        self.ends(y, node("Mul", ["x", "half"], ["h"]), node("Mul", ["h", "a"], ["y"]))
        self.ends(np.maximum(y, 1), node("Mul", ["half", "x"], ["h"]), node("Mul", ["a", "h"], ["m"]), node("Max", ["m", "one"], ["y"]))

    def test_what_is_none(self):
        x, y = self.x, self.x * (1 + self.erf)
        self.ends(y, node("Mul", ["x", "a"], ["y"]))
        self.ends(y * np.float32(.51), node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "most"], ["y"]))
        self.ends(y * x, node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "x"], ["y"]))
        self.ends((1 + self.erf) * self.given["t"] / 2, node("Mul", ["t", "a"], ["m"]), node("Mul", ["m", "half"], ["y"]))
        self.ends((1 + self.erf) ** 2 / 2, node("Mul", ["a", "a"], ["m"]), node("Mul", ["m", "half"], ["y"]))
        self.ends(y / 2 + self.erf, node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["g"]), node("Add", ["g", "e"], ["y"]))
        self.ends([y / 2, y], node("Mul", ["x", "a"], ["y1"]), node("Mul", ["y1", "half"], ["y"]))
        self.ends(y / 2 * self.given["wide"], node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "wide"], ["w"]), node("Mul", ["w", "half"], ["y"]))
        self.ends(x * (1 + np.vectorize(math.erf)(self.ROOT / x)) / 2, node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["y"]),
                  first=("Div", ["root", "x"]))


class Linears(Case):
    """Products by a constant matrix with an addend, which is a bias where it has one number for each column, and only there."""

    def test_of_all_shapes(self):
        for shape, outputs in ((3,), 5), ((1, 3), 1), ((4, 3), 5), ((2, 4, 3), 5), ((2, 1, 8, 9), 33), ((2, 3, 4, 300), 1000), ((17, 8), 8), ((16, 4, 4, 520), 600):
            x, w = self.random(*shape), self.random(shape[-1], outputs)
            product, rows = x @ w, shape[:-1]
            for added in {(outputs,), (1, outputs), (1,), (), (*rows, 1), (*rows, outputs), (2, 1, 1, 1, outputs)}:
                b = self.random(*added)
                with self.subTest(shape=shape, outputs=outputs, added=added):
                    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["b", "m"], ["s"]), node("Relu", ["s"], ["y"])]
                    self.gives(np.maximum(product + b, 0), nodes, {"x": x}, {"w": w, "b": b})

    def test_what_reads_the_product_too(self):
        x, w, b = self.random(2, 4, 3), self.random(3, 5), self.random(5)
        self.gives([x @ w + b, x @ w], [node("MatMul", ["x", "w"], ["y1"]), node("Add", ["y1", "b"], ["y"])], {"x": x}, {"w": w, "b": b})
        self.gives((x @ w + b) * 2 + b, [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["s"]), node("Mul", ["s", "two"], ["t"]),
                                         node("Add", ["t", "b"], ["y"])], {"x": x}, {"w": w, "b": b, "two": np.float32(2)})

    def test_behind_images(self):
        x, k, w, b = self.random(1, 3, 4, 6), self.random(5, 3, 1, 1), self.random(6, 7), self.random(7)
        conv = np.einsum("nihw,oi->nohw", x, k[..., 0, 0])
        self.gives(np.tanh(conv @ w + b), [node("Conv", ["x", "k"], ["c"]), node("MatMul", ["c", "w"], ["m"]), node("Add", ["m", "b"], ["s"]),
                                           node("Tanh", ["s"], ["y"])], {"x": x}, {"k": k, "w": w, "b": b})

    def test_as_gemm(self):
        for rows, inputs, outputs in (4, 3, 5), (40, 12, 17):
            x, w, b = self.random(rows, inputs), self.random(outputs, inputs), self.random(outputs)
            for factors in {}, {"alpha": .5}, {"beta": 2.0}, {"alpha": 2.0, "beta": .5}:
                y = x @ w.T * factors.get("alpha", 1) + b * factors.get("beta", 1)
                self.gives(y, [node("Gemm", ["x", "w", "b"], ["y"], transB=1, **factors)], {"x": x}, {"w": w, "b": b})
            self.gives(x @ w.T + b, [node("Gemm", ["a", "w", "b"], ["y"], transA=1, transB=1)], {"a": x.T.copy()}, {"w": w, "b": b})
            self.gives(x @ w.T + x[:, :1], [node("Gemm", ["x", "w", "b"], ["y"], transB=1)], {"x": x}, {"w": w, "b": x[:, :1].copy()})

    def test_of_no_numbers(self):
        x, w = self.random(20, 9), self.random(9, 16)
        w[1, 2], w[3, 5] = np.inf, np.nan
        self.gives(x @ w, [node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w})


class Windows(Case):
    """Convolutions whose windows and images hardly fit, which a library may get wrong (docs/decisions/0311)."""

    def test_of_all_sizes(self):
        w = {kernel: self.rng.integers(-7, 8, (19, 1, *kernel)).astype(np.float32) for kernel in ((1, 2), (3, 2), (2, 3), (3, 3))}
        for (kernel, weight), width, stride, pads in itertools.product(w.items(), (1, 2, 3, 4), (1, 2, 3), ((0, 0), (1, 1), (0, 2))):
            x = self.rng.integers(-7, 8, (2, 1, 5, width)).astype(np.float32)
            padded = np.pad(x, ((0, 0), (0, 0), (1, 1), pads))
            if padded.shape[3] < kernel[1]:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))[:, :, :, ::stride]
            with self.subTest(kernel=kernel, width=width, stride=stride, pads=pads):
                self.gives(np.einsum("nchwij,ocij->nohw", windows, weight),
                           [node("Conv", ["x", "w"], ["y"], strides=[1, stride], pads=[1, pads[0], 1, pads[1]])], {"x": x}, {"w": weight})


class Quantized(Case):
    """Quantized operands, some of whose numbers come with the run: as if the file had them."""

    def setUp(self):
        super().setUp()
        self.values = {"x": self.random(1, 4, 6, 6), "xs": np.float32(.05), "xz": np.int8(3), "w": self.bytes(5, 4, 3, 3, low=-128),
                       "ws": np.float32(.02), "wz": np.int8(0), "b": self.rng.integers(-500, 500, 5).astype(np.int32),
                       "bs": np.float32(.001), "bz": np.int32(0), "ys": np.float32(.5), "yz": np.int8(-2),
                       "a": self.bytes(1, 5, 4, 4, low=-128), "as": np.float32(.1), "az": np.int8(5)}

    def expected(self):
        v = self.values

        def real(name):
            return (v[name].astype(np.float64) - int(v[name + "z"])) * float(v[name + "s"])

        def rounded(x, name):
            return (np.clip(np.rint(x / v[name + "s"]) + int(v[name + "z"]), -128, 127) - int(v[name + "z"])) * float(v[name + "s"])

        windows = np.lib.stride_tricks.sliding_window_view(rounded(v["x"], "x"), (3, 3), (2, 3))
        conv = np.einsum("nchwij,ocij->nohw", windows, real("w")) + real("b")[:, None, None]
        return rounded(rounded(conv, "y") + real("a"), "y").astype(np.float32)

    def test_what_comes_with_the_run(self):
        def known(name, of):
            return node("DequantizeLinear", [name, of + "s", of + "z"], [name + "d"])

        nodes = [node("QuantizeLinear", ["x", "xs", "xz"], ["q"]), known("q", "x"), known("w", "w"), known("b", "b"), known("a", "a"),
                 node("Conv", ["qd", "wd", "bd"], ["c"]), node("QuantizeLinear", ["c", "ys", "yz"], ["cq"]), known("cq", "y"),
                 node("Add", ["cqd", "ad"], ["s"]), node("QuantizeLinear", ["s", "ys", "yz"], ["sq"]),
                 node("DequantizeLinear", ["sq", "ys", "yz"], ["y"])]
        for run in [], ["bz"], ["b"], ["bs"], ["az"], ["as"], ["a"], ["wz"], ["ws"], ["w"], ["yz"], ["ys"], ["xz"], ["xs"], ["as", "az"]:
            with self.subTest(run=run):
                inputs = {name: np.atleast_1d(self.values[name]) if name[1:] else self.values[name] for name in ["x", *run]}
                self.gives(self.expected(), nodes, inputs, {name: v for name, v in self.values.items() if name not in inputs}, opset=13)


class Functions(Case):
    """As exporters of PyTorch write modules."""

    def leak(self):
        made = helper.make_function("own", "Leak", ["X", "B"], ["Y"], [node("LeakyRelu", ["X"], ["t"]), node("Add", ["t", "B"], ["Y"])],
                                    [helper.make_opsetid("", 17)], ["slope"])
        made.node[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        return made

    def test_a_function_is_called_with_its_attributes(self):
        twice = helper.make_function("own", "Twice", ["X", "B"], ["Y"],
                                     [node("Leak", ["X", "B"], ["t"], "own", slope=.5), node("Leak", ["t", "B"], ["Y"], "own")],
                                     [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])
        x, b = self.random(3, 4), self.random(4)
        once = np.where(x < 0, x * np.float32(.5), x) + b
        self.gives(np.where(once < 0, once * np.float32(.01), once) + b, [node("Twice", ["x", "b"], ["y"], "own")], {"x": x},
                   {"b": b}, functions=[self.leak(), twice])

    def test_names_inside_are_its_own(self):
        x, t = self.random(3, 4), self.random(4)
        want = np.where(x < 0, x * np.float32(.25), x) + t
        nodes = [node("Leak", ["x", "t"], ["a"], "own", slope=.25), node("Mul", ["a", "t"], ["y"])]
        self.gives(want * t, nodes, {"x": x}, {"t": t}, functions=[self.leak()])

    def test_an_input_that_is_left_out_is_left_out_inside(self):
        clip = helper.make_function("own", "Bound", ["X", "L", "H"], ["Y"], [node("Clip", ["X", "L", "H"], ["Y"])],
                                    [helper.make_opsetid("", 17)])
        x = self.random(3, 4)
        self.gives(np.minimum(x, np.float32(.5)), [node("Bound", ["x", "", "h"], ["y"], "own")], {"x": x}, {"h": np.float32(.5)},
                   functions=[clip])

    def test_tensors_of_calls_have_names_of_their_own(self):
        """Comparisons of layers know tensors by their names."""
        nodes = [node("Leak", ["x", "b"], ["a"], "own", name="one"), node("Leak", ["a", "b"], ["c"], "own", name="two"),
                 node("SplitToSequence", ["c"], ["s"]), node("SequenceAt", ["s", "i"], ["d"]), node("Mul", ["d", "x"], ["y"])]
        x = self.random(3, 4)
        self.assertEqual(self.rknnctl(nodes, {"x": x}, ["y"], {"b": self.random(4), "i": np.array(1)}, functions=[self.leak()]).returncode, 0)
        done = self.daemon.rknnctl("dump", str(self.folder / "net.onnx"), "-i", str(self.folder / "x.npy"), "-o", str(self.folder), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [tensor["name"] for tensor in json.loads(done.stdout)["tensors"]]
        self.assertLessEqual({"one/t", "two/t", "c", "s[1]", "y"}, set(names))  # an Add takes the LeakyRelu behind it
        self.assertEqual(len(names), len(set(names)))

    def test_tensors_of_repetitions_have_names_of_their_own(self):
        body = helper.make_graph([node("Mul", ["s", "e"], ["m"]), node("Exp", ["m"], ["t"]), node("Sin", ["t"], ["o"])], "body",
                                 [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "se"],
                                 [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "to"])
        nodes = [node("Scan", ["x", "c"], ["y", "y1"], name="scan", body=body, num_scan_inputs=1)]
        self.assertEqual(self.rknnctl(nodes, {"x": self.random(3)}, ["y", "y1"], {"c": self.random(4, 3)}).returncode, 0)
        done = self.daemon.rknnctl("dump", str(self.folder / "net.onnx"), "-i", str(self.folder / "x.npy"), "-o", str(self.folder), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [tensor["name"] for tensor in json.loads(done.stdout)["tensors"]]
        computed = [name for name in names if name.endswith(("/o", "/t"))]
        self.assertEqual(sorted(computed), sorted(f"scan[{i}]/{name}" for i in range(4) for name in "ot"))

    def test_what_calls_itself_is_refused(self):
        endless = helper.make_function("own", "Endless", ["X"], ["Y"], [node("Endless", ["X"], ["Y"], "own")],
                                       [helper.make_opsetid("own", 1)])
        self.refused("nested more than", [node("Endless", ["x"], ["y"], "own")], {"x": self.random(2)}, ["y"], functions=[endless])


class Sequences(Case):
    def test_parts_are_read_and_joined(self):
        x = self.random(2, 7, 3)
        nodes = [node("SplitToSequence", ["x", "k"], ["s"], axis=1), node("SequenceAt", ["s", "i"], ["a"]),
                 node("SequenceErase", ["s", "j"], ["t"]), node("SequenceInsert", ["t", "a"], ["u"]),
                 node("ConcatFromSequence", ["u"], ["y"], axis=1), node("SequenceLength", ["u"], ["y1"])]
        want = np.concatenate([x[:, :3], x[:, 6:], x[:, :3]], 1)
        self.gives([want, np.array(3)], nodes, {"x": x}, {"k": np.array(3), "i": np.array(-3), "j": np.array(1)})

    def test_slices_without_their_axis_are_stacked(self):
        x = self.random(2, 3, 4)
        nodes = [node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0), node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)]
        self.gives(x.transpose(0, 2, 1), nodes, {"x": x})

    def test_other_operators_do_not_take_one(self):
        made = node("SequenceConstruct", ["x", "x"], ["s"])
        self.refused("its input 0 is a sequence of tensors", [made, node("Relu", ["s"], ["y"])], {"x": self.random(2)}, ["y"])
        self.refused("output s is a sequence", [made], {"x": self.random(2)}, ["s"])
        self.refused("place 2 of a sequence of 2", [made, node("SequenceAt", ["s", "i"], ["y"])], {"x": self.random(2)}, ["y"],
                     {"i": np.array(2)})


class OfRuntime(Case):
    def test_attention(self):
        x, w, b = self.random(2, 5, 8), self.random(8, 24), self.random(24)
        lengths = np.array([5, 3], np.int32)
        q, k, v = np.split(x @ w + b, 3, -1)
        hidden = np.where(np.arange(5) < lengths[:, None], 0., -10000.)[:, None, None]
        self.gives(attention(q, k, v, 2, hidden).astype(np.float32), [node("Attention", ["x", "w", "b", "m"], ["y"], RUNTIME, num_heads=2)],
                   {"x": x, "m": lengths}, {"w": w, "b": b})
        later = np.where(np.tri(5), 0., -np.inf)
        self.gives(attention(q, k, v, 4, later).astype(np.float32),
                   [node("Attention", ["x", "w", "b"], ["y"], RUNTIME, num_heads=4, unidirectional=1)], {"x": x}, {"w": w, "b": b})

    def test_heads_with_queries_of_another_length(self):
        q, k, v, b = self.random(2, 5, 8), self.random(2, 6, 8), self.random(2, 6, 8), self.random(24)
        want = attention(q + b[:8], k + b[8:16], v + b[16:], 2).astype(np.float32)
        self.gives(want, [node("MultiHeadAttention", ["q", "k", "v", "b"], ["y"], RUNTIME, num_heads=2)], {"q": q, "k": k, "v": v}, {"b": b})

    def test_normalization(self):
        x, s, g, b = self.random(2, 5, 8), self.random(2, 5, 8), self.random(8), self.random(8)
        self.gives([normalized(x + s, g, b), x + s],
                   [node("SkipLayerNormalization", ["x", "s", "g", "b"], ["y", "", "", "y1"], RUNTIME, epsilon=1e-5)], {"x": x, "s": s},
                   {"g": g, "b": b})
        self.gives([rms(x + s, g), x + s],
                   [node("SkipSimplifiedLayerNormalization", ["x", "s", "g"], ["y", "", "", "y1"], RUNTIME, epsilon=1e-5)],
                   {"x": x, "s": s}, {"g": g})
        self.gives(rms(x, g), [node("SimplifiedLayerNormalization", ["x", "g"], ["y"])], {"x": x}, {"g": g})
        self.gives(rms(x, g), [node("RMSNormalization", ["x", "g"], ["y"])], {"x": x}, {"g": g}, opset=23)

    def test_halves_whose_squares_and_products_are_none(self):
        x, g = (self.random(2, 5, 8) * 1000).astype(np.float16), np.ones(8, np.float16)
        for op, opset in (("SimplifiedLayerNormalization", 17), ("RMSNormalization", 23)):
            self.gives(rms(x.astype(np.float64), g), [node(op, ["x", "g"], ["y"])], {"x": x}, {"g": g}, within=4e-3, opset=opset)
        q, k, v = np.full((1, 2, 8), 150, np.float16), np.full((1, 3, 8), 140, np.float16), self.random(1, 3, 8).astype(np.float16)
        k[:, 1] = 150
        self.gives(attention(q.astype(np.float64), k, v, 2), [node("MultiHeadAttention", ["q", "k", "v"], ["y"], RUNTIME, num_heads=2)],
                   {"q": q, "k": k, "v": v}, within=4e-3)

    def test_attributes_that_nobody_reads(self):
        x, w = {"x": self.random(1, 3, 4, 4)}, {"w": self.random(5, 3, 1, 1)}
        said = {"activation": "Relu", "activation_alpha": .5}
        self.refused('"activation_alpha" is not known', [node("FusedConv", ["x", "w"], ["y"], RUNTIME, **said)], x, ["y"], w)
        self.refused("too many attributes", [node("FusedConv", ["x", "w"], ["y"], RUNTIME, **{f"a{i}": i for i in range(17)})], x, ["y"], w)
        x, w = {"x": self.random(3, 8)}, {"w": self.random(8, 4)}
        self.refused('"activation_gamma" is not known', [node("FusedGemm", ["x", "w"], ["y"], RUNTIME, activation_gamma=.5)], x, ["y"], w)
        self.refused("a stash_type other than floats", [node("RMSNormalization", ["x", "w"], ["y"], stash_type=10)], x, ["y"],
                     {"w": np.ones(8, np.float32)}, opset=23)

    def test_what_optimizers_join(self):
        x, w, b = self.random(3, 8), self.random(4, 8), self.random(4)
        self.gives(np.maximum(x @ w.T + b, 0), [node("FusedGemm", ["x", "w", "b"], ["y"], RUNTIME, activation="Relu", transB=1)], {"x": x},
                   {"w": w, "b": b})
        self.gives(x @ w.T * np.float32(.5), [node("FusedMatMul", ["x", "w"], ["y"], RUNTIME, alpha=.5, transB=1)], {"x": x}, {"w": w})
        image, kernel = self.random(1, 3, 4, 4), self.random(5, 3, 1, 1)
        want = np.einsum("nchw,oc->nohw", image, kernel[..., 0, 0])
        self.gives(np.where(want < 0, want * np.float32(.2), want).astype(np.float32),
                   [node("FusedConv", ["x", "w"], ["y"], RUNTIME, activation="LeakyRelu", activation_params=[.2])], {"x": image}, {"w": kernel})
        self.refused("its activation is not known", [node("FusedConv", ["x", "w"], ["y"], RUNTIME, activation="Erf")], {"x": image}, ["y"],
                     {"w": kernel})

    def test_weights_of_four_bits(self):
        n, k, block = 5, 40, 16
        numbers = self.rng.integers(0, 16, (n, 48))
        scales, zeros = self.random(n, 3), self.rng.integers(0, 16, (n, 4))
        weight = ((numbers.reshape(n, 3, block) - zeros[:, :3, None]) * scales[..., None]).reshape(n, -1)[:, :k]
        packed = (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8).reshape(n, 3, block // 2)
        zeros = (zeros[:, ::2] | zeros[:, 1::2] << 4).astype(np.uint8)
        x = self.random(3, k)
        self.gives((x @ weight.T).astype(np.float32), [node("MatMulNBits", ["x", "w", "s", "z"], ["y"], RUNTIME, K=k, N=n, bits=4, block_size=block)],
                   {"x": x}, {"w": packed, "s": scales.reshape(-1), "z": zeros.reshape(-1)})


class Spectra(Case):
    def parts(self, z):
        return np.stack([z.real, z.imag], -1).astype(np.float32)

    def test_fourier_transforms(self):
        x = self.random(2, 16, 3)
        self.gives(self.parts(np.fft.rfft(x, 12, 1)), [node("DFT", ["x", "n"], ["y"], axis=1, onesided=1)], {"x": x[..., None]}, {"n": np.array(12)})
        z = self.random(2, 10, 2)
        self.gives(self.parts(np.fft.ifft(z[..., 0] + 1j * z[..., 1], axis=1)), [node("DFT", ["x", "", "a"], ["y"], inverse=1)], {"x": z},
                   {"a": np.array(1)}, opset=20)

    def test_frames_under_a_window(self):
        x, window = self.random(2, 50), np.hanning(17)[:16].astype(np.float32)
        frames = np.stack([x[:, i:i + 16] * window for i in range(0, 35, 7)], 1)
        nodes = [node("HannWindow", ["n"], ["w"]), node("STFT", ["x", "s", "w", "n"], ["y"])]
        self.gives(self.parts(np.fft.rfft(frames)), nodes, {"x": x[..., None]}, {"s": np.array(7), "n": np.array(16)})


class Numbers(Case):
    def test_zero_points_that_are_left_out_are_zero(self):
        for a, b in ((0, 0), (0, -128), (-128, 0)):
            x, w = self.bytes(5, 12, low=a), self.bytes(12, 6, low=b)
            want = x.astype(np.int32) @ w.astype(np.int32)
            self.gives(want, [node("MatMulInteger", ["x", "w"], ["y"])], {"x": x}, {"w": w})
            self.gives(want - x.sum(1, dtype=np.int32)[:, None] * np.int32(w[0, 0]), [node("MatMulInteger", ["x", "w", "", "z"], ["y"])], {"x": x},
                       {"w": w, "z": w[0, 0]})
            image, kernel = x.reshape(1, 5, 3, 4), self.bytes(7, 5, 1, 1, low=b)
            want = np.einsum("nchw,oc->nohw", image.astype(np.int32), kernel[..., 0, 0].astype(np.int32))
            self.gives(np.pad(want, ((0, 0), (0, 0), (1, 1), (1, 1))), [node("ConvInteger", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": image},
                       {"w": kernel})

    def test_an_odd_line_of_a_given_output_shape_is_cut_off_in_front(self):
        x = self.random(1, 1, 1, 4)
        whole = np.repeat(x, 2, -1)  # a kernel of two ones with stride 2
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[1, 2], output_shape=[1, 7])]
        self.gives(whole[..., 1:], nodes, {"x": x}, {"w": np.ones((1, 1, 1, 2), np.float32)})
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[1, 2], output_shape=[1, 7], auto_pad="SAME_UPPER")]
        self.gives(whole[..., :-1], nodes, {"x": x}, {"w": np.ones((1, 1, 1, 2), np.float32)})

    def stored(self, kind, shape, raw):
        return TensorProto(name="w", data_type=kind, dims=shape, raw_data=raw)

    def test_constants_of_four_bits_and_in_blocks(self):
        numbers, scales = self.rng.integers(-8, 8, (16, 5)), self.random(4, 5)
        flat = numbers.reshape(-1) & 15
        weight = self.stored(22, [16, 5], (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes())
        x = self.random(3, 16)
        nodes = [node("DequantizeLinear", ["w", "s"], ["r"], axis=0, block_size=4), node("MatMul", ["x", "r"], ["y"])]
        want = (x @ (numbers * np.repeat(scales, 4, 0))).astype(np.float32)
        self.gives(want, nodes, {"x": x}, {"w": weight, "s": scales}, opset=21)
        self.gives(want, nodes, {"x": x}, {"w": numbers.astype(np.int8), "s": scales}, opset=21)
        self.refused("numbers of 4 bits are supported as constants alone", [node("QuantizeLinear", ["x", "s", "w"], ["y"])], {"x": x}, ["y"],
                     {"s": np.float32(1), "w": self.stored(22, [], b"\1")}, opset=21)

    def test_bfloat16_of_a_file(self):
        halves = (self.random(8, 4).view(np.uint32) >> 16).astype(np.uint16)
        x = self.random(3, 8)
        nodes = [node("Cast", ["w"], ["r"], to=TensorProto.FLOAT), node("MatMul", ["x", "r"], ["y"])]
        self.gives(x @ (halves.astype(np.uint32) << 16).view(np.float32), nodes, {"x": x}, {"w": self.stored(16, [8, 4], halves.tobytes())})

    def test_bits(self):
        x, z = self.bytes(40), self.bytes(40)
        nodes = [node("BitwiseAnd", ["x", "z"], ["a"]), node("BitwiseNot", ["a"], ["b"]), node("BitwiseXor", ["b", "z"], ["y"]),
                 node("BitwiseOr", ["b", "z"], ["y1"])]
        inside = ~(x & z)
        self.gives([inside ^ z, inside | z], nodes, {"x": x, "z": z}, opset=18)

    def test_scans_over_constants(self):
        body = helper.make_graph([node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["o"])], "body",
                                 [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "se"],
                                 [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "to"])
        x, c = self.random(3), self.random(5, 3)
        want = x + np.cumsum(c, 0)
        self.gives([want[-1], want], [node("Scan", ["x", "c"], ["y", "y1"], body=body, num_scan_inputs=1)], {"x": x}, {"c": c})


if __name__ == "__main__":
    unittest.main()
