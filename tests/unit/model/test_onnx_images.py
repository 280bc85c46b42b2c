#!/usr/bin/python3
"""Operators on images and numbers that trackers, detectors and recognizers have beside the usual ones: resizing with antialias and
out of a part, deformed convolutions, grids, padding around the edge; recurrent networks with other activations; halves whose sums
are none. numpy says what is to come out."""
import itertools
import unittest

import numpy as np

from onnxtools.forms import RUNTIME, Case, node


def triangle(d):
    return np.maximum(1 - np.abs(d), 0)


def cubic(d, a=-.75):
    d = np.abs(d)
    return np.where(d < 1, (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1, np.where(d < 2, a * (d ** 3 - 5 * d ** 2 + 8 * d - 4), 0))


def shrunk(n, size, kernel, reach):
    """What n places count for `size` ones of a smaller image: a kernel as wide as a place of that."""
    scale = size / n
    at = (np.arange(size) + .5) / scale - .5
    lines = np.zeros((size, n))
    for i, centre in enumerate(at):
        for k in range(-3 * n, 4 * n):
            if abs(k - centre) * scale < reach:
                lines[i, min(max(k, 0), n - 1)] += kernel((k - centre) * scale)
    return lines / lines.sum(1, keepdims=True)


def bilinear(image, y, x):
    """One place of an image [height, width]; outside of it are zeros."""
    h, w = image.shape
    y0, x0 = int(np.floor(y)), int(np.floor(x))
    return sum(image[v, u] * (1 - abs(y - v)) * (1 - abs(x - u))
               for v in (y0, y0 + 1) for u in (x0, x0 + 1) if 0 <= v < h and 0 <= u < w)


def deformed(x, w, offset, mask, stride, pad, groups, shared):
    batch, channels = x.shape[:2]
    outputs, each, kh, kw = w.shape
    _, _, oh, ow = offset.shape
    y = np.zeros((batch, outputs, oh, ow))
    for b, o, i, j, c, p, q in np.ndindex(batch, outputs, oh, ow, each, kh, kw):
        channel = o // (outputs // groups) * each + c
        tap = channel // (channels // shared) * kh * kw + p * kw + q
        at = i * stride - pad + p + offset[b, 2 * tap, i, j], j * stride - pad + q + offset[b, 2 * tap + 1, i, j]
        y[b, o, i, j] += bilinear(x[b, channel], *at) * w[o, c, p, q] * (mask[b, tap, i, j] if mask is not None else 1)
    return y


def between(at, n):
    """The places beside each `at`, and what both count for. Where both are the last one they count a half each."""
    at = np.clip(at, 0, n - 1)
    low = at.astype(int)
    high = np.minimum(low + 1, n - 1)
    return low, high, *(np.where(low == high, np.float32(.5), np.abs(at - other.astype(np.float32))) for other in (high, low))


def blended(x, size, places):
    """ONNX Runtime's linear Resize, in its order, without fused operations."""
    (top, below, t, b), (left, right, l, r) = (
        between(places(np.arange(size[i], dtype=np.float32), np.float32(x.shape[2 + i]), np.float32(size[i])), x.shape[2 + i]) for i in (0, 1))
    parts = [(v[:, None] * h) * x[:, :, rows][..., columns]
             for rows, v in ((top, t), (below, b)) for columns, h in ((left, l), (right, r))]
    return ((parts[0] + parts[1]) + parts[2]) + parts[3]


class Images(Case):
    def test_linear_to_the_last_bit(self):
        """One bit behind a DynamicQuantizeLinear may be a whole step."""
        half = np.float32(.5)
        ways = {"half_pixel": lambda o, n, size: (o + half) / (size / n) - half, "asymmetric": lambda o, n, size: o / (size / n),
                "align_corners": lambda o, n, size: o * (n - 1) / (size - 1)}
        for channels, size in ((1, (34, 26)), (3, (7, 31)), (5, (34, 26)), (8, (51, 9)), (15, (23, 6)), (16, (34, 26)), (21, (29, 40)), (32, (17, 13))):
            x = self.random(2, channels, 17, 13)
            for way, places in ways.items():
                with self.subTest(way=way, channels=channels, size=size):
                    self.gives(blended(x, size, places), [node("Resize", ["x", "", "", "s"], ["y"], mode="linear", coordinate_transformation_mode=way)],
                               {"x": x}, {"s": np.array([2, channels, *size])}, within=0)

    def test_nearest_by_positions_in_floats(self):
        """ONNX Runtime's: in floats, and a half is what is within a millionth of one."""
        half = np.float32(.5)
        roundings = {"floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda v: np.ceil(v - .5), "round_prefer_ceil": lambda v: np.floor(v + .5)}
        for (n, scale, size), (rounding, to_whole) in itertools.product(
                ((24, 1.3, None), (34, None, 18), (40, 1.6, None), (49, None, 28), (30, .3, None), (23, None, 57)), roundings.items()):
            step = np.float32(scale) if scale else np.float32(size) / np.float32(n)
            x, outs = self.random(1, 2, 1, n), np.arange(size or int(np.float32(n) * step), dtype=np.float32)
            for way, at in (("half_pixel", (outs + half) / step - half), ("asymmetric", outs / step)):
                near = np.floor(at.astype(float)) + .5
                at = np.where((np.abs(at - near) <= 1e-6) & rounding.startswith("round"), near, at)
                want = x[..., np.clip(to_whole(at), 0, n - 1).astype(int)]
                given = np.array([1, 1, 1, scale], np.float32) if scale else np.array([1, 2, 1, size])
                with self.subTest(n=n, size=len(outs), way=way, rounding=rounding):
                    self.gives(want, [node("Resize", ["x", "", "s"] if scale else ["x", "", "", "s"], ["y"], mode="nearest", nearest_mode=rounding,
                                           coordinate_transformation_mode=way)], {"x": x}, {"s": given}, within=0)

    def test_antialias(self):
        x = self.random(1, 2, 9, 13)
        for mode, kernel, reach in (("linear", triangle, 1), ("cubic", cubic, 2)):
            want = np.einsum("ph,nchw,qw->ncpq", shrunk(9, 4, kernel, reach), x, shrunk(13, 6, kernel, reach))
            self.gives(want.astype(np.float32), [node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)], {"x": x},
                       {"s": np.array([1, 2, 4, 6])}, opset=18)
        self.gives(want.astype(np.float16), [node("Resize", ["x", "", "", "s"], ["y"], mode="cubic", antialias=1)], {"x": x.astype(np.float16)},
                   {"s": np.array([1, 2, 4, 6])}, opset=18, within=4e-3)
        self.refused("beside its other attributes", [node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1, axes=[2, 3])], {"x": x}, ["y"],
                     {"s": np.array([4, 6])}, opset=18)

    def test_reshaped_turned_and_reshaped(self):
        """One copy where each side's dimensions are only divided, three where not, or where what is between is read elsewhere."""
        x = self.random(2, 32, 6, 8)
        for apart, perm, shape in (((2, 4, 8, 6, 8), (0, 2, 1, 3, 4), (2, 32, 6, 8)), ((2, 32, 3, 2, 4, 2), (0, 3, 5, 1, 2, 4), (2, 128, 3, 4)),
                                   ((2, 2, 2, 8, 6, 8), (0, 3, 4, 1, 5, 2), (2, 8, 12, 16)), ((2, 32, 3, 2, 2, 4), (0, 2, 4, 3, 5, 1), (12, 8, 32)),
                                   ((2, 1, 32, 6, 1, 8), (5, 1, 0, 3, 4, 2), (8, 2, 6, 32)), ((2, 16, 12, 8), (2, 0, 3, 1), (12, 2, 8, 16)),
                                   ((2, 32, 6, 8), (3, 1, 0, 2), (16, 192))):
            turned = x.reshape(apart).transpose(perm)
            steps = [node("Reshape", ["x", "a"], ["p"]), node("Transpose", ["p"], ["q"], perm=perm), node("Reshape", ["q", "s"], ["y"])]
            shapes = {"a": np.array(apart), "s": np.array(shape)}
            y = turned.reshape(shape)
            self.gives(y, steps, {"x": x}, shapes)
            for between, want in (("p", x.reshape(apart)), ("q", turned)):
                self.gives([y, -want], [*steps, node("Neg", [between], ["y1"])], {"x": x}, shapes)

    def test_a_part_of_an_image(self):
        x = self.random(1, 1, 8, 8)
        part = np.array([0, 0, .25, -.5, 1, 1, 1, 1], np.float32)
        at = [start * 7 + np.arange(5) * (1 - start) * 7 / 4 for start in (.25, -.5)]
        want = np.array([[bilinear(x[0, 0], v, u) if 0 <= u <= 7 else 3 for u in at[1]] for v in at[0]], np.float32)[None, None]
        said = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.}
        self.gives(want, [node("Resize", ["x", "r", "", "s"], ["y"], mode="linear", **said)], {"x": x}, {"r": part, "s": np.array([1, 1, 5, 5])})
        for unknown in ({"mode": "lanczos"}, {"mode": "nearest", "nearest_mode": "best"}):
            self.refused("its mode or nearest_mode is not known", [node("Resize", ["x", "r", "", "s"], ["y"], **said | unknown)], {"x": x}, ["y"],
                         {"r": part, "s": np.array([1, 1, 5, 5])})

    def test_whole_numbers_by_the_nearest_place(self):
        x = self.bytes(1, 2, 4, 5)
        self.gives(x.repeat(2, 2).repeat(3, 3), [node("Resize", ["x", "", "s"], ["y"], mode="nearest")], {"x": x}, {"s": np.array([1, 1, 2, 3], np.float32)})
        big = self.rng.integers(-2 ** 31, 2 ** 31, (1, 1, 2, 2)).astype(np.int32)
        self.gives(big.repeat(2, 3), [node("Resize", ["x", "", "s"], ["y"], mode="nearest")], {"x": big}, {"s": np.array([1, 1, 1, 2], np.float32)})
        self.refused("it works on floats", [node("Resize", ["x", "", "s"], ["y"], mode="linear")], {"x": x}, ["y"], {"s": np.array([1, 1, 2, 3], np.float32)})

    def test_deformed_convolutions(self):
        x, w, offset = self.random(2, 4, 5, 6), self.random(4, 2, 3, 3), self.random(2, 36, 3, 3) * 3
        mask, bias = self.random(2, 18, 3, 3), self.random(4)
        said = {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2, "offset_group": 2}
        want = deformed(x, w, offset, mask, 2, 1, 2, 2) + bias[:, None, None]
        self.gives(want.astype(np.float32), [node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], **said)], {"x": x, "o": offset, "m": mask},
                   {"w": w, "b": bias}, opset=19)
        self.gives(deformed(x[:1], w, offset[:1], None, 2, 1, 2, 2).astype(np.float32), [node("DeformConv", ["x", "w", "o"], ["y"], **said)],
                   {"x": x[:1], "w": w, "o": offset[:1]}, opset=22)
        self.refused("do not fit its image", [node("DeformConv", ["x", "w", "o"], ["y"], **said | {"offset_group": 1})], {"x": x, "o": offset}, ["y"],
                     {"w": w}, opset=19)

    def test_grids(self):
        theta = self.random(2, 2, 3)
        for align in (0, 1):
            line = [np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in (4, 5)]
            at = np.stack([*np.meshgrid(line[1], line[0]), np.ones((4, 5))], -1)
            want = np.einsum("hwk,nik->nhwi", at, theta)
            self.gives(want.astype(np.float32), [node("AffineGrid", ["t", "s"], ["y"], align_corners=align)], {"t": theta},
                       {"s": np.array([2, 3, 4, 5])}, opset=20)

    def test_cubic_places(self):
        """Sixteen pixels around a place, each of which may be outside."""
        x, grid = self.random(2, 3, 5, 7), self.rng.uniform(-1.7, 1.7, (2, 6, 40, 2)).astype(np.float32)

        def inside(at, n, padding, align):
            if padding == "border":
                return np.clip(at, 0, n - 1)
            low, span = (0, n - 1) if align else (-.5, n)
            at = np.abs(at - low) % (2 * span)
            return np.clip(np.where(at > span, 2 * span - at, at) + low, 0, n - 1)

        for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
            want = np.zeros((2, 3, 6, 40))
            places = [(grid[..., i] + 1) / 2 * (n - 1) if align else ((grid[..., i] + 1) * n - 1) / 2 for i, n in ((1, 5), (0, 7))]
            for dy, dx in itertools.product(range(-1, 3), repeat=2):
                (row, column), weight = (np.floor(places[0]) + dy, np.floor(places[1]) + dx), 1
                for place, at in zip(places, (row, column)):
                    weight = weight * np.vectorize(lambda d: cubic(d, -.75))(at - place)
                if padding == "zeros":
                    weight = weight * ((row >= 0) & (row < 5) & (column >= 0) & (column < 7))
                    row, column = np.clip(row, 0, 4), np.clip(column, 0, 6)
                else:
                    row, column = inside(row, 5, padding, align), inside(column, 7, padding, align)
                for n in range(2):
                    want[n] += weight[n] * x[n][:, row[n].astype(int), column[n].astype(int)]
            with self.subTest(padding=padding, align=align):
                self.gives(want.astype(np.float32), [node("GridSample", ["x", "g"], ["y"], mode="bicubic", padding_mode=padding, align_corners=align)],
                           {"x": x, "g": grid}, within=1e-3)

    def test_padding_with_the_other_edge(self):
        x = self.random(3, 4)
        self.gives(np.pad(x, ((2, 1), (0, 7)), "wrap"), [node("Pad", ["x", "p"], ["y"], mode="wrap")], {"x": x}, {"p": np.array([2, 0, 1, 7])}, opset=19)


