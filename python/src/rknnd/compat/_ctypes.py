"""The C library through ctypes, for programs that go past inference(): structs of rknn_api.h, and the functions with
their argument types, so that plain numbers can be given as contexts."""
from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from typing import Any

from .. import _capi

_ARM32 = struct.calcsize("P") == 4 and os.uname().machine.startswith(("arm", "aarch64"))
Context = ctypes.c_uint32 if _ARM32 else ctypes.c_uint64
MAX_DIMS, MAX_NAME_LEN, MAX_SHAPES = 16, 256, 512


class RKNNInputOutputNum(ctypes.Structure):
    """rknn_input_output_num."""

    _fields_ = [("n_input", ctypes.c_uint32), ("n_output", ctypes.c_uint32)]


class RKNNTensorAttr(ctypes.Structure):
    """rknn_tensor_attr."""

    _fields_ = [
        ("index", ctypes.c_uint32),
        ("n_dims", ctypes.c_uint32),
        ("dims", ctypes.c_uint32 * MAX_DIMS),
        ("name", ctypes.c_char * MAX_NAME_LEN),
        ("n_elems", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("fmt", ctypes.c_int),
        ("type", ctypes.c_int),
        ("qnt_type", ctypes.c_int),
        ("fl", ctypes.c_int8),
        ("zp", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("w_stride", ctypes.c_uint32),
        ("size_with_stride", ctypes.c_uint32),
        ("pass_through", ctypes.c_uint8),
        ("h_stride", ctypes.c_uint32),
    ]


class RKNNInput(ctypes.Structure):
    """rknn_input."""

    _fields_ = [
        ("index", ctypes.c_uint32),
        ("buf", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("pass_through", ctypes.c_uint8),
        ("type", ctypes.c_int),
        ("fmt", ctypes.c_int),
    ]


class RKNNOutput(ctypes.Structure):
    """rknn_output."""

    _fields_ = [
        ("want_float", ctypes.c_uint8),
        ("is_prealloc", ctypes.c_uint8),
        ("index", ctypes.c_uint32),
        ("buf", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
    ]


class RKNNPerfRun(ctypes.Structure):
    """rknn_perf_run."""

    _fields_ = [("run_duration", ctypes.c_int64)]


class RKNNSDKVersion(ctypes.Structure):
    """rknn_sdk_version."""

    _fields_ = [("api_version", ctypes.c_char * 256), ("drv_version", ctypes.c_char * 256)]


class RKNNCustomString(ctypes.Structure):
    """rknn_custom_string."""

    _fields_ = [("string", ctypes.c_char * 1024)]


_POINTER = ctypes.c_void_p
_PROTOTYPES = {
    "rknn_query": [Context, ctypes.c_int, _POINTER, ctypes.c_uint32],
    "rknn_inputs_set": [Context, ctypes.c_uint32, _POINTER],
    "rknn_run": [Context, _POINTER],
    "rknn_wait": [Context, _POINTER],
    "rknn_outputs_get": [Context, ctypes.c_uint32, _POINTER, _POINTER],
    "rknn_outputs_release": [Context, ctypes.c_uint32, _POINTER],
    "rknn_set_core_mask": [Context, ctypes.c_int],
    "rknn_set_batch_core_num": [Context, ctypes.c_int],
    "rknn_destroy": [Context],
    "rknn_register_custom_ops": [Context, _POINTER, ctypes.c_uint32],
    "rknn_destroy_mem": [Context, _POINTER],
    "rknn_set_io_mem": [Context, _POINTER, _POINTER],
    "rknn_mem_sync": [Context, _POINTER, ctypes.c_int],
}

# What programs merely try: whether the model has something, whether a run has ended.
_TRIED = {("rknn_query", -1), ("rknn_wait", -2)}


def _say(result: int, function: Any, _arguments: object) -> int:
    """Programs that call the library themselves see what has failed as C programs do."""
    if result < 0 and (function.__name__, result) not in _TRIED and sys.stderr is not None:
        print(f"E RKNN: {_capi.text(_capi.lib.rknnd_last_error())} ({result})", file=sys.stderr)
    return result


_lock = threading.Lock()
_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The library that rknnd itself uses; one object for the process."""
    global _library
    with _lock:
        if _library is None:
            opened = ctypes.CDLL(_capi.path)
            for name, types in _PROTOTYPES.items():
                function = getattr(opened, name)
                function.argtypes, function.restype, function.errcheck = types, ctypes.c_int, _say
            _library = opened
        return _library


class Handle(int):
    """A context's number; also with .value, as a ctypes integer has it."""

    @property
    def value(self) -> int:
        return int(self)
