"""The shared model files, and what the software NPU computes of them, for those who judge it."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np

from npuref.pixels import convert, converters
from support import rknn_reader
from support.checks.sample import of_this_run
from support.service import Daemon

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
FILES = {p.stem: p for p in sorted(MODELS.glob("*/*.rknn"))}
BUILD = pathlib.Path(os.environ.get("RKNND_BUILD", "build/release"))
RKNNCTL = BUILD / "bin/rknnctl"
PLUGIN = BUILD / "tests/integration/libplugin_good.so"  # of the operator that shared files have
# Files of more than 1.5 * 10^9 products, three fifths of the work of all. The others have every operator, and every generation of
# chips; test_emulator has each node of these, too, every time. Whole, they are run by the tests that end in _rest.
LARGE = {
    "deconv_depthwise.rk3566", "lpd_yolov8n.rk3562", "lpd_yolov8n.rk3588", "mobilenetv2_batch8.rk3588",
    "yolo26n_seven_sections.rv1106", "yolov5n_silu.rk3588", "yolov8.rv1103",
}
SEED = 7
PATIENCE = 600  # seconds, on a machine that others use
CONTAINER, BATCH = 6, 14  # its root has in this slot how many inputs a run has
KINDS = {"INT8": np.int8, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32}


def chosen(names):
    """Those of this run: the small ones, or the LARGE."""
    return of_this_run(names, lambda name: name not in LARGE)


def said_inputs(model):
    said = subprocess.run([RKNNCTL, "info", model, "-s", "sim:", "--json"], capture_output=True, check=True)
    return json.loads(said.stdout)["model"]["inputs"]


def inputs_of(model, folder):
    """Inputs like pictures: squares of one value each, and some noise. None: not what is judged here."""
    inputs, file = said_inputs(model), rknn_reader.read(model.read_bytes())
    rng, arguments, lanes = np.random.default_rng(SEED), [], converters(file)
    batch = max(1, int(file.root.text(BATCH) or 1)) if file.container == CONTAINER else 1
    for i, tensor in enumerate(inputs):
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
        np.save(folder / f"native_{i}.npy", np.repeat(native(x, tensor["native_shape"]), batch, 0))
        arguments += ["-i", folder / f"native_{i}.npy"]
    return arguments


def numbers_of(model, folder):
    """Inputs that are no pictures: small numbers, in the model's own form."""
    rng, arguments = np.random.default_rng(SEED), []
    for i, tensor in enumerate(said_inputs(model)):
        x = rng.integers(0, 20, tensor["native_shape"]).astype(KINDS[tensor["type"]])
        np.save(folder / f"native_{i}.npy", x)
        np.save(folder / f"in_{i}.npy", x.reshape(tensor["shape"]))
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
    arguments = inputs_of(model, folder) or numbers_of(model, folder)
    plugins = folder / "plugins"
    plugins.mkdir()
    shutil.copy(PLUGIN, plugins / "librkcst_good.so")
    daemon = Daemon("--backend", "sim:any", "--plugin-dir", plugins)
    try:
        ran = daemon.rknnctl("dump", model, *arguments, "-o", folder, "--raw", "--pass-through", patience=PATIENCE)
        if ran.returncode:
            raise subprocess.CalledProcessError(ran.returncode, ran.args, ran.stdout, ran.stderr)
    finally:
        daemon.stop()
    return folder
