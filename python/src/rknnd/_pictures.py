"""Inputs out of files: .npy as it is, pictures (jpg, png, bmp) as uint8 in RGB, resized to the model's size.

Pictures need Pillow (Debian: python3-pil), which refuses those that would take too much memory.
"""
from __future__ import annotations

import importlib
import os
from typing import Any, Callable
from collections.abc import Sequence

import numpy as np

from . import _errors
from ._native import Array

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
_FORMATS = ("JPEG", "PNG", "BMP")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_ORIENTATION = 0x0112  # of EXIF, a tag whose value 1 is upright
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # to Pillow's numbers for transpose()


def _read_npy(path: str) -> Array:
    """In this machine's byte order. Numbers that no model takes become those of a type that one does, where that changes nothing
    but a float64's last digits."""
    try:
        with open(path, "rb") as file:
            array = np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise _errors.InputError(f"{path} cannot be read as .npy: {error}") from error
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        return _narrowed(path, array, np.float32, np.isfinite)
    if array.dtype == np.uint64:
        return _narrowed(path, array, np.int64, lambda made: made >= 0)
    return array


def _narrowed(path: str, array: Array, dtype: Any, is_kept: Callable[[Array], Array]) -> Array:
    """`is_kept` of what came out says where a value is still what it was; NaN and infinity are what they were."""
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    lost = np.flatnonzero(~is_kept(made) & np.isfinite(array))
    if lost.size:
        raise _errors.InputError(f"{path}: element {lost[0]} is {array.flat[lost[0]]}, which is too large for {made.dtype}")
    return made


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise _errors.InputError("pictures need Pillow, which is not installed: install python3-pil, or give .npy "
                                 "files") from None


def _in_8_bits(image: Any, image_module: Any) -> Any:
    """Gray of 16 bits scaled and rounded, as libpng does it (65535 is 255): Pillow would cut off what is above 255."""
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    return image_module.fromarray(((values.clip(0, 65535) * 255 + 32895) >> 16).astype(np.uint8), "L")


def _turn_of(image: Any, image_module: Any) -> int | None:
    """How a picture is made upright, as its EXIF asks for; None where it is, or where EXIF makes no sense. OpenCV and rknnctl turn
    pictures so, too. The picture has been loaded: a PNG's EXIF may come behind its pixels."""
    exif = image_module.Exif()
    try:
        exif.load(image.info.get("exif"))
        return _TURNS.get(exif.get(_ORIENTATION, 1))
    except Exception:  # of strangers' bytes Pillow raises whatever its parser met
        return None


def _read_picture(path: str, shape: Sequence[int]) -> Array:
    """uint8, NHWC. `shape`: the input's, NHWC."""
    image_module = _pillow()
    if len(shape) != 4 or shape[3] not in _MODES:
        raise _errors.InputError(f"{path}: a picture cannot be an input of shape {tuple(shape)}: give a .npy file")
    try:
        with image_module.open(path, formats=_FORMATS) as image:
            picture = _in_8_bits(image, image_module).convert(_MODES[shape[3]])
            turn = _turn_of(image, image_module)
            picture = picture if turn is None else picture.transpose(turn)
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise _errors.InputError(f"{path} cannot be read as a picture: {error}") from error
    size = (shape[2], shape[1])
    if picture.size != size:
        picture = picture.resize(size, image_module.BILINEAR)
    array = np.asarray(picture, np.uint8).reshape(1, shape[1], shape[2], shape[3])
    return np.repeat(array, shape[0], axis=0) if shape[0] > 1 else array


def is_picture(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name says that it is a picture."""
    return os.path.splitext(os.fsdecode(path))[1].lower() in EXTENSIONS


def in_bgr(picture: Array) -> Array:
    """The picture with red and blue exchanged; one that has no three channels as it is."""
    return np.ascontiguousarray(picture[..., ::-1]) if picture.shape[-1] == 3 else picture


def read_input(path: object, shape: Sequence[int]) -> Array:
    """The array of a file. `shape`: the input's, NHWC where it is 4-D; a picture is resized to it, and repeated over
    the batch."""
    if not isinstance(path, (str, os.PathLike)):
        raise _errors.InputError(f"inputs has {_errors.shown(path)}: give paths of {', '.join(EXTENSIONS)} or .npy files")
    name = os.fsdecode(path)
    if not os.path.isfile(name):
        raise _errors.InputError(f"{name} does not exist, or is no file")
    extension = os.path.splitext(name)[1].lower()
    if extension == ".npy":
        return _read_npy(name)
    if is_picture(name):
        return _read_picture(name, shape)
    raise _errors.InputError(f"{name}: files of inputs are {', '.join(EXTENSIONS)} or .npy")
