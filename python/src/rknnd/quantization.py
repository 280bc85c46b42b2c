"""From a float ONNX model to one in 8 bits, by the library that `rknnctl quantize` uses (docs/quantization.md).

>>> import rknnd
>>> done = rknnd.quantize("digits.onnx", "digits_int8.onnx", "dataset.txt", server="sim:")  # doctest: +SKIP
"""
from __future__ import annotations

import datetime
import os
import weakref
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Union
from collections.abc import Mapping, Sequence

import numpy as np

from . import _calibration, _capi, _errors, _native
from ._calibration import Samples
from ._capi import ffi, text
from ._native import Array
from ._records import items, new, record
from .session import Shapes, load_options

NAME = "librknndquant.so"
ALGORITHMS = {"normal": 0, "kl_divergence": 1, "mmse": 2}
METHODS = {"channel": 0, "layer": 1}
TYPES = {"float16": 0, "int8": 8, "int16": 16}
PASSES = {"batchnorm": 1, "activations": 2, "equalization": 4, "bias-correction": 8, "comparison": 16}
GOAL = 0.999

Numbers = Union[Sequence[float], Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor that is stored in `bits` (8 or 16): real value = (stored - zp) * scale.

    `node` computes it ("": an input of the model); `low`, `high`: the range that is stored; `min`, `max`: what was seen
    (min > max: nothing, as others of its group were looked at); tensors of one `group` have one scale. `error` is the
    mean square of what storing does to the values, `power` that of the values, `clipped` the share of values outside of the
    range (0 to 1), `clip_error` their part of the error. `bins` counts values: bin i those from (i - len / 2) * bin_width on.
    """

    name: str = ""
    node: str = ""
    bits: int = 8
    scale: float = 0.0
    zp: int = 0
    low: float = 0.0
    high: float = 0.0
    min: float = 0.0
    max: float = 0.0
    group: int = 0
    error: float = 0.0
    power: float = 0.0
    clipped: float = 0.0
    clip_error: float = 0.0
    bin_width: float = 0.0
    bins: Array = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False, compare=False)


@dataclass(frozen=True)
class QuantizedNode:
    """A node of the model as it was calibrated. `reason`: why it does not compute in 8 bits, in words; "": it does, or no
    such operator ever does. `type`: 8 or 16 bits, 0: real numbers. `noise`, once something was proposed or compared: what
    rounding does to its weights, inputs and
    output, mean squares in units of what is usual there, squared."""

    name: str = ""
    op: str = ""
    output: str = ""
    quantized: int = 0
    type: int = 0
    reason: str = ""
    noise: float = 0.0
    weight_noise: float = 0.0
    input_noise: float = 0.0
    output_noise: float = 0.0


@dataclass(frozen=True)
class QuantizedLayer:
    """A tensor of the model in 8 bits beside the float model's. `cosine`: the least of `n_samples`; `sqnr`: squares of the
    values by those of the differences, of all samples, in dB (inf: equal). `single_…`: of its node alone, computing with the
    float model's values; `n_single` 0: the server cannot tell. `bits` that it is stored in; 0: a real number."""

    tensor: str = ""
    node: str = ""
    op: str = ""
    bits: int = 0
    n_samples: int = 0
    cosine: float = 0.0
    sqnr: float = 0.0
    n_single: int = 0
    single_cosine: float = 0.0
    single_sqnr: float = 0.0


@dataclass(frozen=True)
class Proposal:
    """Layers to keep in float (`floats`: names of outputs), so that the outputs' least cosine is `cosine`; it is
    `plain_cosine` without."""

    floats: Sequence[str] = ()
    cosine: float = 0.0
    plain_cosine: float = 0.0
    n_tries: int = 0


@dataclass(frozen=True)
class Quantization:
    """What was done. `n_folded`: batch normalizations; `n_equalized`: pairs of products; `n_compared`: models that were run to
    compare mmse with normal; `n_normal_tensors`, `n_normal_weights`: what is as normal has it since then; `n_constant_inputs`:
    inputs that were one number in all samples; `n_resumed`: samples that an earlier calibration had done; `proposal`: with a
    goal."""

    tensors: Sequence[QuantizedTensor] = ()
    nodes: Sequence[QuantizedNode] = ()
    n_nodes: int = 0
    n_quantized: int = 0
    n_folded: int = 0
    n_equalized: int = 0
    n_compared: int = 0
    n_normal_tensors: int = 0
    n_normal_weights: int = 0
    n_tensors: int = 0
    n_constant_inputs: int = 0
    n_resumed: int = 0
    proposal: Proposal | None = None


def quantize(model: str | os.PathLike[str], output: str | os.PathLike[str], samples: Samples, *, algorithm: str = "normal",
             method: str = "channel", dtype: str = "w8a8", target: str | None = None, symmetric: bool = False,
             mean: Numbers | None = None, std: Numbers | None = None, rgb2bgr: bool | Sequence[bool] = False,
             layout: str | Sequence[str | None] | None = "nhwc",
             keep_float: Sequence[str] = (), int16: Sequence[str] = (), without: Sequence[str] = (), server: str | None = None,
             shapes: Shapes | None = None, clients: int = 2, state: str | os.PathLike[str] | None = None,
             progress: Callable[[int, int], None] | None = None, goal: float | None = None, goal_type: str = "float16",
             report: str | os.PathLike[str] | None = None, all_values: bool = False,
             external_data: bool = False) -> Quantization:
    """Runs a float ONNX model on samples and writes the model in 8 bits, whole or not at all; then, if it is asked for, the
    report, whose failure is raised when the model is there.

    `samples`     path of a data set's list (a line for each sample, a file for each input, relative to the list's folder), or
                  a sequence with what Session.run() takes for each, where the path of a picture or .npy file may stand for an
                  array. Its elements are asked for by several threads.
    `algorithm`   "normal", "kl_divergence" or "mmse": how ranges are chosen
    `method`      "channel" or "layer": a scale for each output of a weight, or one
    `dtype`       "w8a8", "w16a16i" or "w16a16i_dfp", or an older name of these: what all layers are that nothing else is said of
    `target`      a chip ("rk3588"): what it cannot compute is refused
    `symmetric`   zero points of tensors are 0
    `mean`, `std` of an input's channels: the model takes pixels then, and computes (x - mean) / std itself. Numbers for the
                  first input, or a dict by input
    `rgb2bgr`     pictures go in as BGR; one, or a list with one for each input
    `layout`      of 4-D arrays, as in Session.run(); None: the model's own; "either": of .npy files "nchw" where their shape fits
                  that alone, else "nhwc"
    `keep_float`, `int16`  nodes, by their names or their outputs', that stay float, or are 16 bits
    `without`     of "batchnorm", "activations", "equalization", "bias-correction", "comparison": what is not done
    `server`, `shapes`: as in Session; the float model runs there
    `clients`     samples that run at the same time
    `state`       a file in which an unfinished calibration is kept; the same call goes on from there. It is removed at the end
    `progress`    called with (samples done, all samples)
    `goal`        keeps the fewest layers in float with which the outputs' cosine to the float model's is so large (0.999);
                  `goal_type` "int16": 16 bits instead
    `report`      path of a page for browsers: errors and ranges of all layers
    `all_values`  histograms have all values of large tensors, not some; takes longer, and changes little
    `external_data`  weights go to OUTPUT.data beside the model, as they do anyway above 2 GB

    Raises ModelError (damaged, quantized already, nothing to quantize), InputError (a sample does not fit, or is not finite),
    ParameterError, ServerError, or what `samples` and `progress` raise.
    """
    with Quantizer(model, samples, algorithm=algorithm, method=method, dtype=dtype, target=target, symmetric=symmetric, mean=mean,
                   std=std, rgb2bgr=rgb2bgr, layout=layout, keep_float=keep_float, int16=int16, without=without, server=server,
                   shapes=shapes, clients=clients, state=state, progress=progress, all_values=all_values,
                   external_data=external_data, outputs=[path for path in (output, report) if path is not None]) as quantizer:
        if goal is not None:
            quantizer.propose(goal, to=goal_type)
        quantizer.write(output)
        if report is not None:
            quantizer.compare()
            quantizer.write_report(report)
        return quantizer.result


class Quantizer:
    """A float model that was run on samples, from which any number of models in 8 bits can be made: it chooses layers that
    stay float, and compares. Not for several threads at the same time.

    Arguments are those of quantize(). `keeps_state`: `state` stays at the end, and the next Quantizer of the same model and
    samples runs nothing. `key` stands for the samples in `state`; None: their names, or digests of arrays. `outputs`: paths that
    will be written, which are refused before anything runs where the model would be lost (check_output()).
    """

    def __init__(self, model: str | os.PathLike[str], samples: Samples, *, algorithm: str = "normal", method: str = "channel",
                 dtype: str = "w8a8", target: str | None = None, symmetric: bool = False,
                 mean: Numbers | None = None, std: Numbers | None = None, rgb2bgr: bool | Sequence[bool] = False,
                 layout: str | Sequence[str | None] | None = "nhwc",
                 keep_float: Sequence[str] = (), int16: Sequence[str] = (), without: Sequence[str] = (),
                 server: str | None = None, shapes: Shapes | None = None, clients: int = 2,
                 state: str | os.PathLike[str] | None = None, progress: Callable[[int, int], None] | None = None,
                 keeps_state: bool = False,
                 key: bytes | None = None, all_values: bool = False, external_data: bool = False,
                 outputs: Sequence[str | os.PathLike[str]] = ()) -> None:
        options = _Options(algorithm, method, symmetric, mean, std, keep_float, int16, without, target)
        options.pointer.external_data = bool(external_data)
        self._reader = _calibration.Reader(_calibration.listed(samples), layout, rgb2bgr)
        self._server, self._load_options = server, load_options(shapes)
        self._model, self._list = os.fspath(model), samples if isinstance(samples, (str, os.PathLike)) else None
        self._library = _library()
        self._proposal: Proposal | None = None
        if not isinstance(clients, int) or not 1 <= clients <= 64:
            raise _errors.ParameterError(f"clients is {clients!r}: a number from 1 to 64")
        for path in outputs:
            check_output(model, path)
        handle = ffi.new("rknnd_quant **")
        options.pointer.dtype = find_dtype(self._library, dtype)
        self._check(self._library.rknnd_quant_open(_path(model, "the model"), options.pointer, handle))
        self._quant: Any = handle[0]
        # A program's end runs it, too: an object of cffi's may outlive the library there.
        self._free = weakref.finalize(self, self._library.rknnd_quant_free, self._quant)
        self._samples = new("rknnd_quant_samples")
        self._samples.n, self._samples.n_clients = len(self._reader.samples), clients
        self._samples.keeps_state, self._samples.all_values = keeps_state, all_values
        self._kept = [ffi.NULL if state is None else ffi.new("char[]", _path(state, "state")),
                      ffi.new("char[]", b"" if state is None else self._reader.key() if key is None else key)]
        self._samples.state, self._samples.key = self._kept
        try:
            self._run(lambda: self._library.rknnd_quant_calibrate(self._quant, self._samples), progress)
        except BaseException:
            self.close()
            raise

    # ---- what stays float

    @property
    def proposal(self) -> Proposal | None:
        """The last one."""
        return self._proposal

    def propose(self, goal: float = GOAL, samples: int = 8, tried: Callable[[int, float], None] | None = None,
                to: str = "float16") -> Proposal:
        """Keeps the fewest layers in float (`to` "int16": in 16 bits) with which the outputs' cosine reaches `goal`, on so many of
        the samples. `tried` is called with the number of layers and the cosine of each try. Raises Error if it cannot be
        reached."""
        wanted, found = new("rknnd_quant_goal"), new("rknnd_quant_proposal")
        if isinstance(goal, bool) or not isinstance(goal, (int, float)) or not 0 < goal <= 1:
            raise _errors.ParameterError(f"goal is {goal!r}: a cosine above 0 and up to 1, as 0.999")
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise _errors.ParameterError(f"samples is {samples!r}: how many are run for each try, 1 or more")
        wanted.cosine, wanted.n_samples = goal, min(samples, self._samples.n)
        wanted.type = _one_of({"float16": 0, "int16": 16}, to, "to")
        calls = _calibration.Tries(tried)
        wanted.tried = calls.tried
        self._run(lambda: self._library.rknnd_quant_propose(self._quant, self._samples, wanted, found), None, calls)
        proposal = record(Proposal, "rknnd_quant_proposal", found,
                          floats=[text(found.floats[i]) for i in range(found.n_floats)])
        self._proposal = proposal
        return proposal

    def keep_float(self, names: Sequence[str]) -> None:
        """Which nodes stay float besides those of the begin, from now on."""
        self.set_types(dict.fromkeys(_names(names, "names"), "float16"))

    def set_types(self, types: Mapping[str, str]) -> None:
        """What nodes become, from now on, besides those of the begin: name -> "float16", "int16" or "int8"."""
        kept = [ffi.new("char[]", name.encode()) for name in _names(list(types), "types")]
        kinds = ffi.new("rknnd_quant_type[]", [_one_of(TYPES, kind, "types") for kind in types.values()])
        self._check(self._library.rknnd_quant_set_types(self._open(), len(kept), ffi.new("const char *[]", kept), kinds))

    def between(self, first: str, last: str) -> list[str]:
        """Nodes (names of their outputs) on the ways from tensor `first` to tensor `last`, for keep_float()."""
        n, found = ffi.new("uint32_t *"), ffi.new("const char *const **")
        for name in (first, last):
            if not isinstance(name, str):
                raise _errors.ParameterError(f"{name!r} is no name of a tensor")
        self._check(self._library.rknnd_quant_find_between(self._open(), first.encode(), last.encode(), n, found))
        return [text(found[0][i]) for i in range(n[0])]

    def set_range(self, tensor: str, low: float, high: float) -> None:
        """The range of a tensor, and of those that share its scale, in place of the chosen one; low <= 0 <= high."""
        self._check(self._library.rknnd_quant_set_range(self._open(), str(tensor).encode(), low, high))

    def write_table(self, path: str | os.PathLike[str]) -> None:
        """Writes what is float, and all ranges, as a text to be edited."""
        self._check(self._library.rknnd_quant_write_table(self._open(), _path(path, "the table")))

    def read_table(self, path: str | os.PathLike[str]) -> None:
        """Takes it, edited or not. Raises Error, with the line, for what it does not know."""
        self._check(self._library.rknnd_quant_read_table(self._open(), _path(path, "the table")))

    # ---- what there is to know

    @property
    def result(self) -> Quantization:
        """Tensors, nodes and numbers, as it is planned now."""
        library, quant = self._library, self._open()
        tensors, nodes, summary = ffi.new("const rknnd_list **"), ffi.new("const rknnd_list **"), new("rknnd_quant_summary")
        self._check(library.rknnd_quant_get_tensors(quant, tensors))
        self._check(library.rknnd_quant_get_nodes(quant, nodes))
        self._check(library.rknnd_quant_get_summary(quant, summary))
        return record(Quantization, "rknnd_quant_summary", summary, proposal=self._proposal,
                      tensors=[_tensor(one) for one in items("rknnd_quant_tensor", tensors[0])],
                      nodes=[record(QuantizedNode, "rknnd_quant_node", one) for one in items("rknnd_quant_node", nodes[0])])

    def compare(self, samples: int = 8, progress: Callable[[int, int], None] | None = None) -> list[QuantizedLayer]:
        """Runs the float model and the one in 8 bits on so many of the samples: how far each tensor is off."""
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise _errors.ParameterError(f"samples is {samples!r}: how many are run, 1 or more")
        found, n = ffi.new("const rknnd_list **"), min(samples, self._samples.n)
        self._run(lambda: self._library.rknnd_quant_compare(self._quant, self._samples, n, found), progress, of=n)
        return [record(QuantizedLayer, "rknnd_quant_layer", one) for one in items("rknnd_quant_layer", found[0])]

    # ---- what comes out

    def write(self, output: str | os.PathLike[str]) -> None:
        """Writes the model in 8 bits, whole or not at all; as often as wanted."""
        self._check(self._library.rknnd_quant_write(self._open(), _path(output, "the output")))

    def write_float(self, output: str | os.PathLike[str]) -> None:
        """Writes the float model as it was calibrated: with the same names of tensors and, where products were equalized, the same
        factors as the model in 8 bits. It computes what the original does (and takes pixels where `mean` or `std` was given)."""
        self._check(self._library.rknnd_quant_write_float(self._open(), _path(output, "the output")))

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes a page for browsers about what was done; after compare() with the errors of layers."""
        about = new("rknnd_quant_about")
        words = [self._model, "" if self._list is None else os.fsdecode(self._list), f"rknnd {_capi.version()}",
                 f"{datetime.datetime.now():%Y-%m-%d %H:%M}"]
        kept = [ffi.new("char[]", os.fsencode(word)) for word in words]
        about.n_samples = self._samples.n
        about.model, about.dataset, about.maker, about.date = kept
        self._check(self._library.rknnd_quant_write_page(self._open(), about, _path(path, "the report")))

    def close(self) -> None:
        """Frees everything. More than once is fine."""
        self._quant = None
        self._free()

    def __enter__(self) -> Quantizer:
        return self

    def __exit__(self, *_: BaseException | type[BaseException] | TracebackType | None) -> None:
        self.close()

    # ---- the library

    def _open(self) -> Any:
        if self._quant is None:
            raise _errors.ClosedError("the quantizer is closed")
        return self._quant

    def _check(self, code: int) -> None:
        _check(self._library, code)

    def _run(self, call: Callable[[], Any], progress: Callable[[int, int], None] | None,
             tries: _calibration.Tries | None = None, of: int | None = None) -> None:
        """What runs samples: on a thread of its own, so that this one can be interrupted."""
        self._open()
        calls = _calibration.Callbacks(self._reader, progress, len(self._reader.samples) if of is None else of)
        samples = self._samples
        samples.begin, samples.read, samples.release, samples.progress = calls.begin, calls.read, calls.release, calls.progress
        samples.describe = calls.describe

        def work() -> None:
            with _native.at_server(self._server), _native.loading(self._load_options):
                self._check(call())

        def end() -> None:
            calls.ended = True
            if tries is not None:
                tries.ended = True

        failed = _calibration.on_a_thread(work, end)
        for raised in (*failed[1:], tries.raised if tries is not None else None, calls.raised, *failed[:1]):
            if raised is not None:
                raise raised


def check_output(model: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Raises ParameterError where writing `output` would replace the float model, or a file that its weights lie in. All that
    writes asks this, too."""
    library = _library()
    _check(library, library.rknnd_quant_check_output(_path(model, "the model"), _path(output, "the output")))


def convert(model: str | os.PathLike[str], output: str | os.PathLike[str], *, mean: Numbers | None = None,
            std: Numbers | None = None, batch: int = 1) -> None:
    """Writes a model, quantized or not, with `mean` and `std` in it, which so takes pixels, for `batch` samples at once (the first
    dimension of its inputs and outputs). Nothing is quantized. Raises Error where a node may mix samples."""
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch < 1 << 31:
        raise _errors.ParameterError(f"batch is {batch!r}: how many samples at once, 1 or more")
    library, options = _library(), _Options("normal", "channel", False, mean, std, (), (), (), None)
    _check(library, library.rknnd_quant_convert(_path(model, "the model"), options.pointer, batch, _path(output, "the output")))


def _tensor(pointer: Any) -> QuantizedTensor:
    counts = np.frombuffer(ffi.buffer(pointer.bins, pointer.n_bins * 8), np.uint64).copy() if pointer.n_bins else None
    return record(QuantizedTensor, "rknnd_quant_tensor", pointer, bins=np.zeros(0, np.uint64) if counts is None else counts)


# ---- the library


def _library() -> Any:
    place = os.path.join(os.path.dirname(os.path.dirname(_capi.path)), NAME)
    found = place if os.path.exists(place) else NAME
    try:
        return ffi.dlopen(found)
    except OSError as error:
        raise _errors.LibraryError(f"the library that quantizes cannot be loaded ({error}): install the package rknnd-tools, "
                                   f"which has it (looked for at {place})") from None


def find_dtype(library: Any, dtype: object) -> int:
    """A type of quantization by its name in the manuals; ParameterError with the reason where it is not made."""
    found = ffi.new("rknnd_quant_dtype *")
    _check(library, library.rknnd_quant_find_dtype(str(dtype).encode(), found))
    return int(found[0])


def check_dtype(dtype: str) -> None:
    """ParameterError with the reason where it is not made."""
    find_dtype(_library(), dtype)


def _check(library: Any, code: int) -> None:
    if code < 0:
        raise _errors.of_code(code, text(library.rknnd_quant_last_error()))


def _path(path: object, what: str) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise _errors.ParameterError(f"{what} is {_errors.shown(path)}: give the path of a file")
    return os.fsencode(path)


# ---- options


def _one_of(known: Mapping[str, int], word: object, what: str) -> int:
    if not isinstance(word, str) or word not in known:
        raise _errors.ParameterError(f"{what} is {_errors.shown(word)}: one of {', '.join(known)}")
    return known[word]


def _names(values: object, what: str) -> list[str]:
    if isinstance(values, str) or not isinstance(values, (list, tuple)) or not all(isinstance(v, str) for v in values):
        raise _errors.ParameterError(f"{what} is {_errors.shown(values)}: give a list of names")
    return list(values)


def _by_input(values: Any, what: str) -> dict[str | None, Array]:
    """Numbers by input's name; None: the first one."""
    given = values if isinstance(values, Mapping) else {} if values is None else {None: values}
    made = {}
    for name, numbers in given.items():
        try:
            made[name] = np.atleast_1d(np.asarray(numbers, np.float32))
        except (TypeError, ValueError):
            raise _errors.ParameterError(f"{what} is {_errors.shown(numbers)}: give a list of numbers, one for each "
                                         "channel") from None
        if made[name].ndim != 1 or not np.isfinite(made[name]).all():
            raise _errors.ParameterError(f"{what} is {_errors.shown(numbers)}: give a list of numbers, one for each channel")
    return made


class _Options:
    """An rknnd_quant_options, and what it points to."""

    def __init__(self, algorithm: object, method: object, symmetric: object, mean: object, std: object,
                 keep_float: object, int16: object, without: object, target: object) -> None:
        self._kept: list[Any] = []
        self.pointer = new("rknnd_quant_options")
        self.pointer.algorithm = _one_of(ALGORITHMS, algorithm, "algorithm")
        self.pointer.per_layer = _one_of(METHODS, method, "method")
        self.pointer.symmetric = bool(symmetric)
        for name in _names(without, "without"):
            self.pointer.without |= _one_of(PASSES, name, "without")
        self.pointer.floats, self.pointer.n_floats = self._list(keep_float, "keep_float")
        self.pointer.int16s, self.pointer.n_int16s = self._list(int16, "int16")
        if target is not None:
            self.pointer.target = self._keep(ffi.new("char[]", str(target).encode()))
        self.pointer.normalizations = self._normalizations(_by_input(mean, "mean"), _by_input(std, "std"))

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        return made

    def _list(self, values: object, what: str) -> tuple[Any, int]:
        names = [self._keep(ffi.new("char[]", name.encode())) for name in _names(values, what)]
        return self._keep(ffi.new("const char *[]", names)), len(names)

    def _normalizations(self, means: dict[str | None, Array], stds: dict[str | None, Array]) -> Any:
        inputs = list(dict.fromkeys([*means, *stds]))
        made = self._keep(ffi.new("rknnd_quant_normalization[]", max(1, len(inputs))))
        for one, name in zip(made, inputs):
            mean, std = means.get(name), stds.get(name)
            if mean is not None and std is not None and len(mean) != len(std):
                raise _errors.ParameterError(f"mean has {len(mean)} numbers, std {len(std)}: give as many")
            one.struct_size = ffi.sizeof("rknnd_quant_normalization")
            one.input = ffi.NULL if name is None else self._keep(ffi.new("char[]", name.encode()))
            for kind, values in (("mean", mean), ("deviation", std)):
                if values is not None:
                    one.n_values = len(values)
                    setattr(one, kind, self._keep(ffi.new("float[]", values.tolist())))
        found = self._keep(new("rknnd_list"))
        found.n, found.stride, found.items = len(inputs), ffi.sizeof("rknnd_quant_normalization"), made
        return found
