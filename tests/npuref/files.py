"""The shared model files, and what the software NPU computes of them, for those who judge it."""
import json
import os
import pathlib
import subprocess

import numpy as np

from npuref.pixels import convert, converters
from support import rknn_reader

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
FILES = {p.stem: p for p in sorted(MODELS.glob("*/*.rknn"))}
RKNNCTL = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release")) / "bin/rknnctl"
SEED = 7


def inputs_of(model, folder):
    """Inputs like pictures: squares of one value each, and some noise. None: not what is judged here."""
    said = subprocess.run([RKNNCTL, "info", model, "-s", "sim:", "--json"], capture_output=True, check=True)
    rng, arguments, lanes = np.random.default_rng(SEED), [], converters(rknn_reader.read(model.read_bytes()))
    for i, tensor in enumerate(json.loads(said.stdout)["model"]["inputs"]):
        if tensor["type"] not in ("INT8", "FP16") or len(tensor["shape"]) != 4:
            return None
        _, c, h, w = tensor["shape"]
        squares = np.kron(rng.integers(-128, 128, (c, h // 4 + 1, w // 4 + 1)), np.ones((1, 4, 4)))
        x = np.clip(squares[:, :h, :w] + rng.integers(-8, 9, (c, h, w)), -128, 127)
        if tensor["name"] in lanes:
            pixels_of = (x + 128).astype(np.uint8)
            np.save(folder / f"pixels_{i}.npy", pixels_of[None])
            x = convert(pixels_of, lanes[tensor["name"]])
        x = x.astype(np.int8) if tensor["type"] == "INT8" else (x / 64).astype(np.float16)
        np.save(folder / f"in_{i}.npy", x[None])
        np.save(folder / f"native_{i}.npy", native(x, tensor["native_shape"]))
        arguments += ["-i", folder / f"native_{i}.npy"]
    return arguments


def native(x, shape):
    """Channels, height, width as the model stores them: pixels, or blocks of channels."""
    if shape[1] == 1 and shape[-1] == len(x):
        return x.transpose(1, 2, 0)[None].copy()
    padded = np.zeros((shape[1] * shape[-1], *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    return padded.reshape(shape[1], shape[-1], *x.shape[1:]).transpose(0, 2, 3, 1)[None].copy()


def dump_of(model, folder):
    """Every tensor as the software NPU computes it, with the inputs beside them. Returns the folder."""
    arguments = inputs_of(model, folder)
    subprocess.run([RKNNCTL, "dump", model, "-s", "sim:", *arguments, "-o", folder, "--raw", "--pass-through"],
                   check=True, capture_output=True)
    return folder
