"""From a float ONNX model to one in 8 bits, by the library that `rknnctl quantize` uses (docs/quantization.md).

>>> import rknnd
>>> done = rknnd.quantize("digits.onnx", "digits_int8.onnx", "dataset.txt", server="sim:")  # doctest: +SKIP
"""
from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from typing import Any, Callable, Union
from collections.abc import Mapping, Sequence

import numpy as np

from . import _arrays, _capi, _errors, _native, _pictures
from ._capi import ffi, text
from ._native import Array, TensorInfo
from ._records import items, new, record
from .session import Shapes, load_options

NAME = "librknndquant.so"
ALGORITHMS = {"normal": 0, "kl_divergence": 1, "mmse": 2}
METHODS = {"channel": 0, "layer": 1}
PASSES = {"batchnorm": 1, "activations": 2, "equalization": 4, "bias-correction": 8}

Samples = Union[str, "os.PathLike[str]", Sequence[Any]]
Numbers = Union[Sequence[float], Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor that is stored in 8 bits: real value = (stored - zp) * scale.

    `node` computes it ("": an input of the model); `low`, `high`: the range that is stored; `min`, `max`: what was seen
    (min > max: nothing, as others of its group were looked at); tensors of one `group` have one scale. `error` is the
    mean square of what storing does to the values.
    """

    name: str = ""
    node: str = ""
    scale: float = 0.0
    zp: int = 0
    low: float = 0.0
    high: float = 0.0
    min: float = 0.0
    max: float = 0.0
    group: int = 0
    error: float = 0.0


@dataclass(frozen=True)
class QuantizedNode:
    """A node of the model as it was calibrated. `reason`: why it does not compute in 8 bits, in words; "": it does, or no
    such operator ever does."""

    name: str = ""
    op: str = ""
    output: str = ""
    quantized: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Quantization:
    """What was done. `n_folded`: batch normalizations; `n_equalized`: pairs of products; `n_constant_inputs`: inputs that
    were one number in all samples; `n_resumed`: samples that an earlier calibration had done."""

    tensors: Sequence[QuantizedTensor] = ()
    nodes: Sequence[QuantizedNode] = ()
    n_nodes: int = 0
    n_quantized: int = 0
    n_folded: int = 0
    n_equalized: int = 0
    n_tensors: int = 0
    n_constant_inputs: int = 0
    n_resumed: int = 0


def quantize(model: str | os.PathLike[str], output: str | os.PathLike[str], samples: Samples, *, algorithm: str = "normal",
             method: str = "channel", symmetric: bool = False, mean: Numbers | None = None, std: Numbers | None = None,
             rgb2bgr: bool | Sequence[bool] = False, layout: str | Sequence[str | None] | None = "nhwc",
             keep_float: Sequence[str] = (), without: Sequence[str] = (), server: str | None = None,
             shapes: Shapes | None = None, clients: int = 2, state: str | os.PathLike[str] | None = None,
             progress: Callable[[int, int], None] | None = None) -> Quantization:
    """Runs a float ONNX model on samples and writes the model in 8 bits, whole or not at all.

    `samples`     path of a data set's list (a line for each sample, a file for each input, relative to the list's folder), or
                  a sequence with what Session.run() takes for each, where the path of a picture or .npy file may stand for an
                  array. Its elements are asked for by several threads.
    `algorithm`   "normal", "kl_divergence" or "mmse": how ranges are chosen
    `method`      "channel" or "layer": a scale for each output of a weight, or one
    `symmetric`   zero points of tensors are 0
    `mean`, `std` of an input's channels: the model takes pixels then, and computes (x - mean) / std itself. Numbers for the
                  first input, or a dict by input
    `rgb2bgr`     pictures go in as BGR; one, or a list with one for each input
    `layout`      of 4-D arrays, as in Session.run(); None: the model's own
    `keep_float`  nodes, by their names or their outputs', that stay float
    `without`     of "batchnorm", "activations", "equalization", "bias-correction": what is not done
    `server`, `shapes`: as in Session; the float model runs there
    `clients`     samples that run at the same time
    `state`       a file in which an unfinished calibration is kept; the same call goes on from there. It is removed at the end
    `progress`    called with (samples done, all samples)

    Raises ModelError (damaged, quantized already, nothing to quantize), InputError (a sample does not fit, or is not finite),
    ParameterError, ServerError, or what `samples` and `progress` raise.
    """
    options = _Options(algorithm, method, symmetric, mean, std, keep_float, without)
    read = _Reader(_listed(samples), layout, rgb2bgr)
    settings = _Settings(server, load_options(shapes), clients, state, progress)
    library = _library()
    handle = ffi.new("rknnd_quant **")
    _check(library, library.rknnd_quant_open(_path(model, "the model"), options.pointer, handle))
    try:
        _calibrate(library, handle[0], read, settings)
        _check(library, library.rknnd_quant_write(handle[0], _path(output, "the output")))
        return _result(library, handle[0])
    finally:
        library.rknnd_quant_free(handle[0])


# ---- the library


def _library() -> Any:
    place = os.path.join(os.path.dirname(os.path.dirname(_capi.path)), NAME)
    found = place if os.path.exists(place) else NAME
    try:
        return ffi.dlopen(found)
    except OSError as error:
        raise _errors.LibraryError(f"the library that quantizes cannot be loaded ({error}): install the package rknnd-tools, "
                                   f"which has it (looked for at {place})") from None


def _check(library: Any, code: int) -> None:
    if code < 0:
        raise _errors.of_code(code, text(library.rknnd_quant_last_error()))


def _path(path: object, what: str) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise _errors.ParameterError(f"{what} is {path!r}: give the path of a file")
    return os.fsencode(path)


# ---- options


def _one_of(known: Mapping[str, int], word: object, what: str) -> int:
    if not isinstance(word, str) or word not in known:
        raise _errors.ParameterError(f"{what} is {word!r}: one of {', '.join(known)}")
    return known[word]


def _names(values: object, what: str) -> list[str]:
    if isinstance(values, str) or not isinstance(values, (list, tuple)) or not all(isinstance(v, str) for v in values):
        raise _errors.ParameterError(f"{what} is {values!r}: give a list of names")
    return list(values)


def _by_input(values: Any, what: str) -> dict[str | None, Array]:
    """Numbers by input's name; None: the first one."""
    given = values if isinstance(values, Mapping) else {} if values is None else {None: values}
    made = {}
    for name, numbers in given.items():
        try:
            made[name] = np.atleast_1d(np.asarray(numbers, np.float32))
        except (TypeError, ValueError):
            raise _errors.ParameterError(f"{what} is {numbers!r}: give a list of numbers, one for each channel") from None
        if made[name].ndim != 1 or not np.isfinite(made[name]).all():
            raise _errors.ParameterError(f"{what} is {numbers!r}: give a list of numbers, one for each channel")
    return made


