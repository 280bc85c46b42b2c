"""What programs give to inference(), as what the C library takes: contiguous arrays in the model's shapes.

A 4-D input is NHWC unless the program says "nchw". Shapes that differ by dimensions of 1 alone (a picture without its
batch, a vector without its row) hold the same elements in the same order, so they are taken.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable
from collections.abc import Sequence

import numpy as np

from .. import _errors
from .._native import NCHW, NHWC, TYPE_OF_DTYPE, UNDEFINED, Array, TensorInfo

Shape = tuple[int, ...]
Warn = Callable[[str], None]

_INTEGERS = ("int32", "uint32", "int64", "bool")  # of models: such inputs are no real numbers
_DTYPES = "float32, float16, int8, uint8, int16, uint16, int32, uint32, int64 or bool"


@dataclass(frozen=True)
class Given:
    """An input as it goes to the C library: `layout` is a number of its own."""

    array: Array
    layout: int
    pass_through: bool


def check_formats(data_format: object, n: int) -> list[str]:
    """One of "nhwc", "nchw" for each of n inputs."""
    if data_format is None or isinstance(data_format, str):
        listed: Sequence[object] = [data_format] * n
    elif isinstance(data_format, (list, tuple)):
        listed = data_format
    else:
        raise _errors.ParameterError(f"data_format is {_errors.shown(data_format)}: give 'nhwc' or 'nchw', or a list of them")
    if len(listed) == 1 and n > 1:
        listed = list(listed) * n
    if len(listed) != n:
        raise _errors.ParameterError(f"data_format has {len(listed)} elements, and there are {n} inputs: give one for "
                                     "each, or one for all")
    formats = ["nhwc" if one is None else str(one).lower() for one in listed]
    for one in formats:
        if one not in ("nhwc", "nchw"):
            raise _errors.ParameterError(f"data_format {_errors.shown(one)} is not known: give 'nhwc' or 'nchw'")
    return formats


def check_pass_through(flags: object, n: int) -> list[bool]:
    """One flag for each of n inputs."""
    if flags is None:
        return [False] * n
    if not isinstance(flags, (list, tuple)) or len(flags) != n or any(flag not in (0, 1) for flag in flags):
        raise _errors.ParameterError(f"inputs_pass_through is {_errors.shown(flags)}: give a list with 0 or 1 for each of {n} "
                                     "inputs")
    return [bool(flag) for flag in flags]


def check_arrays(inputs: object, n: int) -> list[Array]:
    """The program's arrays, as many as the model has inputs, of dtypes that it can take."""
    if isinstance(inputs, np.ndarray) or not isinstance(inputs, (list, tuple)):
        raise _errors.InputError(f"inputs is of type {type(inputs).__name__}: give a list with one array for each of the "
                                 f"model's {n} inputs, inputs=[array]")
    if len(inputs) != n:
        raise _errors.InputError(f"inputs has {len(inputs)} arrays, and the model has {n} inputs: give one for each, in "
                                 "the model's order")
    return [_check_array(one, index) for index, one in enumerate(inputs)]


def _check_array(one: object, index: int) -> Array:
    if not isinstance(one, np.ndarray):
        raise _errors.InputError(f"input {index} is of type {type(one).__name__}: give a numpy array "
                                 "(numpy.asarray(…, dtype=…))")
    array = one if one.dtype.isnative else one.astype(one.dtype.newbyteorder("="))
    if array.dtype not in TYPE_OF_DTYPE:
        wanted = "float32" if array.dtype.kind in "fc" else "int64" if array.dtype.kind in "iu" else "float32"
        raise _errors.InputError(f"input {index} has dtype {array.dtype}, which models do not take: convert it, for "
                                 f"instance with .astype('{wanted}') (they take {_DTYPES})")
    return array


def _squeezed(shape: Shape) -> Shape:
    return tuple(d for d in shape if d != 1)


def program_shape(info: TensorInfo, data_format: str) -> Shape:
    """The shape of an input in the order that the program's data have."""
    shape = info.shape
    if len(shape) != 4:
        return shape
    if info.layout_number == NCHW:
        shape = (shape[0], shape[2], shape[3], shape[1])
    return (shape[0], shape[3], shape[1], shape[2]) if data_format == "nchw" else shape


def _reshaped(array: Array, info: TensorInfo, data_format: str, warn: Warn) -> Array:
    """The array in the model's shape; InputError with what it should have been."""
    wanted = program_shape(info, data_format)
    if array.shape == wanted:
        return array
    name = f"input {info.index} ({info.name})"
    if _squeezed(array.shape) == _squeezed(wanted) or (array.size == info.n_elems and len(wanted) != 4):
        warn(f"inference: {name} has shape {array.shape}, and is taken as {wanted}")
        return array.reshape(wanted)
    other = "nhwc" if data_format == "nchw" else "nchw"
    advice = ""
    if len(wanted) == 4 and array.shape == program_shape(info, other):
        advice = f": say data_format='{other}', or transpose it"
    elif len(wanted) == 4:
        advice = f": resize the picture, and give it as {data_format}"
    raise _errors.InputError(f"{name} has shape {array.shape}, and the model takes {wanted}{advice}")


def fits(array: Array, info: TensorInfo, data_format: str) -> bool:
    """Whether an array is of the shape, batch or not. Used to choose one of several shapes."""
    return _squeezed(array.shape) == _squeezed(program_shape(info, data_format))


# Integers that the C library does not turn into real numbers itself.
_WIDE = tuple(np.dtype(name) for name in ("uint16", "int32", "uint32", "int64", "bool"))


def _converted(array: Array, info: TensorInfo) -> Array:
    """An array of integers as one that the model's type can be made of; InputError where that changes a value."""
    kind = info.numpy_dtype.kind if info.dtype in _INTEGERS else "f"
    if array.dtype not in _WIDE or array.dtype == info.numpy_dtype:
        return array
    made = array.astype(np.float32 if kind == "f" else info.numpy_dtype)
    if not np.array_equal(made, array):
        raise _errors.InputError(f"input {info.index} ({info.name}) has dtype {array.dtype} and values that "
                                 f"{made.dtype} cannot hold: convert it to what the model takes")
    return made


def prepare(arrays: Sequence[Array], infos: Sequence[TensorInfo], formats: Sequence[str], flags: Sequence[bool],
            warn: Warn) -> list[Given]:
    """Each array in its input's shape, contiguous. Copies only what is not contiguous already."""
    given = []
    for array, info, data_format, flag in zip(arrays, infos, formats, flags):
        if flag:
            given.append(Given(np.ascontiguousarray(array), info.layout_number, True))
            continue
        array = np.ascontiguousarray(_converted(_reshaped(array, info, data_format, warn), info))
        layout = (NCHW if data_format == "nchw" else NHWC) if len(info.shape) == 4 else UNDEFINED
        given.append(Given(array, layout, False))
    return given
