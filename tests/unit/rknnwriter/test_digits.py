"""examples/digits: the committed model files are as good as they say, and can be made again."""

import os
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

from support import rknn_reader, rknn_rebuild
from support.checks.expect import EXPECT

DIGITS = pathlib.Path(__file__).resolve().parents[3] / "examples/digits"
sys.path.insert(0, str(DIGITS))
import train  # noqa: E402


def gray_png(path):
    """The pixels of an 8-bit grayscale PNG whose rows are not filtered."""
    data, at, body = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack_from(">2I2B", data, at + 8)
        if kind == b"IDAT":
            body += data[at + 8 : at + 8 + size]
        at += size + 12
    EXPECT.assertEqual((depth, color), (8, 0))
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, width + 1)
    EXPECT.assertFalse(rows[:, 0].any(), "filtered rows")
    return rows[:, 1:]


class Onnx:
    """Just the operators of digits.onnx, written apart from the network that was trained."""

    def __init__(self, path):
        self.graph = onnx.load(path).graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in self.graph.initializer}

    def __call__(self, picture):
        values = dict(self.constants, image=picture.astype(np.float32) / 255)
        for node in self.graph.node:
            attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            run = getattr(self, node.op_type)
            values[node.output[0]] = run(*(values[i] for i in node.input), **attrs)
        return values[self.graph.output[0].name]

    def Relu(self, x):
        return np.maximum(x, 0)

    def Reshape(self, x, shape):
        return x.reshape(shape)

    def Softmax(self, x, axis):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    def MaxPool(self, x, kernel_shape, strides):
        EXPECT.assertEqual(kernel_shape, strides)
        EXPECT.assertEqual(strides, [2, 2])
        return np.maximum.reduce([x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)])

    def Conv(self, x, w, b, kernel_shape, pads, strides):
        EXPECT.assertEqual(strides, [1, 1])
        x = np.pad(x[0], ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        oh, ow = (x.shape[a + 1] - kernel_shape[a] + 1 for a in (0, 1))
        y = sum(np.einsum("chw,oc->ohw", x[:, i : i + oh, j : j + ow], w[:, :, i, j])
                for i in range(kernel_shape[0]) for j in range(kernel_shape[1]))
        return (y + b[:, None, None])[None]


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, _, cls.pixels, cls.labels = train.pictures()
        file = rknn_reader.File((DIGITS / "digits.rknn").read_bytes())
        cls.int8 = train.int8_guesses(rknn_rebuild.model(file), cls.pixels)
        network = Onnx(DIGITS / "digits.onnx")
        cls.floats = np.concatenate([network(p.transpose(2, 0, 1)[None]) for p in cls.pixels])

    def test_accuracy_on_pictures_held_out(self):
        self.assertGreater(train.accuracy(self.int8, self.labels), 0.97)
        self.assertGreater(train.accuracy(self.floats, self.labels), 0.97)

    def test_both_forms_agree(self):
        same = self.int8.argmax(1) == self.floats.argmax(1)
        self.assertGreater(same.mean(), 0.99)
        self.assertLess(np.abs(self.int8 - self.floats).mean(), 0.005)

    def test_pictures_show_what_their_names_say(self):
        paths = sorted((DIGITS / "pictures").glob("*.png"))
        self.assertEqual(len(paths), 20)
        for path in paths:
            pixels = gray_png(path)
            row = np.flatnonzero((self.pixels[..., 0] == pixels).all((1, 2)))[0]
            label = int(path.name[0])
            self.assertEqual((self.labels[row], self.int8[row].argmax()), (label, label), path)

    @unittest.skipIf("RKNND_CC" in os.environ, "built for another machine: QEMU's user mode has no private daemons")
    def test_training_again(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            train.main(out)
            file = rknn_reader.File((out / "digits.rknn").read_bytes())
            guesses = train.int8_guesses(rknn_rebuild.model(file), self.pixels)
            self.assertGreater(train.accuracy(guesses, self.labels), 0.97)


if __name__ == "__main__":
    unittest.main()
