"""Inputs out of files: .npy as it is, pictures (jpg, png, bmp) as uint8 in RGB, resized to the model's size.

Pictures need Pillow (Debian: python3-pil), which refuses those that would take too much memory.
"""
from __future__ import annotations

import importlib
import os
from typing import Any
from collections.abc import Sequence

import numpy as np

from . import _errors
from ._native import Array

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp")
_FORMATS = ("JPEG", "PNG", "BMP")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def _read_npy(path: str) -> Array:
    try:
        with open(path, "rb") as file:
            return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise _errors.InputError(f"{path} cannot be read as .npy: {error}") from error


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise _errors.InputError("pictures need Pillow, which is not installed: install python3-pil, or give .npy "
                                 "files") from None


def _read_picture(path: str, shape: Sequence[int]) -> Array:
    """uint8, NHWC. `shape`: the input's, NHWC."""
    image_module = _pillow()
    if len(shape) != 4 or shape[3] not in _MODES:
        raise _errors.InputError(f"{path}: a picture cannot be an input of shape {tuple(shape)}: give a .npy file")
    try:
        with image_module.open(path, formats=_FORMATS) as image:
            picture = image.convert(_MODES[shape[3]])
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
        raise _errors.InputError(f"inputs has {path!r}: give paths of {', '.join(EXTENSIONS)} or .npy files")
    name = os.fsdecode(path)
    if not os.path.isfile(name):
        raise _errors.InputError(f"{name} does not exist, or is no file")
    extension = os.path.splitext(name)[1].lower()
    if extension == ".npy":
        return _read_npy(name)
    if is_picture(name):
        return _read_picture(name, shape)
    raise _errors.InputError(f"{name}: files of inputs are {', '.join(EXTENSIONS)} or .npy")
