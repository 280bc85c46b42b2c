"""python3 train.py [OUT]: trains the digits network and writes it, quantized and as floats.

Needs rknnctl (of ../../build/release or in PATH) and Debian's python3-sklearn (the pictures),
python3-onnx and python3-flatbuffers. Writes digits.onnx, digits_int8.onnx as `rknnctl quantize`
makes it of that, digits.rknn (RK3588) with the same scales, pictures/ and digits.png; prints how
often each form is right.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "npu/write")]

from network import PADS, Network  # noqa: E402
from rknnwriter import Model, Quant, ops, reference  # noqa: E402

HELD_OUT = 500
NAMES = {"conv1_out": "relu1", "pool1_out": "pool1", "conv2_out": "relu2", "fc_out": "fc"}
SEED = 8


def pictures():
    """(train pixels, labels, held-out pixels, labels); pixels: uint8 [N, 8, 8, 1], 255 is ink."""
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    order = np.random.default_rng(SEED).permutation(len(pixels))
    pixels, labels = pixels[order], digits.target[order]
    return pixels[HELD_OUT:], labels[HELD_OUT:], pixels[:HELD_OUT], labels[:HELD_OUT]


def real(pixels):
    """What the network sees: [N, 1, 8, 8] in 0..1, that is mean 0 and std 255."""
    return pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255


def train(pixels, labels):
    rng = np.random.default_rng(SEED)
    network = Network(rng)
    network.train(real(pixels), labels, rng)
    return network


def quantize(out, calibration):
    """Writes digits_int8.onnx of digits.onnx; scale and zero point of each tensor. Its weights are
    not equalized, so that they are those of the network."""
    built = pathlib.Path(os.environ.get("RKNND_BUILD", HERE.parents[1] / "build/release"), "bin/rknnctl")
    rknnctl = built if built.exists() else shutil.which("rknnctl")
    if not rknnctl:
        raise SystemExit("rknnctl is needed: build it (quickstart.sh), or install rknnd-tools and rknnd-npu-sim")
    with tempfile.TemporaryDirectory() as folder:
        for i, picture in enumerate(real(calibration)):
            np.save(f"{folder}/{i}.npy", picture[None])
        names = "".join(f"{i}.npy\n" for i in range(len(calibration)))
        pathlib.Path(folder, "list.txt").write_text(names, "utf8")
        said = subprocess.run(
            [rknnctl, "quantize", out / "digits.onnx", "--dataset", f"{folder}/list.txt", "--layout",
             "nchw", "--without", "equalization", "-o", out / "digits_int8.onnx", "--json"],
            env={"RKNND_SERVER": "sim:", **os.environ}, stdout=subprocess.PIPE, check=True)
    return {t["name"]: Quant(t["scale"], t["zero_point"]) for t in json.loads(said.stdout)["tensors"]}


def quantized(network, forms):
    """The int8 model: weights per channel, activations as digits_int8.onnx has them."""
    m = Model("rk3588", "digits")
    x = m.input("image", (1, 1, 8, 8), forms["image"], mean=[0], std=[255])
    layers = list(zip(network.weights, network.biases, PADS))
    y = ops.conv(m, x, *layers[0][:2], pad=layers[0][2], act="relu", out=forms["relu1"],
                 name="conv1")
    y = ops.max_pool(m, y, 2, name="pool1")
    y = ops.conv(m, y, *layers[1][:2], pad=layers[1][2], act="relu", out=forms["relu2"],
                 name="conv2")
    y = ops.conv(m, y, *layers[2][:2], pad=layers[2][2], out=forms["fc"], name="fc")
    y = ops.softmax(m, y, out=Quant(1 / 256, -128), cpu=True, name="softmax")
    m.output(ops.reshape(m, y, (1, 10), cpu=True, name="flatten"), "probability")
    for tensor in m.tensors:  # as in the float model, so that layers can be compared
        tensor.name = NAMES.get(tensor.name, tensor.name)
    return m


def as_onnx(network):
    """The float model; its input is real(): mean and deviation are said when it is converted."""
    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs, [output], name=output, **attrs)

    def conv(source, i, output):
        kernel = network.weights[i].shape[2:]
        return node("Conv", [source, f"w{i}", f"b{i}"], output, kernel_shape=kernel,
                    pads=[PADS[i]] * 4, strides=[1, 1])

    nodes = [
        conv("image", 0, "conv1"), node("Relu", ["conv1"], "relu1"),
        node("MaxPool", ["relu1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        conv("pool1", 1, "conv2"), node("Relu", ["conv2"], "relu2"), conv("relu2", 2, "fc"),
        node("Reshape", ["fc", "shape"], "flat"), node("Softmax", ["flat"], "probability", axis=1),
    ]
    constants = {"shape": np.array([1, 10], np.int64)}
    for i, (w, b) in enumerate(zip(network.weights, network.biases)):
        constants.update({f"w{i}": w, f"b{i}": b})
    ends = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8]),
            helper.make_tensor_value_info("probability", TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(nodes, "digits", ends[:1], ends[1:],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                              producer_name="rknnd")
    model.ir_version = 7
    onnx.checker.check_model(model)
    return model


def png(gray):
    """The bytes of an 8-bit grayscale PNG."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width = gray.shape
    rows = b"".join(b"\0" + row.tobytes() for row in gray)
    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def write_pictures(folder, pixels, labels):
    """Two held-out pictures of each digit, named by it, and a sheet of all, ten times as large."""
    folder.mkdir(exist_ok=True)
    chosen = [np.flatnonzero(labels == digit)[:2] for digit in range(10)]
    for digit, rows in enumerate(chosen):
        for k, row in enumerate(rows):
            (folder / f"{digit}_{k}.png").write_bytes(png(pixels[row, :, :, 0]))
    cells = [[np.pad(pixels[rows[k], :, :, 0], 1) for rows in chosen] for k in range(2)]
    sheet = np.kron(np.block(cells), np.ones((10, 10), np.uint8))
    (folder.parent / "digits.png").write_bytes(png(np.ascontiguousarray(sheet)))


def accuracy(guesses, labels):
    return float((np.argmax(guesses, 1) == labels).mean())


def int8_guesses(model, pixels):
    return np.concatenate([reference.outputs(model, [p[None]])[0] for p in pixels])


def main(out):
    train_pixels, train_labels, pixels, labels = pictures()
    network = train(train_pixels, train_labels)
    (out / "digits.onnx").write_bytes(as_onnx(network).SerializeToString())
    model = quantized(network, quantize(out, train_pixels))
    model.save(out / "digits.rknn")
    write_pictures(out / "pictures", pixels, labels)
    floats, int8 = network.classify(real(pixels)), int8_guesses(model, pixels)
    print(f"{len(train_pixels)} pictures to learn from, {len(pixels)} held out")
    print(f"float accuracy {accuracy(floats, labels):.4f}")
    print(f"int8 accuracy  {accuracy(int8, labels):.4f}")
    print(f"same answer    {(floats.argmax(1) == int8.argmax(1)).mean():.4f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE))
