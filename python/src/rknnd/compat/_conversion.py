"""Calls that convert models to .rknn. rknnd runs models, quantizes them, and does not convert them: each call says in a sentence
what does, and answers that it has failed."""
from __future__ import annotations

import os

_WHAT = {
    "reg_custom_op": "a custom operator in Python serves the conversion alone; one that runs is registered with rknnd "
                     "or as a plugin (rknnd(8))",
    "codegen": "programs cannot be generated; examples/digits of rknnd is one to begin with",
    "export_encrypted_rknn_model": "models cannot be encrypted",
    "load_caffe": "Caffe models cannot be read; exporters to ONNX (caffe2onnx) make a file that load_onnx() takes",
    "load_tensorflow": "TensorFlow models cannot be read; tf2onnx makes an ONNX file, which load_onnx() takes",
    "load_tflite": "TensorFlow Lite models cannot be read; tf2onnx (--tflite) makes an ONNX file, which load_onnx() takes",
    "load_darknet": "Darknet models cannot be read; a PyTorch or ONNX export of the net makes a file that load_onnx() takes",
    "load_pytorch": "PyTorch models cannot be read; torch.onnx.export() makes an ONNX file, which load_onnx() takes",
    "rknn_convert": "models cannot be converted",
    "onnx_edit": "ONNX files cannot be edited; the package onnx does that",
}
_SWITCH = "RKNND_EXPORT_ONNX"  # in the environment: 1 is what --export-onnx says
_RUNS = "; an .onnx file runs as it is (load_onnx() and init_runtime()), and RKNN-Toolkit2 converts it to .rknn"


def export_refusal(path: str) -> str:
    """The sentence for export_rknn() of a .rknn file: the calls that make it."""
    onnx = os.path.splitext(path)[0] + "_int8.onnx"
    return (f"export_rknn: rknnd writes no .rknn files: export_rknn({onnx!r}) after build() writes the quantized model as ONNX, of "
            f"which RKNN-Toolkit2 makes {path}: config(target_platform=…) without mean_values and std_values, which are in the "
            f"model, load_onnx({onnx!r}), build(do_quantization=False), export_rknn(); rknnd runs the .onnx as it is. A program "
            f"that is not to be changed goes on with `python3 -m rknnd.compat --export-onnx PROGRAM`, which writes "
            f"{path}.onnx here")


def writes_onnx() -> bool:
    """Whether export_rknn() of a .rknn file writes ONNX beside it, as the environment says."""
    return os.environ.get(_SWITCH, "") not in ("", "0")


def loaded(path: object) -> object:
    """What load_rknn() takes: where export_rknn() writes ONNX beside a .rknn file, and there is no such file, that."""
    if isinstance(path, (str, os.PathLike)) and writes_onnx() and not os.path.exists(path):
        beside = os.fsdecode(path) + ".onnx"
        return beside if os.path.isfile(beside) else path
    return path


def refusal(call: str) -> str:
    """The sentence for a call."""
    return f"{call}: rknnd does not convert models: {_WHAT[call]}{_RUNS}"
