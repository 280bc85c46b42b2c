"""One model on one server: what both RKNNLite and RKNN run on, and `rknn_runtime` of their objects."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Callable
from collections.abc import Mapping, Sequence

import numpy as np

from .. import _capi, _errors, _native
from .._capi import ffi, lib
from .._native import Array
from . import _ctypes, _inputs

Shape = tuple[int, ...]
Warn = Callable[[str], None]


class RKNNRuntime:
    """A context with the habits of Python programs.

    `model`     path of a .rknn or .onnx file
    `server`    URI; None: as the environment says
    `flags`     RKNN_FLAG_*
    `options`   text of rknnd_set_load_options()
    `constants` inputs that programs do not give, by index
    `warn`      takes words

    May be used by several threads, which wait for each other. What fails raises rknnd.Error.
    """

    def __init__(self, model: str, server: str | None = None, flags: int = 0, options: str | None = None,
                 constants: Mapping[int, Array] | None = None, warn: Warn = lambda _words: None) -> None:
        self._warn = warn
        self._constants = dict(constants or {})
        self._context = _native.Context(model, server, flags, options)
        self._shape_sets = self._query_shape_sets()
        self._chosen = -1 if self._shape_sets else 0
        self._read_infos()

    # ---- what is known of the model

    def _query_shape_sets(self) -> list[list[Shape]]:
        """The shapes that the inputs can take, one list for each set; none: there is only one set."""
        ranges = []
        for index in range(self._context.n_inputs):
            found = ffi.new("rknn_input_range *")
            found.index = index
            if lib.rknn_query(self._context.handle, lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, found, ffi.sizeof(found[0])):
                return []
            ranges.append([tuple(found.dyn_range[i][0:found.n_dims]) for i in range(found.shape_number)])
        return [list(shapes) for shapes in zip(*ranges)]

    def _read_infos(self) -> None:
        context = self._context
        self._infos = [context.input_info(i) for i in range(context.n_inputs)]
        self._output_shapes = [context.output_info(i).shape for i in range(context.n_outputs)]

    @property
    def is_dynamic_shape(self) -> bool:
        """Whether the inputs may take several shapes."""
        return bool(self._shape_sets)

    @property
    def lib(self) -> ctypes.CDLL:
        """The C library."""
        return _ctypes.library()

    @property
    def context(self) -> _ctypes.Handle:
        """The rknn_context."""
        return _ctypes.Handle(self._context.handle)

    @property
    def native(self) -> _native.Context:
        """The context as the rest of rknnd knows it."""
        return self._context

    @property
    def input_infos(self) -> list[_native.TensorInfo]:
        """All inputs, in the shapes that are set."""
        return list(self._infos)

    def get_in_out_num(self) -> tuple[int, int]:
        """How many inputs and outputs the model has."""
        return self._context.n_inputs, self._context.n_outputs

    def get_tensor_attr(self, index: int, is_output: bool = False) -> _ctypes.RKNNTensorAttr:
        """Attributes of an input or output in the shape that is set."""
        attr = _ctypes.RKNNTensorAttr(index=index)
        command = lib.RKNN_QUERY_CURRENT_OUTPUT_ATTR if is_output else lib.RKNN_QUERY_CURRENT_INPUT_ATTR
        self._query(command, attr)
        return attr

    def get_output_shape(self, index: int) -> list[int]:
        """Shape of an output that inference() returns."""
        return list(self._output_shapes[index])

    def get_run_perf(self) -> _ctypes.RKNNPerfRun:
        """`run_duration` of the last run, in microseconds."""
        perf = _ctypes.RKNNPerfRun()
        self._query(lib.RKNN_QUERY_PERF_RUN, perf)
        return perf

    def get_custom_string(self) -> str:
        """The text that the model's maker has put into it."""
        found = _ctypes.RKNNCustomString()
        self._query(lib.RKNN_QUERY_CUSTOM_STRING, found)
        return bytes(found.string).decode("utf-8", "replace")

    def get_versions(self) -> tuple[str, str]:
        """Of the library's interface, and of the driver."""
        found = _ctypes.RKNNSDKVersion()
        self._query(lib.RKNN_QUERY_SDK_VERSION, found)
        api, driver = bytes(found.api_version), bytes(found.drv_version)
        return api.decode("utf-8", "replace"), driver.decode("utf-8", "replace")

    def get_perf_detail(self) -> str:
        """The table of layers of the last run."""
        with self._context.lock:
            detail = self._context.query(lib.RKNN_QUERY_PERF_DETAIL, ffi.new("rknn_perf_detail *"))
            return bytes(ffi.buffer(detail.perf_data, detail.data_len)).rstrip(b"\0").decode("utf-8", "replace")

    def _query(self, command: int, info: ctypes.Structure) -> None:
        address = ffi.cast("void *", ctypes.addressof(info))
        _native.check(lib.rknn_query(self._context.handle, command, address, ctypes.sizeof(info)))

    def _get_rknn_api_lib_path(self) -> str:
        """Where the C library lies. Programs that replace this method, to have another one, are not followed: only
        rknnd's library can be used here."""
        return _capi.path

    # ---- runs

    def set_core_mask(self, core_mask: int) -> int:
        """Cores of the runs from now on; 0, or the C library's code."""
        return int(lib.rknn_set_core_mask(self._context.handle, core_mask))

    def _choose_shapes(self, arrays: Sequence[Array], formats: Sequence[str]) -> None:
        """Sets the shapes that the arrays have, where the model can take several."""
        for number, shapes in enumerate(self._shape_sets):
            if all(_inputs.fits(array, self._with_shape(info, shape), data_format)
                   for array, info, shape, data_format in zip(arrays, self._infos, shapes, formats)):
                if number != self._chosen:
                    self._set_shapes(shapes)
                    self._chosen = number
                return
        known = " or ".join(str([tuple(shape) for shape in shapes]) for shapes in self._shape_sets)
        raise _errors.InputError(f"inputs have shapes {[array.shape for array in arrays]}, and the model takes {known}: "
                                 "resize them to one of these")

    @staticmethod
    def _with_shape(info: _native.TensorInfo, shape: Shape) -> _native.TensorInfo:
        return dataclasses.replace(info, shape=tuple(shape), n_elems=int(np.prod(shape)))

    def _set_shapes(self, shapes: Sequence[Shape]) -> None:
        attrs = ffi.new("rknn_tensor_attr[]", len(shapes))
        for index, (attr, shape) in enumerate(zip(attrs, shapes)):
            known = self._context.attr(lib.RKNN_QUERY_INPUT_ATTR, index)
            ffi.memmove(ffi.addressof(attr), known, ffi.sizeof("rknn_tensor_attr"))
            attr.n_dims = len(shape)
            attr.dims[0:len(shape)] = list(shape)
        _native.check(lib.rknn_set_input_shapes(self._context.handle, len(shapes), attrs))
        self._read_infos()

    def _complete(self, inputs: object) -> object:
        """The program's inputs with the constants between them."""
        if not self._constants or not isinstance(inputs, (list, tuple)):
            return inputs
        completed = list(inputs)
        for index in sorted(self._constants):
            completed.insert(index, self._constants[index])
        return completed

    def set_inputs(self, inputs: object, data_type: object = None, data_format: object = None,
                   inputs_pass_through: object = None) -> None:
        """Sets all inputs. `data_type` is ignored: an array's dtype says it."""
        infos = self._infos
        arrays = _inputs.check_arrays(self._complete(inputs), len(infos))
        formats = _inputs.check_formats(data_format, len(infos))
        flags = _inputs.check_pass_through(inputs_pass_through, len(infos))
        with self._context.lock:
            if self._shape_sets and not any(flags):
                self._choose_shapes(arrays, formats)
            given = _inputs.prepare(arrays, self._infos, formats, flags, self._warn)
            for info, one in zip(self._infos, given):
                if one.pass_through:
                    _native.check_native_size(self._context, info, one.array)
            self._context.set_inputs([(i, one.array, one.layout, one.pass_through) for i, one in enumerate(given)])

    def run(self) -> int:
        """One run; the number of its frame."""
        return self._context.run()

    def get_outputs(self) -> tuple[list[Array], int]:
        """New float32 arrays in the model's own shapes, and the number of the frame that they are of."""
        arrays = [np.empty(shape, np.float32) for shape in self._output_shapes]
        return arrays, self._context.get_outputs(arrays)

    def infer(self, inputs: object, data_format: object = None,
              inputs_pass_through: object = None) -> tuple[list[Array], int]:
        """Inputs, a run, and its outputs with their frame's number; nobody else's run comes between."""
        with self._context.lock:
            self.set_inputs(inputs, None, data_format, inputs_pass_through)
            self._context.run()
            return self.get_outputs()

    def set_any_inputs(self) -> None:
        """Zeros, where only the time of a run matters."""
        if self._chosen < 0:
            largest = max(self._shape_sets, key=lambda shapes: sum(int(np.prod(shape)) for shape in shapes))
            self._chosen = self._shape_sets.index(largest)
            self._set_shapes(largest)
        given = []
        for info in self._infos:
            dtype = info.numpy_dtype if info.dtype in ("int64", "int32", "bool") else np.dtype(np.uint8)
            layout = _native.NHWC if len(info.shape) == 4 else _native.UNDEFINED
            given.append((info.index, np.zeros(info.shape, dtype), layout, False))
        self._context.set_inputs(given)

    def release(self) -> None:
        """Ends the context. More than once is fine."""
        self._context.close()