class _Options:
    """An rknnd_quant_options, and what it points to."""

    def __init__(self, algorithm: object, method: object, symmetric: object, mean: object, std: object,
                 keep_float: object, without: object) -> None:
        self._kept: list[Any] = []
        self.pointer = new("rknnd_quant_options")
        self.pointer.algorithm = _one_of(ALGORITHMS, algorithm, "algorithm")
        self.pointer.per_layer = _one_of(METHODS, method, "method")
        self.pointer.symmetric = bool(symmetric)
        for name in _names(without, "without"):
            self.pointer.without |= _one_of(PASSES, name, "without")
        floats = [self._keep(ffi.new("char[]", name.encode())) for name in _names(keep_float, "keep_float")]
        self.pointer.floats = self._keep(ffi.new("const char *[]", floats))
        self.pointer.n_floats = len(floats)
        self.pointer.normalizations = self._normalizations(_by_input(mean, "mean"), _by_input(std, "std"))

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        return made

    def _normalizations(self, means: dict[str | None, Array], stds: dict[str | None, Array]) -> Any:
        inputs = list(dict.fromkeys([*means, *stds]))
        made = self._keep(ffi.new("rknnd_quant_normalization[]", max(1, len(inputs))))
        for one, name in zip(made, inputs):
            mean, std = means.get(name), stds.get(name)
            if mean is not None and std is not None and len(mean) != len(std):
                raise _errors.ParameterError(f"mean has {len(mean)} numbers, std {len(std)}: give as many")
            one.struct_size = ffi.sizeof("rknnd_quant_normalization")
            one.input = ffi.NULL if name is None else self._keep(ffi.new("char[]", name.encode()))
            for field, values in (("mean", mean), ("deviation", std)):
                if values is not None:
                    one.n_values = len(values)
                    setattr(one, field, self._keep(ffi.new("float[]", values.tolist())))
        found = self._keep(new("rknnd_list"))
        found.n, found.stride, found.items = len(inputs), ffi.sizeof("rknnd_quant_normalization"), made
        return found


# ---- samples


