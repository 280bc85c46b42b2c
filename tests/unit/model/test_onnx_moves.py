#!/usr/bin/python3
"""Where, comparisons, truth values and reductions of all shapes and types that have kernels of their own, and numbers that are none
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


class Lines(Case):
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