class Recurrent(Case):
    FUNCTIONS = {"HardSigmoid": lambda x, a=.2, b=.5: np.clip(a * x + b, 0, 1), "LeakyRelu": lambda x, a=.01, _=0: np.where(x < 0, a * x, x),
                 "ThresholdedRelu": lambda x, a=1., _=0: np.where(x > a, x, 0), "ScaledTanh": lambda x, a=1., b=1.: a * np.tanh(b * x),
                 "Elu": lambda x, a=1., _=0: np.where(x < 0, a * np.expm1(x), x), "Affine": lambda x, a=1., b=0.: a * x + b,
                 "Softsign": lambda x, *_: x / (1 + np.abs(x)), "Softplus": lambda x, *_: np.log1p(np.exp(x))}

    def plain(self, f, parameters, op="RNN", **said):
        x, w, r = self.random(4, 1, 3), self.random(1, 5, 3), self.random(1, 5, 5)
        h, want = np.zeros(5), []
        for step in x[:, 0]:
            h = self.FUNCTIONS[f](w[0] @ step + r[0] @ h, *parameters)
            want.append(h)
        made = node(op, ["x", "w", "r"], ["y"], hidden_size=5, activations=[f], **said)
        self.gives(np.array(want, np.float32).reshape(4, 1, 1, 5), [made], {"x": x}, {"w": w, "r": r})

    def test_activations_with_and_without_parameters(self):
        for f in self.FUNCTIONS:
            self.plain(f, ())
        self.plain("LeakyRelu", (.3,), activation_alpha=[.3])
        self.plain("ScaledTanh", (.5, 2.), activation_alpha=[.5], activation_beta=[2.])
        self.plain("HardSigmoid", (.5,), activation_alpha=[.5])

    def test_each_activation_takes_its_own(self):
        x, w, r = self.random(3, 1, 3), self.random(1, 16, 3), self.random(1, 16, 4)
        gate, h, c = self.FUNCTIONS["HardSigmoid"], np.zeros(4), np.zeros(4)
        for step in x[:, 0]:
            i, o, f, n = np.split(w[0] @ step + r[0] @ h, 4)
            c = gate(f, .3, .4) * c + gate(i, .3, .4) * np.where(n < 0, .1 * n, n)
            h = gate(o, .3, .4) * np.tanh(c)
        made = node("LSTM", ["x", "w", "r"], ["", "y", "y1"], hidden_size=4, activations=["hardsigmoid", "LeakyRelu", "tanh"],
                    activation_alpha=[.3, .1], activation_beta=[.4])
        self.gives([h.astype(np.float32).reshape(1, 1, 4), c.astype(np.float32).reshape(1, 1, 4)], [made], {"x": x}, {"w": w, "r": r})

    def test_what_no_activation_takes_is_refused(self):
        x, constants = {"x": self.random(3, 1, 3)}, {"w": self.random(1, 4, 3), "r": self.random(1, 4, 4)}
        self.refused("more parameters than its activations take", [node("RNN", ["x", "w", "r"], ["y"], hidden_size=4, activation_alpha=[.5])], x, ["y"],
                     constants)
        self.refused("activation Sine is not supported", [node("RNN", ["x", "w", "r"], ["y"], hidden_size=4, activations=["Sine"])], x, ["y"], constants)


