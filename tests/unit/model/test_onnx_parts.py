#!/usr/bin/python3
"""Operators that are made of convolutions and copies (LpPool, Col2Im, CenterCropPad), optional values, scattering of the larger or
smaller one, norms of several dimensions, and moves of types that nothing is computed in. numpy says what is to come out."""
import itertools
import unittest

import numpy as np

from onnxtools.forms import RUNTIME, Case, node, rms


class Parts(Case):
    def refused(self, words, nodes, inputs, constants=None, **options):
        done = self.rknnctl(nodes, inputs, ["y"], constants, **options)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(words, done.stderr)

    def test_windows_of_powers(self):
        x = self.random(2, 3, 7, 8)
        for p, (strides, pads, dilations) in itertools.product((1, 2, 3), (([1, 1], [0] * 4, [1, 1]), ([2, 1], [1, 0, 1, 1], [1, 1]), ([1, 2], [1, 2, 0, 1], [2, 1]))):
            padded = np.pad(np.abs(x.astype(float)) ** p, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
            reach = [2 * dilations[0] + 1, dilations[1] + 1]
            seen = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]
            with self.subTest(p=p, strides=strides, pads=pads):
                self.gives((seen.sum((4, 5)) ** (1 / p)).astype(np.float32),
                           [node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], p=p, strides=strides, pads=pads, dilations=dilations)], {"x": x}, opset=18)
        self.refused("ceil_mode is not supported", [node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], ceil_mode=1)], {"x": x}, opset=18)
        self.refused("does not fit its image", [node("LpPool", ["x"], ["y"], kernel_shape=[3])], {"x": x}, opset=18)

    def test_whole_images_of_powers(self):
        for shape, p in itertools.product(((2, 3, 5, 4), (1, 4, 9), (2, 2, 3, 3, 2)), (1, 2, 3)):
            x = self.random(*shape)
            axes = tuple(range(2, len(shape)))
            want = (np.abs(x.astype(float)) ** p).sum(axes, keepdims=True) ** (1 / p)
            with self.subTest(shape=shape, p=p):
                self.gives(want.astype(np.float32), [node("GlobalLpPool", ["x"], ["y"], p=p)], {"x": x})

    def test_blocks_that_overlap(self):
        for (high, wide), block, strides, pads, dilations in (((5, 6), (2, 3), [1, 1], [0] * 4, [1, 1]), ((9, 5), (2, 2), [2, 1], [0, 1, 0, 1], [1, 1]),
                                                              ((8, 9), (3, 2), [2, 3], [1, 0, 2, 1], [2, 2])):
            padded = (high + pads[0] + pads[2], wide + pads[1] + pads[3])
            blocks = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded, block, dilations, strides)]
            x = self.random(2, 3 * block[0] * block[1], blocks[0] * blocks[1])
            image = np.zeros((2, 3, *padded))
            for (i, j), (p, q) in itertools.product(np.ndindex(*block), np.ndindex(*blocks)):
                image[:, :, p * strides[0] + i * dilations[0], q * strides[1] + j * dilations[1]] += \
                    x.reshape(2, 3, *block, *blocks)[:, :, i, j, p, q]
            want = image[:, :, pads[0]:pads[0] + high, pads[1]:pads[1] + wide]
            with self.subTest(size=(high, wide), block=block):
                self.gives(want.astype(np.float32), [node("Col2Im", ["x", "s", "b"], ["y"], strides=strides, pads=pads, dilations=dilations)], {"x": x},
                           {"s": np.array([high, wide]), "b": np.array(block)}, opset=18)
        self.refused("do not fit its image", [node("Col2Im", ["x", "s", "b"], ["y"])], {"x": x}, {"s": np.array([4, 4]), "b": np.array([2, 2])}, opset=18)

    def test_the_middle(self):
        x = self.random(2, 3, 5, 4)
        crop = np.zeros((2, 3, 3, 7), np.float32)
        crop[..., 1:5] = x[:, :, 1:4]
        self.gives(crop, [node("CenterCropPad", ["x", "s"], ["y"], axes=[2, 3])], {"x": x}, {"s": np.array([3, 7])}, opset=18, within=0)
        self.gives(x[:, 1:2, 1:3, 1:3], [node("CenterCropPad", ["x", "s"], ["y"])], {"x": x}, {"s": np.array([2, 1, 2, 2])}, opset=18, within=0)
        self.gives(x[..., 0:3], [node("CenterCropPad", ["x", "s"], ["y"], axes=[-1])], {"x": x}, {"s": np.array([3])}, opset=18, within=0)

    def test_norms_of_several_dimensions(self):
        x, s = self.random(2, 3, 5, 4), self.random(5, 4)
        self.gives(rms(x.reshape(2, 3, 20), s.reshape(20)).reshape(x.shape), [node("RMSNormalization", ["x", "s"], ["y"], axis=2)], {"x": x}, {"s": s}, opset=23)
        self.refused("its scale has not the dimensions", [node("RMSNormalization", ["x", "s"], ["y"], axis=1)], {"x": x}, {"s": s}, opset=23)

    def test_optional_values(self):
        x = self.random(2, 3)
        self.gives([x, np.array(True), -x], [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"]), node("OptionalHasElement", ["o"], ["y1"]),
                                             node("Neg", ["y"], ["y2"])], {"x": x})
        self.gives([x, np.array(False)], [node("Identity", ["x"], ["y"]), node("OptionalHasElement", [""], ["y1"])], {"x": x}, opset=18)
        self.refused("without a value", [node("Optional", [], ["o"]), node("OptionalGetElement", ["o"], ["y"])], {"x": x})

    def test_scattering_the_larger_one(self):
        for (how, rule), kind in itertools.product({"max": np.maximum, "min": np.minimum}.items(), (np.float32, np.int64)):
            x, u = (self.rng.integers(-9, 9, shape).astype(kind) for shape in ((3, 4), (2, 4)))
            if kind == np.float32:
                u[0, 1] = np.nan
            at = np.array([[0, 2, 0, 1], [0, 2, 1, 1]])
            want = x.copy()
            rule.at(want, (at, np.arange(4)[None]), u)
            rows = np.array([[2], [2]])
            by_rows = x.copy()
            rule.at(by_rows, rows[:, 0], u)
            with self.subTest(how=how, kind=kind.__name__):
                self.gives([want, by_rows], [node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction=how),
                                             node("ScatterND", ["x", "r", "u"], ["y1"], reduction=how)], {"x": x, "u": u}, {"i": at, "r": rows}, opset=18)

    def test_moves_of_other_types(self):
        for kind in (np.uint16, np.uint32):
            x = self.rng.integers(0, np.iinfo(kind).max, (2, 3, 4), dtype=kind)
            with self.subTest(kind=kind.__name__):
                self.gives([x.transpose(2, 0, 1), np.concatenate([x, x], 1), x[:, ::-2], x[:, None], np.broadcast_to(x[:1, :1], (2, 3, 4))],
                           [node("Transpose", ["x"], ["y"], perm=[2, 0, 1]), node("Concat", ["x", "x"], ["y1"], axis=1),
                            node("Slice", ["x", "b", "e", "one", "m"], ["y2"]), node("Unsqueeze", ["x", "one"], ["y3"]),
                            node("Slice", ["x", "zeros", "ones"], ["p"]), node("Expand", ["p", "all"], ["y4"])], {"x": x},
                           {"b": np.array([2]), "e": np.array([-9]), "one": np.array([1]), "m": np.array([-2]), "zeros": np.array([0, 0]), "ones": np.array([1, 1]),
                            "all": np.array([2, 3, 4])})


