"""Calls that convert models to .rknn. rknnd runs models, quantizes them, and does not convert them: each call says in a sentence
what does, and answers that it has failed."""
from __future__ import annotations

_WHAT = {
    "export_rknn": ".rknn files cannot be written; export_rknn('NAME.onnx') after build() writes the quantized model, which "
                   "RKNN-Toolkit2 converts as it is (load_onnx() and build(do_quantization=False))",
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
_RUNS = "; an .onnx file runs as it is (load_onnx() and init_runtime()), and RKNN-Toolkit2 converts it to .rknn"


def refusal(call: str) -> str:
    """The sentence for a call."""
    return f"{call}: rknnd does not convert models: {_WHAT[call]}{_RUNS}"
