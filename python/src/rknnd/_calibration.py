"""Samples for the library that quantizes: lists of files and arrays, as what its callbacks take, and calls that run them."""
from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from typing import Any, Callable, Union
from collections.abc import Mapping, Sequence

import numpy as np

from . import _arrays, _capi, _errors, _native, _pictures
from ._capi import ffi
from ._native import Array, TensorInfo

Samples = Union[str, "os.PathLike[str]", Sequence[Any]]

# ---- samples


def listed(samples: Samples) -> Sequence[Any]:
    """A sequence of samples; of a list in a file, with the paths of each."""
    if not isinstance(samples, (str, os.PathLike)):
        if not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
            raise _errors.ParameterError(f"samples is of type {type(samples).__name__}: give the path of a list, or a sequence")
        return samples
    return read_list(samples)


# A name in quotes, or one up to the next blank; anything else is quotes that do not end, or something glued to them.
_NAME = re.compile(r"""[ \t\r\v\f]*(?:"([^"]+)"|'([^']+)'|([^"' \t\r\v\f][^ \t\r\v\f]*))(?=[ \t\r\v\f]|$)""")


def _names(line: str) -> list[str] | None:
    """The names in a line; None: they are no names."""
    names, at, text = [], 0, line.rstrip(" \t\r\v\f")
    while at < len(text):
        found = _NAME.match(text, at)
        if not found:
            return None
        names.append("".join(part or "" for part in found.groups()))
        at = found.end()
    return names


def read_list(path: str | os.PathLike[str]) -> list[list[Any]]:
    """A data set's list: the paths of each sample, one for each input. As rknnctl reads it: names with spaces in quotes, lines that
    begin with # are comments."""
    name = os.fsdecode(path)
    try:
        with open(name, "rb") as file:
            text = os.fsdecode(file.read().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise _errors.InputError(f"the list of samples {name} cannot be read: {error}") from error
    if "\0" in text:  # before any line is taken for names, as those of a picture would be
        number = text[:text.index("\0")].count("\n") + 1
        raise _errors.InputError(f"{name}, line {number}: it is no text; give a list of files, in UTF-8, not a file itself")
    folder, samples = os.path.dirname(name), []
    for number, line in enumerate(text.split("\n"), 1):
        names = [] if line.lstrip(" \t\r\v\f").startswith("#") else _names(line)
        if names is None:
            raise _errors.InputError(f"{name}, line {number}: the quotes around a name do not end, or something follows them "
                                     "without a space")
        paths = [os.path.join(folder, one) for one in names]
        for one in paths:
            wrong = ("does not exist" if not os.path.exists(one) else "is a folder" if os.path.isdir(one)
                     else "is a pipe, of which a list can have none" if stat.S_ISFIFO(os.stat(one).st_mode) else "")
            if wrong:
                hint = (" (a name with spaces goes in quotes)" if len(paths) > 1
                        else " (folders are parted by /)" if "\\" in one else "")
                raise _errors.InputError(f"{name}, line {number}: {one} {wrong}{hint}")
        samples += [paths] if paths else []
    if not samples:
        raise _errors.InputError(f"the list of samples {name}: there is no line with files")
    return samples


class Reader:
    """The samples as arrays that the library takes. Any thread may ask."""

    def __init__(self, samples: Sequence[Any], layout: Any, rgb2bgr: Any) -> None:
        self.samples, self._layout, self._swap = samples, layout, rgb2bgr
        self.infos: list[TensorInfo] = []
        if len(samples) == 0:
            raise _errors.InputError("there are no samples: give 20 to 200 like those that will come")

    def key(self) -> bytes:
        """Stands for the samples and how they are read: names of files, and digests of arrays."""
        read = [f"layout {self._layout}, rgb2bgr {self._swap}"]
        return "\n".join(read + [_stands_for(one) for sample in self.samples for one in _values(sample)]).encode()

    def read(self, index: int) -> list[tuple[Array, int]]:
        """Array and layout's number of each input."""
        try:
            values = _arrays.arrange(self.infos, self.samples[index])
            layouts = _arrays.each(self._layout, len(values), "layout")
            swaps = _arrays.each(self._swap, len(values), "rgb2bgr")
            return [self._input(*one) for one in zip(self.infos, values, layouts, swaps)]
        except _errors.InputError as error:
            raise _errors.InputError(f"{self.words(index)}: {error}") from error

    def words(self, index: int) -> str:
        """The sample, for people: counted from 1, with its first file."""
        files = [os.fsdecode(one) for one in _values(self.samples[index]) if isinstance(one, (str, os.PathLike))]
        return f"sample {index + 1}{''.join(f' ({one})' for one in files[:1])}"

    @staticmethod
    def _input(info: TensorInfo, value: Any, layout: str | None, swap: bool) -> tuple[Array, int]:
        if not isinstance(value, (str, os.PathLike)):
            return _arrays.prepare(info, value, "nhwc" if layout == "either" else layout)
        array = _pictures.read_input(value, _pixels_shape(info))
        if not _pictures.is_picture(value):
            layout = _arrays.layout_of(info, array.shape) if layout == "either" else layout
            return _arrays.prepare(info, _arrays.exact(info, array), layout)
        return _pictures.in_bgr(array) if swap else array, _native.NHWC


def _pixels_shape(info: TensorInfo) -> tuple[int, ...]:
    if len(info.shape) != 4 or info.layout_number != _native.NCHW:
        return info.shape
    n, c, h, w = info.shape
    return n, h, w, c


def _values(sample: Any) -> list[Any]:
    if isinstance(sample, Mapping):
        return [sample[name] for name in sorted(sample)]
    return list(sample) if isinstance(sample, (list, tuple)) else [sample]


def _stands_for(value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    array = np.ascontiguousarray(value)
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.data).hexdigest()}"


