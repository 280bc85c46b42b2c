"""What programs give as inputs, as arrays that the C library takes; what it does not take, in words."""
from __future__ import annotations

import warnings
from typing import Any, Union
from collections.abc import Mapping, Sequence

import numpy as np

from ._errors import InputError
from ._native import FORMATS, NCHW, NHWC, TYPE_OF_DTYPE, Array, TensorInfo

Inputs = Union[Any, Sequence[Any], Mapping[str, Any]]


def arrange(infos: Sequence[TensorInfo], inputs: Inputs) -> list[Any]:
    """One value for each input, in the model's order: from one array, a sequence in that order, or a mapping by name."""
    if isinstance(inputs, Mapping):
        names = [info.name for info in infos]
        unknown = [str(name) for name in inputs if name not in names]
        if unknown:
            raise InputError(f"no input is called {', '.join(unknown)}: the model has {', '.join(names)}")
        return [inputs.get(name) for name in names]
    if isinstance(inputs, (list, tuple)):
        values = list(inputs)
    else:
        values = [inputs]
    if len(values) != len(infos):
        raise InputError(f"{len(values)} inputs given, the model has {len(infos)} "
                         f"({', '.join(describe(info) for info in infos)}): give a list with one array for each")
    return values


def describe(info: TensorInfo) -> str:
    """A tensor in a few words."""
    layout = f" {info.layout}" if info.layout != "undefined" else ""
    return f"{info.name} {info.dtype} {'x'.join(map(str, info.shape))}{layout}"


def each(value: Any, count: int, what: str) -> list[Any]:
    """A setting for all inputs, or a list with one for each."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise InputError(f"{what} has {len(value)} elements, the model {count} inputs: give one for each, or one for all")
    return list(value)


def as_array(info: TensorInfo, value: Any) -> Array:
    """An array of a dtype that the library knows, contiguous."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        array = _from_dlpack(info, value)
    else:
        array = np.asarray(value)
    if array.dtype not in TYPE_OF_DTYPE:
        if array.dtype.kind not in "fciub":
            raise InputError(f"input {info.index} ({info.name}) is not an array of numbers: NumPy makes {array.dtype} of "
                             f"{type(value).__name__}")
        better = "np.int32" if array.dtype.kind in "iu" else "np.float32"
        raise InputError(f"input {info.index} ({info.name}): dtype {array.dtype} is not one that the NPU's library takes "
                         f"({', '.join(d.name for d in TYPE_OF_DTYPE)}): use array.astype({better})")
    return np.ascontiguousarray(array)


def exact(info: TensorInfo, array: Array) -> Array:
    """Integers of a file as real numbers for an input that has these, where no value changes: integers of NumPy have 64 bits,
    whatever they are, unless another type was asked for. int8 and uint8 the library takes."""
    if not info.dtype.startswith("float") or array.dtype.kind not in "iub" or array.dtype in (np.int8, np.uint8):
        return array
    made = array.astype(np.float32)
    if not np.array_equal(made.astype(np.float64), array):
        raise InputError(f"input {info.index} ({info.name}) has dtype {array.dtype} and values that float32 cannot hold")
    return made


def _from_dlpack(info: TensorInfo, value: Any) -> Array:
    if not hasattr(np, "from_dlpack"):
        raise InputError(f"input {info.index} ({info.name}): NumPy {np.__version__} does not read DLPack: install NumPy 1.23 or "
                         "later, or give an array")
    return np.from_dlpack(value)


def _permuted(shape: tuple[int, ...], layout: int, wanted: int) -> tuple[int, ...]:
    n, a, b, c = shape
    if layout == wanted:
        return shape
    return (n, c, a, b) if wanted == NCHW else (n, b, c, a)


def layout_number(info: TensorInfo, layout: str | None) -> int:
    """Layout of a 4-D input: as said, else the model's own, which is NHWC of pictures."""
    if len(info.shape) != 4:
        return info.layout_number
    if layout is None:
        return info.layout_number if info.layout_number in (NCHW, NHWC) else NHWC
    if layout not in ("nhwc", "nchw"):
        raise InputError(f'layout {layout!r}: say "nhwc" or "nchw"')
    return FORMATS[layout]


def layout_of(info: TensorInfo, shape: tuple[int, ...]) -> str:
    """Of a 4-D array, or one without its batch, as its shape says: "nchw" where it fits that alone."""
    if len(info.shape) != 4 or info.layout_number not in (NCHW, NHWC):
        return "nhwc"
    nhwc, nchw = (_permuted(info.shape, info.layout_number, layout) for layout in (NHWC, NCHW))
    return "nchw" if shape in (nchw, nchw[1:]) and shape not in (nhwc, nhwc[1:]) else "nhwc"


def prepare(info: TensorInfo, value: Any, layout: str | None) -> tuple[Array, int]:
    """The array and its layout's number, checked against the input's shape. A picture without a batch dimension gets
    one, with a warning."""
    array, number = as_array(info, value), layout_number(info, layout)
    expected = info.shape
    if len(expected) == 4 and info.layout_number in (NCHW, NHWC):
        expected = _permuted(expected, info.layout_number, number)
    if array.shape == expected:
        return array, number
    if len(expected) == 4 and array.ndim == 3 and (1, *array.shape) == expected:
        warnings.warn(f"input {info.index} ({info.name}) is 3-D: taken as {expected}; add the batch dimension with "
                      "array[np.newaxis]", stacklevel=5)
        return array[np.newaxis], number
    raise InputError(_wrong_shape(info, array, number, expected))


def _wrong_shape(info: TensorInfo, array: Array, number: int, expected: tuple[int, ...]) -> str:
    words = f"input {info.index} ({info.name}): shape {array.shape}, the model takes {expected}"
    if len(expected) == 4:
        other = NCHW if number == NHWC else NHWC
        words += f" ({'nhwc' if number == NHWC else 'nchw'})"
        if array.shape == _permuted(expected, number, other):
            return f"""{words}: say layout="{'nhwc' if other == NHWC else 'nchw'}" if that is what it is"""
    if array.size == int(np.prod(expected)):
        return f"{words}: use array.reshape({expected}) if the elements are in that order"
    return f"{words}: resize or crop it first"