def _listed(samples: Samples) -> Sequence[Any]:
    """A sequence of samples; of a list in a file, with the paths of each."""
    if not isinstance(samples, (str, os.PathLike)):
        if not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
            raise _errors.ParameterError(f"samples is of type {type(samples).__name__}: give the path of a list, or a sequence")
        return samples
    return read_list(samples)


def read_list(path: str | os.PathLike[str]) -> list[list[Any]]:
    """A data set's list: the paths of each sample, one for each input."""
    name = os.fsdecode(path)
    try:
        with open(name, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise _errors.InputError(f"the list of samples {name} cannot be read: {error}") from error
    folder = os.path.dirname(name)
    return [[os.path.join(folder, path) for path in line] for line in lines if line]


class _Reader:
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
        values = _arrays.arrange(self.infos, self.samples[index])
        layouts = _arrays.each(self._layout, len(values), "layout")
        swaps = _arrays.each(self._swap, len(values), "rgb2bgr")
        return [self._input(*one) for one in zip(self.infos, values, layouts, swaps)]

    @staticmethod
    def _input(info: TensorInfo, value: Any, layout: str | None, swap: bool) -> tuple[Array, int]:
        if not isinstance(value, (str, os.PathLike)):
            return _arrays.prepare(info, value, layout)
        array = _pictures.read_input(value, _pixels_shape(info))
        if not _pictures.is_picture(value):
            return _arrays.prepare(info, array, layout)
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


# ---- the calibration


@dataclass
class _Settings:
    server: str | None
    options: str | None
    clients: int
    state: str | os.PathLike[str] | None
    progress: Callable[[int, int], None] | None


class _Callbacks:
    """What the library asks for. The first exception ends the calibration, which raises it."""

    def __init__(self, reader: _Reader, progress: Callable[[int, int], None] | None) -> None:
        self._reader, self._progress = reader, progress
        self._kept: dict[int, Any] = {}
        self.raised: BaseException | None = None
        self.ended = False
        self.begin = ffi.callback("int(void *, rknn_context)", self._begin, error=-1, onerror=self._failed)
        self.read = ffi.callback("int(void *, uint32_t, uint32_t, rknn_input *)", self._read, error=-1, onerror=self._failed)
        self.release = ffi.callback("void(void *, uint32_t, rknn_input *)", self._release)
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

    def _release(self, _user: Any, _count: int, inputs: Any) -> None:
        self._kept.pop(int(ffi.cast("uintptr_t", inputs)), None)

    def _done(self, _user: Any, done: int) -> int:
        if self._progress is not None:
            self._progress(done, len(self._reader.samples))
        return self.ended


def _calibrate(library: Any, quant: Any, reader: _Reader, settings: _Settings) -> None:
    """On a thread of its own, so that this one can be interrupted."""
    calls = _Callbacks(reader, settings.progress)
    samples = new("rknnd_quant_samples")
    key = ffi.new("char[]", b"" if settings.state is None else reader.key())
    state = ffi.NULL if settings.state is None else ffi.new("char[]", _path(settings.state, "state"))
    if not isinstance(settings.clients, int) or not 1 <= settings.clients <= 64:
        raise _errors.ParameterError(f"clients is {settings.clients!r}: a number from 1 to 64")
    samples.n, samples.n_clients = len(reader.samples), settings.clients
    samples.begin, samples.read, samples.release = calls.begin, calls.read, calls.release
    samples.progress, samples.state, samples.key = calls.progress, state, key

    def work() -> None:
        with _native.at_server(settings.server), _native.loading(settings.options):
            _check(library, library.rknnd_quant_calibrate(quant, samples))

    def end() -> None:
        calls.ended = True

    failed = _on_a_thread(work, end)
    for raised in (*failed[1:], calls.raised, *failed[:1]):
        if raised is not None:
            raise raised


def _on_a_thread(work: Callable[[], None], end: Callable[[], None]) -> list[BaseException | None]:
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


def _result(library: Any, quant: Any) -> Quantization:
    tensors, nodes, summary = ffi.new("const rknnd_list **"), ffi.new("const rknnd_list **"), new("rknnd_quant_summary")
    _check(library, library.rknnd_quant_get_tensors(quant, tensors))
    _check(library, library.rknnd_quant_get_nodes(quant, nodes))
    _check(library, library.rknnd_quant_get_summary(quant, summary))
    return record(Quantization, "rknnd_quant_summary", summary,
                  tensors=[record(QuantizedTensor, "rknnd_quant_tensor", one) for one in items("rknnd_quant_tensor", tensors[0])],
                  nodes=[record(QuantizedNode, "rknnd_quant_node", one) for one in items("rknnd_quant_node", nodes[0])])