# ---- what the library asks for


class Callbacks:
    """What the library asks for. The first exception ends the calibration, which raises it."""

    def __init__(self, reader: Reader, progress: Callable[[int, int], None] | None, of: int) -> None:
        self._reader, self._progress, self._of = reader, progress, of
        self._kept: dict[int, Any] = {}
        self.raised: BaseException | None = None
        self.ended = False
        self.begin = ffi.callback("int(void *, rknn_context)", self._begin, error=-1, onerror=self._failed)
        self.read = ffi.callback("int(void *, uint32_t, uint32_t, rknn_input *)", self._read, error=-1, onerror=self._failed)
        self.release = ffi.callback("void(void *, uint32_t, rknn_input *)", self._release)
        self.describe = ffi.callback("void(void *, uint32_t, char *, uint32_t)", self._describe)
        self.progress = ffi.callback("int(void *, uint32_t)", self._done, error=1, onerror=self._failed)

    def _failed(self, _kind: Any, raised: BaseException, _trace: Any) -> None:
        self.raised = self.raised or raised

    def _begin(self, _user: Any, context: int) -> int:
        count = ffi.new("rknn_input_output_num *")
        _native.check(_capi.lib.rknn_query(context, _capi.lib.RKNN_QUERY_IN_OUT_NUM, count, ffi.sizeof(count[0])))
        self._reader.infos = [self._info(context, i) for i in range(count.n_input)]
        return 0

    @staticmethod
    def _info(context: int, index: int) -> TensorInfo:
        attr = ffi.new("rknn_tensor_attr *")
        attr.index = index
        command = _capi.lib.RKNN_QUERY_CURRENT_INPUT_ATTR
        _native.check(_capi.lib.rknn_query(context, command, attr, ffi.sizeof(attr[0])))
        return _native.tensor_info(attr)

    def _read(self, _user: Any, index: int, _count: int, inputs: Any) -> int:
        if self.ended:
            return -1
        kept = []
        for i, (array, layout) in enumerate(self._reader.read(index)):
            data = ffi.from_buffer(array)
            kept.append((array, data))
            inputs[i].index, inputs[i].buf, inputs[i].size = i, data, array.nbytes
            inputs[i].type, inputs[i].fmt = _native.TYPE_OF_DTYPE[array.dtype], layout
        self._kept[int(ffi.cast("uintptr_t", inputs))] = kept
        return 0

    def _describe(self, _user: Any, index: int, room: Any, size: int) -> None:
        try:
            said = self._reader.words(index)
        except Exception:  # a sequence of the caller's, which read() has met, too
            said = f"sample {index + 1}"
        words = said.encode(errors="replace")[:max(size - 1, 0)] + b"\0"
        ffi.memmove(room, words, min(len(words), size))

    def _release(self, _user: Any, _count: int, inputs: Any) -> None:
        self._kept.pop(int(ffi.cast("uintptr_t", inputs)), None)

    def _done(self, _user: Any, done: int) -> int:
        if self._progress is not None:
            self._progress(done, self._of)
        return self.ended


class Tries:
    """Of a proposal: tells of each try, and ends it when asked to."""

    def __init__(self, tried: Callable[[int, float], None] | None) -> None:
        self._tried = tried
        self.raised: BaseException | None = None
        self.ended = False
        self.tried = ffi.callback("int(void *, uint32_t, double)", self._one, error=1, onerror=self._failed)

    def _failed(self, _kind: Any, raised: BaseException, _trace: Any) -> None:
        self.raised = self.raised or raised

    def _one(self, _user: Any, n_floats: int, cosine: float) -> int:
        if self._tried is not None:
            self._tried(n_floats, cosine)
        return self.ended


def on_a_thread(work: Callable[[], None], end: Callable[[], None]) -> list[BaseException | None]:
    """What `work` raised (None: nothing), and what signals' handlers did meanwhile, at the first of which `end` is called. Waits
    for the work's end in any case."""
    failed: list[BaseException | None] = [None]
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed[0] = error
        finally:
            done.set()

    threading.Thread(target=run, name="rknnd-quantize").start()
    while not done.is_set():
        try:
            done.wait()
        except BaseException as error:
            failed.append(error)
            end()
    return failed
