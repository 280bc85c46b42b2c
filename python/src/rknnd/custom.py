"""Operators of a model that the program computes, in Python."""
from __future__ import annotations

from typing import Any, Callable
from collections.abc import Sequence

import numpy as np

from . import _errors
from ._capi import ffi, lib
from ._native import DTYPE_OF_TYPE, Array, Context, check, keep_raised

Compute = Callable[[Sequence[Array], Sequence[Array], "Attributes"], None]
"""compute(inputs, outputs, attributes): reads `inputs` and writes into `outputs` (outputs[0][...] = …). The arrays are
float32, or int64 where the model says so, in the model's shape (NCHW of pictures); they are the library's memory, valid
during the call."""


class Attributes:
    """The node's attributes by name; attributes["name"] is the node's own name. Valid during the call."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def get(self, name: str, default: Any = None) -> Any:
        """An array, or a str where the model has text; `default` if the node has no such attribute."""
        attr = ffi.new("rknn_custom_op_attr *")
        lib.rknn_custom_op_get_op_attr(self._context, name.encode(), attr)
        if attr.n_elems == 0:
            return default
        dtype = DTYPE_OF_TYPE.get(attr.dtype)
        if dtype is None:
            raise _errors.Error(f"attribute {name} has type {attr.dtype}, which NumPy does not have")
        data = ffi.buffer(attr.data, attr.n_elems * dtype.itemsize)
        if attr.dtype == lib.RKNN_TENSOR_UINT8:
            return bytes(data).split(b"\0", 1)[0].decode("utf-8", "replace")
        return np.frombuffer(data, dtype).copy()

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found


def _view(tensor: Any) -> Array:
    dtype = DTYPE_OF_TYPE[tensor.attr.type]
    if dtype != np.int64:
        dtype = np.dtype(np.float32)
    shape = tuple(tensor.attr.dims[0:tensor.attr.n_dims])
    address = ffi.cast("char *", tensor.mem.virt_addr) + tensor.mem.offset
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(ffi.buffer(address, size), dtype).reshape(shape)


def register(context: Context, op_type: str, compute: Compute) -> None:
    """Computes the context's nodes of type `op_type` with `compute`, in whatever thread runs the model. Before the first
    run. What `compute` raises comes out of the run."""

    if not callable(compute):
        raise _errors.ParameterError(f"compute is {compute!r}: give a function, see rknnd.custom.Compute")

    def call(op_context: Any, inputs: Any, n_inputs: int, outputs: Any, n_outputs: int) -> int:
        sources = [_view(inputs[i]) for i in range(n_inputs)]
        for source in sources:
            source.flags.writeable = False
        compute(sources, [_view(outputs[i]) for i in range(n_outputs)], Attributes(op_context))
        return 0

    callback = ffi.callback("int(rknn_custom_op_context *, rknn_custom_op_tensor *, uint32_t, rknn_custom_op_tensor *,"
                            " uint32_t)", call, error=lib.RKNN_ERR_FAIL, onerror=keep_raised)
    operator = ffi.new("rknn_custom_op *")
    name = op_type.encode()
    if len(name) >= len(operator.op_type):
        raise _errors.ParameterError(f"an operator's type has at most {len(operator.op_type) - 1} bytes: {op_type[:40]}…")
    operator.version, operator.target, operator.op_type = 1, lib.RKNN_TARGET_TYPE_CPU, name
    operator.compute = callback
    check(lib.rknn_register_custom_ops(context.handle, operator, 1))
    context.kept += [callback, call]
