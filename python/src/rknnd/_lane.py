"""What one run after another in a context needs, made once: a run costs little more than its C calls."""
from __future__ import annotations

from typing import Any
from collections.abc import Sequence

import numpy as np

from . import _arrays, _errors
from ._capi import ffi, lib
from ._native import FORMATS, TYPE_OF_DTYPE, Array, Context, TensorInfo, check, check_native_size, milliseconds

_from_buffer = ffi.from_buffer
_INPUT_INVALID = int(lib.RKNN_ERR_INPUT_INVALID)
_INPUT_ADVICE = "Session.inputs says what the model takes, and array.astype(np.float32) is taken instead of other numbers"


class Lane:
    """A context and its records. One thread at a time."""

    def __init__(self, context: Context, shape_sets: list[list[tuple[int, ...]]]) -> None:
        self.context, self._shape_sets = context, shape_sets
        self._inputs = ffi.new("rknn_input[]", max(context.n_inputs, 1))
        self._outputs = ffi.new("rknn_output[]", max(context.n_outputs, 1))
        self._extend = ffi.new("rknn_run_extend *")
        self._extend.fence_fd = -1
        self.bound: dict[int, Array] = {}  # outputs that runs write to memory
        self.thread = 0  # whose turn it is; 0: nobody's
        self._look()

    def _look(self) -> None:
        """Takes the shapes down that are set."""
        context = self.context
        self.input_infos = [context.input_info(i) for i in range(context.n_inputs)]
        self.output_infos = [context.output_info(i) for i in range(context.n_outputs)]

    def run(self, inputs: Any, layout: Any, pass_through: Any, raw: bool, out: Sequence[Array] | None,
            timeout: float | None) -> list[Array]:
        """See Session.run()."""
        self._extend.timeout_ms = 0 if timeout is None else milliseconds(timeout, "timeout")
        self.set_inputs(inputs, layout, pass_through)
        check(lib.rknn_run(self.context.handle, self._extend))
        return self._get_outputs(raw, out)

    def set_inputs(self, inputs: Any, layout: Any = None, pass_through: Any = False) -> None:
        """None: what is set stays."""
        if inputs is None:
            return
        infos = self.input_infos
        values = _arrays.arrange(infos, inputs)
        if self._shape_sets:
            self._choose_shapes(values, layout)
            infos = self.input_infos
        count, kept = 0, []
        layouts = _arrays.each(layout, len(infos), "layout")
        passes = _arrays.each(pass_through, len(infos), "pass_through")
        for info, value, order, passed in zip(infos, values, layouts, passes):
            if value is None:
                continue
            if passed:
                array, number = np.ascontiguousarray(value), info.layout_number
                check_native_size(self.context, info, array)
            else:
                array, number = _arrays.prepare(info, value, order)
            record, data = self._inputs[count], _from_buffer(array)
            kept.append((array, data))
            record.index, record.buf, record.size = info.index, data, array.nbytes
            record.pass_through = bool(passed)
            record.type = TYPE_OF_DTYPE.get(array.dtype, 0)
            record.fmt = number
            count += 1
        if count:
            result = lib.rknn_inputs_set(self.context.handle, count, self._inputs)
            check(result, _INPUT_ADVICE if result == _INPUT_INVALID else "")

    def _choose_shapes(self, values: list[Any], layout: Any) -> None:
        """Sets the shapes that the arrays have, if the model has such a set."""
        shapes = []
        for info, value, order in zip(self.input_infos, values, _arrays.each(layout, len(values), "layout")):
            shape = tuple(np.shape(value)) if value is not None else info.shape
            if len(shape) == 3 and len(info.shape) == 4:
                shape = (1, *shape)
            if len(shape) == 4 and order == "nchw":
                shape = (shape[0], shape[2], shape[3], shape[1])
            shapes.append(shape)
        if shapes == [info.shape for info in self.input_infos] or shapes not in self._shape_sets:
            return  # an unknown one is refused with the words for a wrong shape
        attrs = ffi.new("rknn_tensor_attr[]", len(shapes))
        for attr, info, shape in zip(attrs, self.input_infos, shapes):
            attr.index, attr.name, attr.n_dims = info.index, info.name.encode(), len(shape)
            attr.dims[0:len(shape)] = list(shape)
            attr.fmt = FORMATS["nhwc"] if len(shape) == 4 else FORMATS["undefined"]
        check(lib.rknn_set_input_shapes(self.context.handle, len(shapes), attrs))
        self._look()

    def _get_outputs(self, raw: bool, out: Sequence[Array] | None) -> list[Array]:
        if out is None:
            arrays = [self.bound[info.index] if info.index in self.bound else
                      np.empty(info.shape, _raw_dtype(info) if raw else np.float32) for info in self.output_infos]
        else:
            if isinstance(out, np.ndarray):
                raise _errors.OutputError("out is an array: give a list with one for each output, out=[array]")
            arrays = list(out)
            self._check_out(arrays, raw)
        count, kept = 0, []
        for index, array in enumerate(arrays):
            if index in self.bound:
                continue
            data, record = _from_buffer(array, require_writable=True), self._outputs[count]
            kept.append(data)
            record.want_float, record.is_prealloc = not raw, 1
            record.index, record.buf, record.size = index, data, array.nbytes
            count += 1
        if count:
            check(lib.rknn_outputs_get(self.context.handle, count, self._outputs, ffi.NULL))
        return arrays

    def _check_out(self, arrays: list[Array], raw: bool) -> None:
        infos = self.output_infos
        if self.bound:
            raise _errors.OutputError("out cannot be given with outputs that are bound to memory: they are there")
        if len(arrays) != len(infos):
            raise _errors.OutputError(f"out has {len(arrays)} arrays, the model {len(infos)} outputs: one for each")
        for info, array in zip(infos, arrays):
            dtype = _raw_dtype(info) if raw else np.dtype(np.float32)
            if array.shape != info.shape or array.dtype != dtype or not array.flags.c_contiguous:
                raise _errors.OutputError(
                    f"out[{info.index}] ({info.name}) is {array.dtype} {array.shape}, it takes a contiguous {dtype} "
                    f"{info.shape}: use np.empty({info.shape}, np.{dtype})")


def _raw_dtype(info: TensorInfo) -> np.dtype[Any]:
    if info.dtype in ("int4", "bfloat16"):
        raise _errors.OutputError(f"output {info.index} ({info.name}) is {info.dtype}, which NumPy does not have: take it "
                                  "as float32 (raw=False)")
    return info.numpy_dtype
