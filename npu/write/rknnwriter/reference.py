"""What a described model computes, in plain numpy: each operator in real numbers on dequantized
values, then stored in the output's type. Only int8 convolutions count in integers, because their
bias, multiplier and shift are part of the file."""

import numpy as np

from . import pack

_OPERATORS = {}


def reference(*ops):
    """Registers `function(node, *real inputs) -> real output(s)` for operators."""

    def register(function):
        for op in ops:
            assert op not in _OPERATORS, op
            _OPERATORS[op] = function
        return function

    return register


def reference_stored(*ops):
    """… `function(node, *stored inputs) -> stored output(s)`, for those that need the steps."""

    def register(function):
        function.stored = True
        return reference(*ops)(function)

    return register


def load(tensor, stored):
    """Stored values as real numbers. A scale of what is real already means nothing."""
    scaled = tensor.quant and not tensor.dtype.startswith("float")
    return tensor.quant.load(stored) if scaled else np.asarray(stored, np.float64)


def store(tensor, real):
    """Real numbers as the tensor stores them."""
    if tensor.quant:
        return tensor.quant.store(real)
    if tensor.dtype == "int8":
        return np.clip(np.rint(real), -128, 127).astype(np.int8)
    return np.asarray(real).astype(pack.DTYPES[tensor.dtype])


def prepare_input(tensor, array):
    """A program's input (NHWC when 4-D, as rknn_inputs_set takes it) as the tensor stores it."""
    x = np.asarray(array, np.float64)
    if len(tensor.shape) == 4:
        x = x.reshape([tensor.shape[i] for i in (0, 2, 3, 1)]).transpose(0, 3, 1, 2)
        if tensor.preprocess["rgb2bgr"]:
            x = x[:, ::-1]
        mean, std = (np.array(tensor.preprocess[k], np.float64) for k in ("mean", "std"))
        x = (x - mean[:, None, None]) / std[:, None, None]
    return store(tensor, x.reshape(tensor.shape))


def run(model, arrays):
    """All tensors' stored values by tensor, from the programs' inputs."""
    values = {t: prepare_input(t, a) for t, a in zip(model.inputs, arrays)}
    values.update({t: t.value for t in model.tensors if t.value is not None})
    for node in model.nodes:
        values.update(_node_values(node, values))
    return values


def run_from(model, first, values):
    """The same from node `first` on, from the values of all tensors before it."""
    values = dict(values)
    for node in model.nodes[model.nodes.index(first) :]:
        values.update(_node_values(node, values))
    return values


def _node_values(node, values):
    function = _OPERATORS[node.op]
    inputs = [values.get(t) if t is not None else None for t in node.inputs]
    if not getattr(function, "stored", False):
        inputs = [None if v is None else load(t, v) for t, v in zip(node.inputs, inputs)]
    results, found = function(node, *inputs), {}
    results = results if isinstance(results, (list, tuple)) else [results]
    for tensor, result in zip(node.outputs, results):
        if tensor is None:
            continue
        stored = result if getattr(function, "stored", False) else store(tensor, result)
        assert stored.shape == tensor.shape, (node.name, stored.shape, tensor.shape)
        found[tensor] = stored
    return found


def outputs(model, arrays):
    """The outputs as float32, as rknn_outputs_get with want_float gives them."""
    values = run(model, arrays)
    return [load(t, values[t]).astype(np.float32) for t in model.outputs]