def quantized(x, scale, zp):
    info = np.iinfo(zp.dtype)
    return np.clip(np.rint(x / scale) + int(zp), info.min, info.max).astype(zp.dtype)


class Bytes(Case):
    """What is quantized may be moved as bytes, and read by another scale, or as bytes."""

    def test_moves_of_bytes(self):
        x = self.random(2, 6, 6, 4)
        pooled = lambda q: np.lib.stride_tricks.sliding_window_view(q, (2, 2), (2, 3)).max((4, 5))
        moves = {"turned": ([node("Transpose", ["q"], ["r"], perm=[0, 3, 1, 2])], lambda q: q.transpose(0, 3, 1, 2)),
                 "pooled": ([node("MaxPool", ["q"], ["r"], kernel_shape=[2, 2])], pooled),
                 "pooled between": ([node("Transpose", ["q"], ["a"], perm=[0, 3, 1, 2]), node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
                                     node("Transpose", ["b"], ["r"], perm=[0, 2, 3, 1])], lambda q: pooled(q.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)),
                 "joined": ([node("Concat", ["q", "q"], ["r"], axis=1)], lambda q: np.concatenate([q, q], 1)),
                 "reshaped": ([node("Flatten", ["q"], ["r"])], lambda q: q.reshape(2, -1)), "split": ([node("Split", ["q"], ["left", "r"], axis=1)], lambda q: q[:, 3:])}
        for (name, (nodes, move)), (zp, other) in itertools.product(moves.items(), ((np.uint8(120), np.uint8(100)), (np.int8(-5), np.int8(17)))):
            bytes_ = move(quantized(x, np.float32(.02), zp))
            real = [(bytes_.astype(np.float32) - int(z)) * np.float32(s) for s, z in ((.02, zp), (.03, other))]
            with self.subTest(move=name, kind=zp.dtype):
                self.gives([real[0], real[1], bytes_, bytes_.astype(np.int32)],
                           [node("QuantizeLinear", ["x", "s", "z"], ["q"]), *nodes, node("DequantizeLinear", ["r", "s", "z"], ["y"]),
                            node("DequantizeLinear", ["r", "s1", "z1"], ["y1"]), node("Identity", ["r"], ["y2"]), node("Cast", ["r"], ["y3"], to=6)],
                           {"x": x}, {"s": np.float32(.02), "z": zp, "s1": np.float32(.03), "z1": other})

    def test_images_whose_channels_are_last(self):
        x, w, b = self.bytes(1, 6, 7, 4), self.bytes(8, 4, 3, 3, low=-128), self.rng.integers(-900, 900, 8).astype(np.int32)
        forms = {"xs": np.float32(.02), "xz": np.uint8(120), "ws": np.float32(.01), "wz": np.int8(0), "s": np.float32(.3), "z": np.uint8(100)}
        padded = np.pad(x.astype(int) - 120, ((0, 0), (1, 1), (1, 1), (0, 0)))
        sums = np.einsum("nhwcij,ocij->nhwo", np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)), w.astype(int)) + b
        said = {"domain": RUNTIME, "channels_last": 1}
        for bias in (True, False):
            want = quantized((sums if bias else sums - b) * .0002, .3, np.uint8(100))
            self.gives(want, [node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "s", "z"] + ["b"] * bias, ["y"], pads=[1] * 4, **said)], {"x": x},
                       {**forms, "w": w} | ({"b": b} if bias else {}))
        seen = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2))
        self.gives(seen.max((4, 5)), [node("NhwcMaxPool", ["x"], ["y"], domain=RUNTIME, kernel_shape=[2, 2])], {"x": x})
        pools = {"QLinearAveragePool": (seen.mean((4, 5)), {"kernel_shape": [2, 2]}), "QLinearGlobalAveragePool": (x.mean((1, 2), keepdims=True), {})}
        for op, (mean, more) in pools.items():
            want = quantized((mean - 120) * .02, np.float32(.025), np.uint8(100)).astype(int)
            done = self.rknnctl([node(op, ["x", "xs", "xz", "s", "z"], ["y"], **said, **more)], {"x": x}, ["y"], forms | {"s": np.float32(.025)})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(np.abs(np.load(self.folder / "out0.npy") - want).max(), 1)  # means of bytes may be between two


if __name__ == "__main__":
    unittest.main()
