"""Parts of ONNX models, between tensors that a program names. The package onnx (Debian: python3-onnx) cuts them."""
from __future__ import annotations

import importlib
import os
from typing import Any

from .. import _errors


def _onnx() -> Any:
    try:
        utils, onnx = importlib.import_module("onnx.utils"), importlib.import_module("onnx")
    except ImportError:
        raise _errors.ParameterError("a part of a model (inputs, outputs) needs the package onnx, which is not installed: install "
                                     "python3-onnx, or leave inputs and outputs away") from None
    if not hasattr(utils, "extract_model"):
        raise _errors.ParameterError(f"a part of a model (inputs, outputs) needs onnx 1.8 or later, and this is {onnx.__version__}")
    return onnx


def _check_names(graph: Any, names: list[str]) -> None:
    made = [name for node in graph.node for name in node.output]
    known = {*made, *(value.name for value in graph.input)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise _errors.ParameterError(f"the model has no tensor {', '.join(unknown)}: its last ones are {', '.join(made[-8:])}")


def cut(model: str, inputs: list[str], outputs: list[str], folder: str) -> str:
    """Writes the part of the model between these tensors into the folder; the file's path."""
    onnx = _onnx()
    path = os.path.join(folder, os.path.basename(model))
    try:
        _check_names(onnx.load(model, load_external_data=False).graph, inputs + outputs)
        onnx.utils.extract_model(model, path, inputs, outputs)
    except _errors.Error:
        raise
    except Exception as error:  # whatever that package raises
        said = " ".join(str(error).split())
        raise _errors.ModelError(f"{model} cannot be cut between {', '.join(inputs)} and {', '.join(outputs)}: {said} (an input "
                                 "that is missing goes into inputs)") from error
    return path
