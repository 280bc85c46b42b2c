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
from ._native import Array, NotCopied, at_server, check, must, settle

if TYPE_CHECKING:
    import numpy.typing as npt

# (A, B, C) -> rknn_matmul_type
_TYPES = {("float16", "float16", "float32"): 1, ("int8", "int8", "int32"): 2, ("int8", "int8", "int8"): 3,
          ("float16", "float16", "float16"): 4, ("float16", "int8", "float32"): 5, ("float16", "int8", "float16"): 6,
          ("float16", "int4", "float32"): 7, ("float16", "int4", "float16"): 8, ("int8", "int8", "float32"): 9,
          ("int4", "int4", "int16"): 10, ("int8", "int4", "int32"): 11, ("float16", "int4", "bfloat16"): 12,
          ("int8", "int4", "float16"): 15}
_DEFAULT_C = {("float16", "float16"): "float32", ("int8", "int8"): "int32", ("float16", "int8"): "float32"}
_SCALES = {"layer": 0, "layer asymmetric": 1, "channel": 2, "channel asymmetric": 3, "group": 4, "group asymmetric": 5}
_LAYOUTS = {"normal": 0, "native": 1, "transposed": 2}
# How programs have what NumPy has no type for.
_IN_NUMPY = {"int4": "int8", "bfloat16": "float32"}


def _name(dtype: npt.DTypeLike) -> str:
    return str(dtype) if isinstance(dtype, str) and dtype in _IN_NUMPY else np.dtype(dtype).name