class Numbers(Case):
    def test_halves_whose_sums_are_none(self):
        x = (self.random(2, 4, 6, 6) * 6e4).astype(np.float16)
        wide = x.astype(np.float64)
        self.gives(wide / np.sqrt((wide ** 2).sum(1, keepdims=True)), [node("LpNormalization", ["x"], ["y"], axis=1)], {"x": x}, within=4e-3)
        centred = wide - wide.mean((0, 2, 3), keepdims=True)
        self.gives(centred / np.sqrt((centred ** 2).mean((0, 2, 3), keepdims=True)), [node("MeanVarianceNormalization", ["x"], ["y"])], {"x": x}, within=4e-3)
        g, b = self.random(4).astype(np.float16), self.random(4).astype(np.float16)
        groups = wide.reshape(2, 2, -1)
        groups = (groups - groups.mean(-1, keepdims=True)) / groups.std(-1, keepdims=True)
        want = groups.reshape(wide.shape) * g[:, None, None] + b[:, None, None]
        self.gives(want, [node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=2)], {"x": x}, {"g": g, "b": b}, within=4e-3, opset=21)

    def test_halves_between_nodes_are_floats(self):
        """As ONNX Runtime has them: a HardSwish in parts of PP-OCR's recognizer has products that are no halves."""
        x = np.array([[-3, 2, 300, 20000]], np.float16)
        parts = [node("Add", ["x", "three"], ["a"]), node("Clip", ["a", "zero", "six"], ["b"]), node("Mul", ["x", "b"], ["c"]),
                 node("Div", ["c", "six"], ["y"])]
        constants = {"three": np.float16(3), "zero": np.float16(0), "six": np.float16(6)}
        self.gives(np.array([[0, 2 * 5 / 6, 300, 20000]], np.float16), parts, {"x": x}, constants, within=1e-3, opset=13)
        self.gives(x, [node("Identity", ["x"], ["y"])], {"x": x})
        wide = self.random(2, 9) * 1000
        for value in (wide, np.array([3000001, -7, 70000], np.int32)):
            with np.errstate(over="ignore"):
                want = value.astype(np.float16).astype(np.float32)
            self.gives(want, [node("Cast", ["x"], ["h"], to=10), node("Cast", ["h"], ["y"], to=1)], {"x": value}, within=1e-9)
        rounded = [node("Mul", ["x", "x"], ["s"]), node("Sqrt", ["s"], ["r"]), node("Cast", ["r"], ["y"], to=1)]
        self.gives(np.abs(x).astype(np.float32), rounded, {"x": x})

    def test_what_newer_exporters_say_beside(self):
        """Attributes that PyTorch's exporter writes with what they are anyway, and what they do."""
        x, axes = self.random(2, 3) * 3, {"a": np.array([1])}
        plain = {"Mean": x.mean(1), "Max": x.max(1), "Min": x.min(1), "L2": np.sqrt((x ** 2).sum(1)), "SumSquare": (x ** 2).sum(1)}
        for op, want in plain.items():
            self.gives(want, [node("Reduce" + op, ["x", "a"], ["y"], keepdims=0, noop_with_empty_axes=0)], {"x": x}, axes, opset=18)
        for op, want in (("Mean", x), ("L1", np.abs(x)), ("SumSquare", x ** 2), ("LogSumExp", x)):
            self.gives(want, [node("Reduce" + op, ["x"], ["y"], noop_with_empty_axes=1)], {"x": x}, opset=18)
        q = np.clip(np.rint(x / np.float32(.02)), -128, 127).astype(np.int8)
        self.gives(q, [node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=3, block_size=0, saturate=1)], {"x": x}, {"s": np.float32(.02)}, opset=21)
        self.gives(q * np.float32(.02), [node("DequantizeLinear", ["q", "s"], ["y"], output_dtype=1)], {"q": q}, {"s": np.float32(.02)}, opset=23)
        self.refused("an output_dtype other than its scale's", [node("DequantizeLinear", ["q", "s"], ["y"], output_dtype=16)], {"q": q}, ["y"],
                     {"s": np.float32(.02)}, opset=23)

    def test_swish(self):
        x = self.random(3, 4) * 5
        self.gives(x / (1 + np.exp(-1.5 * x)), [node("Swish", ["x"], ["y"], alpha=1.5)], {"x": x}, opset=24)
        self.gives(x / (1 + np.exp(-x)), [node("Swish", ["x"], ["y"])], {"x": x}, opset=24)

    def test_zeros_alone_are_quantized_by_one(self):
        x = np.zeros((2, 20), np.float32)
        self.gives([np.zeros((2, 20), np.uint8), np.float32(1), np.uint8(0)], [node("DynamicQuantizeLinear", ["x"], ["y", "y1", "y2"])], {"x": x})

    def test_choices_of_bytes(self):
        c, a, b = self.random(3, 4) > 0, self.bytes(3, 4), self.bytes(3, 4)
        want = np.clip(np.rint(np.where(c, (a - 100.) * .02, (b - 130.) * .04) / .05) + 120, 0, 255).astype(np.uint8)
        numbers = {"as": .02, "bs": .04, "ys": .05}
        zeros = {"az": 100, "bz": 130, "yz": 120}
        self.gives(want, [node("QLinearWhere", ["c", "a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"], RUNTIME)], {"c": c, "a": a, "b": b},
                   {k: np.float32(v) for k, v in numbers.items()} | {k: np.uint8(v) for k, v in zeros.items()})


