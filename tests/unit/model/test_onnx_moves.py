#!/usr/bin/python3
"""Where, comparisons, truth values, reductions and functions of all shapes and types that have kernels of their own, and numbers that are none
among them. numpy says what is to come out."""
import itertools
import unittest

import numpy as np

from onnxtools.forms import Case, node

SHAPES = [((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (3, 1, 1)), ((1, 17, 1), (2, 1, 67)), ((70,), (1,)), ((3, 1), (1, 70)), ((2, 64, 5, 5), (1, 64, 1, 1)), ((), (5, 33))]


class Choices(Case):
    def of(self, kind, shape):
        """Few values, so that many are equal; floats have NaN and infinities among them."""
        values = self.rng.integers(-2, 3, shape).astype(kind)
        if values.dtype.kind == "f" and values.size > 4:
            values.reshape(-1)[[0, -1, values.size // 2]] = np.nan, np.inf, -np.inf
        return values

    def test_comparisons(self):
        for (op, rule), kind, (left, right) in itertools.product(
                {"Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Equal": np.equal}.items(),
                (np.float32, np.int64, np.int32), SHAPES):
            x, z = self.of(kind, left), self.of(kind, right)
            with self.subTest(op=op, kind=kind.__name__, left=left, right=right):
                self.gives([rule(x, z), rule(z, x)], [node(op, ["x", "z"], ["y"]), node(op, ["z", "x"], ["y1"])], {"x": x, "z": z})

    def test_choices(self):
        for kind, (left, right) in itertools.product((np.float32, np.int64, np.int32, np.uint8, np.int16), SHAPES):
            x, z = self.of(kind, left), self.of(kind, right)
            for c in (self.of(np.int8, left) > 0, self.of(np.int8, right) > 0, self.of(np.int8, np.broadcast_shapes(left, right)) > 0):
                with self.subTest(kind=kind.__name__, left=left, right=right, choice=c.shape):
                    self.gives([np.where(c, x, z), np.where(c, z, x)], [node("Where", ["c", "x", "z"], ["y"]), node("Where", ["c", "z", "x"], ["y1"])],
                               {"c": c, "x": x, "z": z}, within=0)

    def test_a_choice_with_constants(self):
        x, c, far = self.of(np.float32, (2, 8, 33)), self.of(np.int8, (33,)) > 0, np.float32(-1e9)
        self.gives([np.where(c, x, far), np.where(c, far, x), np.where(x > 0, x, far)],
                   [node("Where", ["c", "x", "f"], ["y"]), node("Where", ["c", "f", "x"], ["y1"]), node("Greater", ["x", "z"], ["g"]), node("Where", ["g", "x", "f"], ["y2"])],
                   {"x": x}, {"c": c, "f": far, "z": np.float32(0)}, within=0)

    def test_truths(self):
        for (op, rule), (left, right) in itertools.product({"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items(), SHAPES):
            x, z = self.of(np.int8, left) > 0, self.of(np.int8, right) > 0
            with self.subTest(op=op, left=left, right=right):
                self.gives(rule(x, z), [node(op, ["x", "z"], ["y"])], {"x": x, "z": z})


    def test_arithmetic_of_integers(self):
        """Whatever is too large wraps."""
        rules = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum, "BitwiseAnd": np.bitwise_and,
                 "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
        for kind, (left, right) in itertools.product((np.int32, np.int64), SHAPES):
            whole = np.iinfo(kind)
            x, z = (self.rng.integers(whole.min, whole.max, shape, kind) for shape in (left, right))
            with self.subTest(kind=kind.__name__, left=left, right=right), np.errstate(over="ignore"):
                want = [np.asarray(rule(*pair)) for rule in rules.values() for pair in ((x, z), (z, x))]
                names = iter(["y", *(f"y{i}" for i in range(1, len(want)))])
                self.gives(want, [node(op, list(pair), [next(names)]) for op in rules for pair in ("xz", "zx")], {"x": x, "z": z}, opset=18)

    def test_truths_of_one_operand(self):
        for kind in (np.float32, np.int32, np.int64, np.uint8, np.int8):
            for shape in (2, 3, 4, 5), (70,), ():
                x = self.of(kind, shape)
                with self.subTest(kind=kind.__name__, shape=shape):
                    self.gives([x.astype(bool), ~x.astype(bool)], [node("Cast", ["x"], ["y"], to=9), node("Not", ["y"], ["y1"])], {"x": x})
        x = self.of(np.float32, (2, 3, 4, 5))
        self.gives([np.isnan(x), np.isinf(x), x == np.inf, x == -np.inf],
                   [node("IsNaN", ["x"], ["y"]), node("IsInf", ["x"], ["y1"]), node("IsInf", ["x"], ["y2"], detect_negative=0),
                    node("IsInf", ["x"], ["y3"], detect_positive=0)], {"x": x})


class Functions(Case):
    def test_arcs(self):
        """Where they are steep, flat, and of numbers that have none."""
        x = np.concatenate([np.linspace(-1, 1, 2001), np.nextafter([1, -1, .5, -.5], 0), [1e-30, -1e-5, 0, -0., 1.5, -2, np.inf, -np.inf, np.nan]])
        x = x.astype(np.float32).reshape(1, -1)
        far = np.concatenate([x, np.geomspace(.1, 1e9, x.size, dtype=np.float32)[None] * -1], 0)
        with np.errstate(invalid="ignore"):
            want = [f(v.astype(np.float64)).astype(np.float32) for f, v in ((np.arcsin, x), (np.arccos, x), (np.arctan, far))]
        self.gives(want, [node("Asin", ["x"], ["y"]), node("Acos", ["x"], ["y1"]), node("Atan", ["z"], ["y2"])], {"x": x, "z": far}, within=5e-7)

    def test_thresholds(self):
        x = np.array([[-1, 0, .5, .75, 1e9, np.inf, -np.inf, np.nan]], np.float32)
        self.gives([np.where(x > .5, x, 0), np.where(x > 1, x, 0)],
                   [node("ThresholdedRelu", ["x"], ["y"], alpha=.5), node("ThresholdedRelu", ["x"], ["y1"])], {"x": x}, within=0)

    def test_the_least(self):
        for shape, kind in itertools.product(((2, 5, 6, 7), (4, 33), (70,)), (np.float32, np.int32)):
            x = self.rng.integers(-3, 4, shape).astype(kind)
            for axis in range(len(shape)):
                with self.subTest(shape=shape, axis=axis, kind=kind.__name__):
                    self.gives([np.argmin(x, axis), np.expand_dims(np.argmin(x, axis), axis)],
                               [node("ArgMin", ["x"], ["y"], axis=axis, keepdims=0), node("ArgMin", ["x"], ["y1"], axis=axis - len(shape))], {"x": x})

    def test_triangles(self):
        for shape, kind, k in itertools.product(((2, 3, 5), (4, 7), (1, 2, 6, 3)), (np.float32, np.int64, np.uint8), (-9, -2, 0, 1, 3, 9)):
            x = self.rng.integers(1, 100, shape).astype(kind)
            with self.subTest(shape=shape, kind=kind.__name__, k=k):
                self.gives([np.triu(x, k), np.tril(x, k)], [node("Trilu", ["x", "k"], ["y"]), node("Trilu", ["x", "k"], ["y1"], upper=0)],
                           {"x": x}, {"k": np.array(k)}, within=0)

    def test_bytes_that_nobody_takes_for_numbers(self):
        """The model's outputs, of each way that a byte may be: halves go to the even one."""
        x = np.concatenate([np.arange(-300, 300) / 4, [1e20, -1e20, np.inf, -np.inf]]).astype(np.float32).reshape(1, 4, -1)
        for kind, zp, scale in itertools.product((np.uint8, np.int8), (0, 3, 127), (.5, .1, 1e-3)):
            whole, scale = np.iinfo(kind), np.float32(scale)
            with np.errstate(over="ignore"):
                want = np.clip(np.rint(x / scale) + zp, whole.min, whole.max).astype(kind)
            with self.subTest(kind=kind.__name__, zp=zp, scale=scale):
                self.gives(want, [node("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, {"s": scale, "z": kind(zp)})


class Lines(Case):
    def test_old_resizes_to_the_nearest(self):
        """Before operator set 11 what shrinks takes the pixel behind a position, what grows the one before it."""
        x = self.rng.random((1, 2, 5, 7)).astype(np.float32)
        for scales in (.6, .5), (2, 3), (.6, 2), (1.5, .7), (1, .4):
            size = [int(np.floor(np.float32(n) * np.float32(s))) for n, s in zip(x.shape[2:], scales)]
            rows, columns = ((np.ceil if s < 1 else np.floor)(np.arange(n) / s).astype(int) for n, s in zip(size, scales))
            with self.subTest(scales=scales):
                self.gives(x[:, :, rows][..., columns], [node("Resize", ["x", "s"], ["y"])], {"x": x}, {"s": np.array([1, 1, *scales], np.float32)},
                           within=0, opset=10)

    def test_pads_that_cut(self):
        """What is cut off is not repeated, reflected or seen around what is left."""
        for kind, (mode, rule), (rows, columns) in itertools.product(
                (np.float32, np.int64, np.uint8), {"constant": "constant", "wrap": "wrap", "edge": "edge", "reflect": "reflect"}.items(),
                (((-1, 2), (1, -1)), ((-1, -2), (-2, 0)), ((0, 0), (-2, 3)), ((1, 1), (0, -3)))):
            x = self.rng.integers(0, 100, (2, 3, 6, 7)).astype(kind)
            cut = x[:, :, max(-rows[0], 0):6 + min(rows[1], 0), max(-columns[0], 0):7 + min(columns[1], 0)]
            around = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in (rows, columns))]
            pads = np.array([0, 0, rows[0], columns[0], 0, 0, rows[1], columns[1]])
            with self.subTest(kind=kind.__name__, mode=mode, rows=rows, columns=columns):
                self.gives(np.pad(cut, around, rule), [node("Pad", ["x", "p"], ["y"], mode=mode)], {"x": x}, {"p": pads}, within=0, opset=19)

    def test_pixels_of_few_bytes(self):
        """Lines are gathered, repeated and reflected as they are stored: whatever a pixel's size is."""
        for kind, channels in itertools.product((np.uint8, np.int16, np.float32), (1, 2, 3, 5, 6, 7, 8, 9)):
            x = self.rng.integers(0, 100, (2, channels, 6, 5)).astype(kind)
            rows, columns = np.array([5, 0, 0, -1, 2]), np.array([4, 1, 1, 0, 3, 2, 0])
            with self.subTest(kind=kind.__name__, channels=channels):
                self.gives([x[:, :, rows], x[..., columns], x[:, [0, channels - 1]], np.tile(x, (1, 1, 2, 3)), np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 3)), "reflect")],
                           [node("Gather", ["x", "r"], ["y"], axis=2), node("Gather", ["x", "c"], ["y1"], axis=3), node("Gather", ["x", "h"], ["y2"], axis=1),
                            node("Tile", ["x", "t"], ["y3"]), node("Pad", ["x", "p"], ["y4"], mode="reflect")], {"x": x},
                           {"r": rows, "c": columns, "h": np.array([0, channels - 1]), "t": np.array([1, 1, 2, 3]), "p": np.array([0, 0, 2, 1, 0, 0, 1, 3])}, within=0)


class Reductions(Case):
    RULES = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
             "ReduceL1": lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
             "ReduceL2": lambda x, axis, keepdims: np.sqrt((x ** 2).sum(axis, keepdims=keepdims)),
             "ReduceSumSquare": lambda x, axis, keepdims: (x ** 2).sum(axis, keepdims=keepdims),
             "ReduceLogSum": lambda x, axis, keepdims: np.log(x.sum(axis, keepdims=keepdims))}

    def test_of_all_axes(self):
        for (op, rule), (shape, axes), keeps in itertools.product(
                self.RULES.items(), (((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (0, 2)), ((2, 37, 5, 7), (2, 3)), ((3, 70), (1,)), ((70, 3), (0,)), ((2, 3, 133), (0, 1, 2)),
                                     ((1, 4, 1, 6), (2,))), (True, False)):
            x = np.abs(self.random(*shape)) + np.float32(.5)
            x *= self.rng.choice([-1, 1], shape).astype(np.float32) if op != "ReduceLogSum" else 1
            said = {"opset": 18} if op not in ("ReduceSum", "ReduceMean") else {}
            want = np.asarray(rule(x.astype(float), axis=axes, keepdims=keeps)).astype(np.float32)
            with self.subTest(op=op, shape=shape, axes=axes, keeps=keeps):
                if op == "ReduceMean":
                    self.gives(want, [node(op, ["x"], ["y"], axes=axes, keepdims=int(keeps))], {"x": x})
                else:
                    self.gives(want, [node(op, ["x", "a"], ["y"], keepdims=int(keeps))], {"x": x}, {"a": np.array(axes)}, **said)

    def test_numbers_that_are_none(self):
        for at, axis in itertools.product((0, 5, 31, 32, 69), (1, 0)):
            x = self.random(2, 70)
            x[1, at], x[0, 3] = np.nan, np.inf
            for op, rule in (("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)):
                with self.subTest(op=op, at=at, axis=axis):
                    self.gives(rule(x, axis=axis, keepdims=True), [node(op, ["x", "a"], ["y"])], {"x": x}, {"a": np.array([axis])}, opset=18)


if __name__ == "__main__":
    unittest.main()