class _Matrix:
    """A, B or C in memory that the device has: arrays of the program's go in and out."""

    def __init__(self, attr: Any, dtype: str, memory: Any) -> None:
        self.attr, self.dtype, self.memory = attr, dtype, memory
        self.shape = tuple(attr.dims[0:attr.n_dims])
        self.numpy_dtype = np.dtype(_IN_NUMPY.get(dtype, dtype))
        self._bytes: Array = np.frombuffer(ffi.buffer(memory.virt_addr, attr.size), np.uint8)

    def write(self, name: str, matrix: Array) -> None:
        given = np.asarray(matrix)
        if given.shape != self.shape:
            raise _errors.InputError(f"{name} is {given.shape}, it takes {self.shape}")
        if given.dtype != self.numpy_dtype:
            raise _errors.InputError(f"{name} is {given.dtype}, it takes {self.numpy_dtype}: use "
                                     f"array.astype(np.{self.numpy_dtype})")
        if self.dtype != "int4":
            self._bytes.view(given.dtype).reshape(self.shape)[...] = given
            return
        if given.size and (given.min() < -8 or given.max() > 7):
            raise _errors.InputError(f"{name} is int4, and has values from {given.min()} to {given.max()}: use "
                                     "np.clip(array, -8, 7)")
        pairs = np.ascontiguousarray(given).reshape(-1, 2)  # the first one of two in the lower bits
        self._bytes[...] = (pairs[:, 0] & 15) | (pairs[:, 1] << 4)

    def read(self) -> Array:
        """A new array."""
        if self.dtype == "bfloat16":  # the upper half of a float32
            return (self._bytes.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return self._bytes.view(self.numpy_dtype).reshape(self.shape).copy()


def _destroy(handle: int, memories: list[Any], pid: int) -> None:
    if os.getpid() == pid:
        for memory in memories:
            lib.rknn_destroy_mem(handle, memory)
        lib.rknn_matmul_destroy(handle)
        settle()


class MatMul(NotCopied):
    """Multiplies A (m x k) by B (k x n), for B that stays the same over many A.

    `dtypes`  of A, B and C: float16 float16 -> float32 or float16; int8 int8 -> int32, int8 or float32; float16 int8 ->
              float32 or float16; float16 int4 -> float32, float16 or bfloat16; int8 int4 -> int32 or float16; int4 int4 ->
              int16. Arrays of "int4" are int8 from -8 to 7, those of "bfloat16" float32
    `scales`  of B, for set_scale("B", …): one for the "layer", one for each "channel" (column), or for each "group" of
              `group_size` rows of a column; with " asymmetric" behind it there are zero points
    `b_layout`   "normal": B is (k, n); "transposed": (n, k); "native": blocks as the NPU reads them, see native_b()
    `ac_layout`  of A and C: "normal", or "native": blocks; `shapes` says which
    `server`  as in Session

    >>> with MatMul(2, 64, 64, ("int8", "int4", "int32"), "sim:rk3576") as product:
    ...     product.set_b(np.full((64, 64), -3, np.int8))
    ...     product(np.ones((2, 64), np.int8))[0, :2]
    array([-192, -192], dtype=int32)

    The chip says which types, k and n it takes (multiples of 32 mostly); what it does not take raises ParameterError.
    """

    def __init__(self, m: int, k: int, n: int, dtypes: Sequence[npt.DTypeLike] = ("float16", "float16", "float32"),
                 server: str | None = None, *, scales: str = "layer", group_size: int = 0, b_layout: str = "normal",
                 ac_layout: str = "normal", core_mask: int | None = None) -> None:
        first, second, third = (_name(dtype) for dtype in dtypes)
        names = first, second, third
        if names not in _TYPES:
            known = ", ".join(f"{a} x {b} -> {c}" for a, b, c in _TYPES)
            raise _errors.ParameterError(f"a product {first} x {second} -> {third} is not offered: {known}; convert the "
                                         "matrices with array.astype()")
        info = ffi.new("rknn_matmul_info *")
        info.M, info.K, info.N, info.group_size = m, k, n, group_size
        info.type, info.B_quant_type = _TYPES[names], _chosen("scales", _SCALES, scales)
        info.B_layout, info.AC_layout = _chosen("b_layout", _LAYOUTS, b_layout), _chosen("ac_layout", _LAYOUTS, ac_layout)
        self._info, self._server = info, server
        attrs, handle = ffi.new("rknn_matmul_io_attr *"), ffi.new("rknn_matmul_ctx *")
        with at_server(server):
            check(lib.rknn_matmul_create(handle, info, attrs))
        memories: list[Any] = []
        self._handle, self._kept = handle[0], attrs
        self._close = weakref.finalize(self, _destroy, self._handle, memories, os.getpid())
        self._close.atexit = False
        self._matrices: dict[str, _Matrix] = {}
        for name, dtype in zip("ABC", names):
            attr = ffi.addressof(attrs, name)
            memory = must(lib.rknn_create_mem(self._handle, attr.size))
            memories.append(memory)
            self._matrices[name] = _Matrix(attr, dtype, memory)
        self._set("C")
        if core_mask is not None:
            check(lib.rknn_matmul_set_core_mask(self._handle, core_mask))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of "A", "B" and "C" in the layouts that were chosen."""
        return {name: self._matrix(name).shape for name in "ABC"}

    def _matrix(self, name: str) -> _Matrix:
        if not self._close.alive:
            raise _errors.ClosedError("the MatMul has been closed: make another one")
        return self._matrices[name]

    def _set(self, name: str) -> None:
        matrix = self._matrix(name)
        check(lib.rknn_matmul_set_io_mem(self._handle, matrix.memory, matrix.attr))

    def _fill(self, name: str, matrix: Array) -> None:
        self._matrix(name).write(name, matrix)
        self._set(name)

    def set_b(self, b: Array) -> None:
        """Sets B, of its dtype and in its layout; copied."""
        self._fill("B", b)

    def native_b(self, b: Array) -> Array:
        """B (k, n), of 1 byte or more, as set_b() takes it with b_layout="native": for B that is kept in this form."""
        matrix = self._matrix("B")
        if self._info.B_layout != _LAYOUTS["native"] or matrix.dtype == "int4":
            raise _errors.ParameterError(f'B is {matrix.dtype}, open the MatMul with b_layout="native" and another type than int4 '
                                         "for native_b()")
        plain = np.ascontiguousarray(b)
        if plain.shape != (self._info.K, self._info.N) or plain.dtype != matrix.numpy_dtype:
            raise _errors.InputError(f"B is {plain.dtype} {plain.shape}, it takes {matrix.numpy_dtype} "
                                     f"{(self._info.K, self._info.N)}")
        made = np.empty(matrix.shape, matrix.numpy_dtype)
        source, target = ffi.from_buffer("char[]", plain), ffi.from_buffer("char[]", made, require_writable=True)
        with at_server(self._server):  # its chip's blocks
            check(lib.rknn_B_normal_layout_to_native_layout(source, target, self._info.K, self._info.N, self._info))
        return made

    def set_scale(self, name: str, scale: float | Sequence[float] | Array, zero_point: int | Sequence[int] = 0) -> None:
        """Scale of matrix "A", "B" or "C": real value = (stored - zero_point) * scale; one, or for B as many as `scales` of
        the MatMul says (groups: an array (n, k / group_size))."""
        self._matrix(name)
        scales = np.asarray(scale, np.float32).reshape(-1)
        points = np.broadcast_to(np.asarray(zero_point, np.int32).reshape(-1), scales.shape).copy()
        parameters = ffi.new("rknn_quant_params *")
        parameters.name = name.encode()
        kept = ffi.from_buffer("float[]", scales), ffi.from_buffer("int32_t[]", points)
        parameters.scale, parameters.scale_len = kept[0], len(scales)
        parameters.zp, parameters.zp_len = kept[1], len(points)
        check(lib.rknn_matmul_set_quant_params(self._handle, parameters))

    def __call__(self, a: Array) -> Array:
        """A @ B for A (m, k) of its dtype, in its layout; a new array (m, n), or blocks."""
        self._fill("A", a)
        check(lib.rknn_matmul_run(self._handle))
        return self._matrix("C").read()

    def close(self) -> None:
        """Frees what it holds."""
        self._matrices = {}  # their arrays end with the memory
        self._close()

    def __enter__(self) -> MatMul:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _chosen(what: str, known: dict[str, int], given: str) -> int:
    if given not in known:
        raise _errors.ParameterError(f"{what} is {given!r}: one of {', '.join(known)}")
    return known[given]


def matmul(a: Array, b: Array, dtype: npt.DTypeLike = None, server: str | None = None) -> Array:
    """a @ b once: float16 or int8 (m, k) by (k, n). `dtype` of the result; None: float32, or int32 for int8.

    >>> matmul(np.ones((4, 64), np.float16), np.ones((64, 32), np.float16), server="sim:rk3588").shape
    (4, 32)
    """
    left, right = np.asarray(a), np.asarray(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise _errors.InputError(f"shapes {left.shape} and {right.shape}: it takes (m, k) and (k, n)")
    result = _DEFAULT_C.get((left.dtype.name, right.dtype.name), "float32") if dtype is None else dtype
    with MatMul(left.shape[0], left.shape[1], right.shape[1], (left.dtype, right.dtype, result), server) as product:
        product.set_b(right)
        return product(left)