class Packed(Case):
    def weight(self, n, k, block, zeros):
        numbers, scales = self.rng.integers(0, 16, (n, k)), self.random(n, k // block)
        real = (numbers - np.repeat(zeros, block, 1)) * np.repeat(scales, block, 1)
        return (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8), scales, real

    def test_halves_and_zero_points_of_floats(self):
        x, zeros = self.random(3, 32), self.random(5, 2) + 8
        packed, scales, real = self.weight(5, 32, 16, zeros)
        said = {"K": 32, "N": 5, "bits": 4, "block_size": 16}
        packed = packed.reshape(5, 2, 8)
        self.gives((x @ real.T).astype(np.float32), [node("MatMulNBits", ["x", "w", "s", "z"], ["y"], RUNTIME, **said)], {"x": x},
                   {"w": packed, "s": scales.reshape(-1), "z": zeros.reshape(-1)})
        x, scales = x.astype(np.float16), scales.astype(np.float16)
        numbers = (packed.reshape(5, -1)[..., None] >> np.array([0, 4]) & 15).reshape(5, 32)
        real = (numbers - 8.) * np.repeat(scales.astype(np.float64), 16, 1)
        self.gives(x.astype(np.float64) @ real.T, [node("MatMulNBits", ["x", "w", "s"], ["y"], RUNTIME, **said)], {"x": x},
                   {"w": packed, "s": scales.reshape(-1)}, within=4e-3)

    def test_rows_in_another_order(self):
        x, order = self.random(3, 32), self.rng.permutation(np.arange(32) // 16)
        packed, scales, _ = self.weight(5, 32, 16, np.full((5, 2), 8))
        numbers = (packed[..., None] >> np.array([0, 4]) & 15).reshape(5, 32)
        said = {"K": 32, "N": 5, "bits": 4, "block_size": 16}
        self.gives((x @ ((numbers - 8.) * scales[:, order]).T).astype(np.float32), [node("MatMulNBits", ["x", "w", "s", "", "g"], ["y"], RUNTIME, **said)],
                   {"x": x}, {"w": packed.reshape(5, 2, 8), "s": scales.reshape(-1), "g": order.astype(np.int32)})
        self.refused("names a block that is not there", [node("MatMulNBits", ["x", "w", "s", "", "g"], ["y"], RUNTIME, **said)], {"x": x}, ["y"],
                     {"w": packed.reshape(5, 2, 8), "s": scales.reshape(-1), "g": order.astype(np.int32) + 1})

    def test_lines_of_a_table(self):
        at = np.array([[4, 0], [2, 2]])
        zeros = self.rng.integers(0, 16, (6, 2))
        packed, scales, real = self.weight(6, 32, 16, zeros)
        stored = {"t": packed, "s": scales, "z": (zeros[:, :1] | zeros[:, 1:] << 4).astype(np.uint8)}
        said = {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        self.gives(real[at].astype(np.float32), [node("GatherBlockQuantized", ["t", "i", "s", "z"], ["y"], RUNTIME, **said)], {"i": at}, stored)
        table = self.bytes(6, 32)
        self.gives(((table - 128.) * np.repeat(scales, 16, 1))[at].astype(np.float32),
                   [node("GatherBlockQuantized", ["t", "i", "s"], ["y"], RUNTIME, **said | {"bits": 8})], {"i": at}, {"t": table, "s": scales})


if __name__ == "__main__":
    unittest.main()
