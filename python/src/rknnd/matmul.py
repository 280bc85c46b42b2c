"""Products of matrices on the NPU: C = A @ B."""
from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any
from collections.abc import Sequence

import numpy as np

from . import _errors
from ._capi import ffi, lib
from ._native import Array, at_server, check, must, settle

if TYPE_CHECKING:
    import numpy.typing as npt

# (A, B, C) -> rknn_matmul_type, of those that NumPy has types for
_TYPES = {("float16", "float16", "float32"): 1, ("int8", "int8", "int32"): 2, ("int8", "int8", "int8"): 3,
          ("float16", "float16", "float16"): 4, ("float16", "int8", "float32"): 5, ("float16", "int8", "float16"): 6,
          ("int8", "int8", "float32"): 9}
_DEFAULT_C = {("float16", "float16"): "float32", ("int8", "int8"): "int32", ("float16", "int8"): "float32"}
_QUANTIZATION = {"layer": 0, "channel": 2}


def _destroy(handle: int, memories: list[Any], pid: int) -> None:
    if os.getpid() == pid:
        for memory in memories:
            lib.rknn_destroy_mem(handle, memory)
        lib.rknn_matmul_destroy(handle)
        settle()


class MatMul:
    """Multiplies A (m x k) by B (k x n), for B that stays the same over many A.

    `dtypes`  of A, B and C: float16 float16 -> float32 or float16; int8 int8 -> int32, int8 or float32; float16 int8 ->
              float32 or float16
    `scales`  of int8 B: "layer" (one scale) or "channel" (one for each column), for set_scale("B", …)
    `server`  as in Session

    The chip says which k and n it takes (multiples of 32 mostly); what it does not take raises ParameterError.
    """

    def __init__(self, m: int, k: int, n: int, dtypes: Sequence[npt.DTypeLike] = ("float16", "float16", "float32"),
                 server: str | None = None, *, scales: str = "layer", core_mask: int | None = None) -> None:
        first, second, third = (np.dtype(dtype).name for dtype in dtypes)
        names = first, second, third
        if names not in _TYPES or scales not in _QUANTIZATION:
            known = ", ".join(f"{a} x {b} -> {c}" for a, b, c in _TYPES)
            raise _errors.ParameterError(f"a product {names} with scales {scales!r} is not offered: {known}; scales "
                                         "layer or channel")
        info, attrs = ffi.new("rknn_matmul_info *"), ffi.new("rknn_matmul_io_attr *")
        info.M, info.K, info.N = m, k, n
        info.type, info.B_quant_type = _TYPES[names], _QUANTIZATION[scales]
        handle = ffi.new("rknn_matmul_ctx *")
        with at_server(server):
            check(lib.rknn_matmul_create(handle, info, attrs))
        memories: list[Any] = []
        self._handle, self._kept = handle[0], attrs
        self._attrs = {name: ffi.addressof(attrs, name) for name in "ABC"}
        self._close = weakref.finalize(self, _destroy, self._handle, memories, os.getpid())
        self._close.atexit = False
        self._memories: dict[str, Any] = {}
        self._arrays: dict[str, Array] = {}
        shapes = {"A": (m, k), "B": (k, n), "C": (m, n)}
        for (name, attr), dtype in zip(self._attrs.items(), names):
            memory = must(lib.rknn_create_mem(self._handle, attr.size))
            memories.append(memory)
            self._memories[name] = memory
            self._arrays[name] = np.frombuffer(ffi.buffer(memory.virt_addr, attr.size), dtype).reshape(shapes[name])
        check(lib.rknn_matmul_set_io_mem(self._handle, self._memories["C"], self._attrs["C"]))
        if core_mask is not None:
            check(lib.rknn_matmul_set_core_mask(self._handle, core_mask))

    def _fill(self, name: str, matrix: Array) -> None:
        if not self._close.alive:
            raise _errors.ClosedError("the MatMul has been closed: make another one")
        mine = self._arrays[name]
        given = np.asarray(matrix)
        if given.shape != mine.shape:
            raise _errors.InputError(f"{name} is {given.shape}, it takes {mine.shape}")
        if given.dtype != mine.dtype:
            raise _errors.InputError(f"{name} is {given.dtype}, it takes {mine.dtype}: use array.astype(np.{mine.dtype})")
        mine[...] = given
        check(lib.rknn_matmul_set_io_mem(self._handle, self._memories[name], self._attrs[name]))

    def set_b(self, b: Array) -> None:
        """Sets B, (k, n) of its dtype; copied."""
        self._fill("B", b)

    def set_scale(self, name: str, scale: float | Sequence[float] | Array, zero_point: int | Sequence[int] = 0) -> None:
        """Scale of matrix "A", "B" or "C": real value = (stored - zero_point) * scale; one, or for B one for each column."""
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        points = np.broadcast_to(np.asarray(zero_point, np.int32), scales.shape).copy()
        parameters = ffi.new("rknn_quant_params *")
        parameters.name = name.encode()
        kept = ffi.from_buffer("float[]", scales), ffi.from_buffer("int32_t[]", points)
        parameters.scale, parameters.scale_len = kept[0], len(scales)
        parameters.zp, parameters.zp_len = kept[1], len(points)
        check(lib.rknn_matmul_set_quant_params(self._handle, parameters))

    def __call__(self, a: Array) -> Array:
        """A @ B for A (m, k) of its dtype; a new array (m, n)."""
        self._fill("A", a)
        check(lib.rknn_matmul_run(self._handle))
        return np.array(self._arrays["C"])

    def close(self) -> None:
        """Frees what it holds."""
        self._arrays = {}
        self._close()

    def __enter__(self) -> MatMul:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def matmul(a: Array, b: Array, dtype: npt.DTypeLike = None, server: str | None = None) -> Array:
    """a @ b once: float16 or int8 (m, k) by (k, n). `dtype` of the result; None: float32, or int32 for int8."""
    left, right = np.asarray(a), np.asarray(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise _errors.InputError(f"shapes {left.shape} and {right.shape}: it takes (m, k) and (k, n)")
    result = _DEFAULT_C.get((left.dtype.name, right.dtype.name), "float32") if dtype is None else dtype
    with MatMul(left.shape[0], left.shape[1], right.shape[1], (left.dtype, right.dtype, result), server) as product:
        product.set_b(right)
        return product(left)
