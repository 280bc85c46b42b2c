"""config() and build(): settings of RKNN-Toolkit2's conversion, as far as they concern a quantized model, which is ONNX.
Files of the two steps of hybrid quantization are _hybrid.py's."""
from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, NoReturn
from collections.abc import Mapping, Sequence

import numpy as np

from .. import _calibration, _errors, quantization
from .._native import Array, TensorInfo
from ..session import Session
from . import _servers

# What an optimization level leaves out of what is done to the model: first what can cost accuracy.
_LEFT_OUT = {3: (), 2: ("equalization",), 1: ("equalization", "bias-correction"),
             0: ("batchnorm", "activations", "equalization", "bias-correction")}
# Of .rknn files alone: what they do to a model's numbers is nothing, so a model that is none goes without them.
_WITHOUT_EFFECT: dict[str, Any] = {"custom_string": None, "compress_weight": False, "single_core_mode": False,
                                   "model_pruning": False, "op_target": None, "sparse_infer": False,
                                   "enable_flash_attention": False, "disable_rules": None,
                                   "fold_constant": True}
_OP_TARGETS = ("cpu", "npu", "gpu", "auto")
# What would make another model than the one that comes out.
_REFUSED: dict[str, Any] = {"remove_weight": False, "quantize_weight": False, "remove_reshape": False, "inputs_yuv_fmt": None,
                            "auto_hybrid_euc_thresh": None, "quantized_hybrid_level": 0}
_INSTEAD = {"remove_weight": "weights are in the server's memory once for all that have a model open",
            "quantize_weight": "build(do_quantization=True) makes weights smaller",
            "remove_reshape": "load_onnx(outputs=…) cuts a model",
            "inputs_yuv_fmt": "inputs are RGB here: convert pictures before",
            "auto_hybrid_euc_thresh": "auto_hybrid_cos_thresh is the goal of layers in float",
            "quantized_hybrid_level": "build(auto_hybrid=True) keeps layers in float, as many as auto_hybrid_cos_thresh takes"}
# Of weights that have 4 bits, or tensors that have 16.
_OF_OTHER_TYPES = {"quantized_algorithm": ("gdq", "grq"), "quantized_method": ("group",)}
# Names of RKNN-Toolkit 1, and what they are called now.
_RENAMED = {"channel_mean_value": "mean_values and std_values", "reorder_channel": "quant_img_RGB2BGR",
            "batch_size": "rknn_batch_size of build()", "epochs": "nothing: the whole data set is run"}
_USUAL_SAMPLES = 20  # the least that the manuals take (RKNN-Toolkit2 guide, quantization accuracy)
_COSINE = 0.98  # auto_hybrid_cos_thresh
_FLOATS = {"float16": None}  # what float_dtype may be; here floats are as the model has them
_DEFAULTS: dict[str, Any] = {"mean_values": None, "std_values": None, "quant_img_RGB2BGR": False, "quantized_dtype": "w8a8",
                             "quantized_algorithm": "normal", "quantized_method": "channel", "optimization_level": 3,
                             "target_platform": None, "dynamic_input": None, "float_dtype": "float16",
                             "auto_hybrid_cos_thresh": _COSINE, **_WITHOUT_EFFECT, **_REFUSED}

Warn = Callable[[str], None]


@dataclass
class Config:
    """What config() has been given."""

    values: dict[str, Any] = field(default_factory=lambda: dict(_DEFAULTS))

    @property
    def shape_sets(self) -> list[list[list[int]]]:
        """dynamic_input: a list of shapes, one for each input, for each set; [] for none."""
        return [[list(shape) for shape in shapes] for shapes in self.values["dynamic_input"] or []]

    def swaps(self, n: int) -> list[bool]:
        """quant_img_RGB2BGR of n inputs."""
        given = self.values["quant_img_RGB2BGR"]
        return _per_input([bool(one) for one in given] if isinstance(given, (list, tuple)) else [bool(given)] * n, n,
                          "quant_img_RGB2BGR")


def read_config(named: Mapping[str, Any], warn: Warn) -> Config:
    """Checks what can be checked without a model. ParameterError names the setting."""
    unknown = [name for name in named if name not in _DEFAULTS]
    renamed = [f"{name} (now {_RENAMED[name]})" for name in unknown if name in _RENAMED]
    if renamed:
        raise _errors.ParameterError(f"{', '.join(renamed)}: RKNN-Toolkit 1 has that, and this is the interface of RKNN-Toolkit2")
    if unknown:
        raise _errors.ParameterError(f"{', '.join(unknown)}: no such setting; there are {', '.join(sorted(_DEFAULTS))}")
    values = {**_DEFAULTS, **named}
    for name, default in _REFUSED.items():
        if _differs(values[name], default):
            raise _errors.ParameterError(f"{name} is {values[name]!r}: only RKNN-Toolkit2 makes such models; leave it away "
                                         f"({_INSTEAD[name]})")
    _check_without_effect(values)
    for name, default in _WITHOUT_EFFECT.items():
        if _differs(values[name], default):
            warn(f"config: {name} has no effect: it is of .rknn files, and what is made here is ONNX")
    if not isinstance(values["quantized_dtype"], str):
        raise _errors.ParameterError(f"quantized_dtype is {values['quantized_dtype']!r}: a name, as 'w8a8'")
    try:
        quantization.check_dtype(values["quantized_dtype"])
    except _errors.ParameterError as error:
        raise _errors.ParameterError(f"quantized_dtype: {error}") from None
    _choose(values, "quantized_algorithm", quantization.ALGORITHMS)
    _choose(values, "quantized_method", quantization.METHODS)
    _choose(values, "float_dtype", _FLOATS)
    _choose(values, "optimization_level", _LEFT_OUT)
    for name in ("mean_values", "std_values"):
        values[name] = _plain(values[name]) or None
        _check_numbers(name, values[name])
    _check_swaps(values["quant_img_RGB2BGR"])
    values["auto_hybrid_cos_thresh"] = _plain(values["auto_hybrid_cos_thresh"])
    _check_goal(values["auto_hybrid_cos_thresh"])
    if values["dynamic_input"] and not _are_shape_sets(values["dynamic_input"]):
        raise _errors.ParameterError(f"dynamic_input is {_errors.shown(values['dynamic_input'])}: give a list of sets, each with a "
                                     "shape for each input, [[[1, 3, 224, 224]], [[1, 3, 192, 192]]]")
    if values["target_platform"] is not None:
        values["target_platform"] = _servers.check_platform(values["target_platform"])
    return Config(values)


def _check_without_effect(values: Mapping[str, Any]) -> None:
    """What has no effect here is still what the manuals say it is: a program that gives something else fails on RKNN-Toolkit2."""
    def refuse(name: str, form: str) -> NoReturn:
        raise _errors.ParameterError(f"{name} is {_errors.shown(values[name])}: {form}")
    for name, default in _WITHOUT_EFFECT.items():
        if isinstance(default, bool) and not _is_flag(values[name]):
            refuse(name, "True or False")
    if not isinstance(values["custom_string"], (str, type(None))):
        refuse("custom_string", "a string")
    rules = values["disable_rules"]
    if rules is not None and not (isinstance(rules, (list, tuple)) and all(isinstance(one, str) for one in rules)):
        refuse("disable_rules", "a list of names")
    targets = values["op_target"]
    if targets is not None and not (isinstance(targets, dict) and all(isinstance(name, str) for name in targets) and
                                    all(isinstance(one, str) and one.lower() in _OP_TARGETS for one in targets.values())):
        refuse("op_target", f"a dict of operators' outputs, each with one of {', '.join(_OP_TARGETS)}, as {{'conv1_out': 'cpu'}}")


def _is_flag(given: Any) -> bool:
    return isinstance(given, (bool, np.bool_)) or (isinstance(given, int) and given in (0, 1)) or given is None


def _are_shape_sets(values: Any) -> bool:
    """[[shape of input 0, shape of input 1, …], …]"""
    def are(given: Any, one: Callable[[Any], bool]) -> bool:
        return isinstance(given, (list, tuple)) and len(given) > 0 and all(map(one, given))

    def is_shape(given: Any) -> bool:
        return are(given, lambda size: isinstance(size, (int, np.integer)) and bool(size > 0))
    return are(values, lambda shapes: are(shapes, is_shape)) and len({len(shapes) for shapes in values}) == 1


def _differs(value: Any, default: Any) -> bool:
    """None, False, [] and {} all say that a setting is not used."""
    return bool(value) != bool(default) if not default or not value else bool(value != default)


def _plain(values: Any) -> Any:
    """Lists of lists of numbers, whatever kinds of sequences they were."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    if isinstance(values, (list, tuple)):
        return [_plain(one) for one in values]
    return values.item() if isinstance(values, np.generic) else values


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and bool(abs(given) <= np.finfo(np.float32).max)


def _check_numbers(name: str, values: Any) -> None:
    """None, a list of numbers, or one such list for each input."""
    lists = values if isinstance(values, list) and all(isinstance(one, list) for one in values) else [values]
    if values is not None and not all(isinstance(one, list) and all(map(_is_number, one)) for one in lists):
        raise _errors.ParameterError(f"{name} is {_errors.shown(values)}: give a list with a list of numbers for each input, one "
                                     "for each channel")
    if name == "std_values" and any(one <= 0 for numbers in lists for one in numbers or ()):
        raise _errors.ParameterError(f"std_values is {_errors.shown(values)}: pixels are divided by them, so they are above 0 (1: "
                                     "nothing is done)")


def _check_goal(given: Any) -> None:
    if not _is_number(given) or not 0 < given <= 1:
        raise _errors.ParameterError(f"auto_hybrid_cos_thresh is {_errors.shown(given)}: a cosine above 0 and up to 1, as "
                                     f"{_COSINE}")


def _check_swaps(given: Any) -> None:
    listed = given if isinstance(given, (list, tuple)) else [given]
    if not all(one is None or isinstance(one, (bool, np.bool_)) or one in (0, 1) for one in listed):
        raise _errors.ParameterError(f"quant_img_RGB2BGR is {_errors.shown(given)}: give True or False, or a list with one for "
                                     "each input")


def _choose(values: Mapping[str, Any], name: str, known: Mapping[Any, Any]) -> None:
    if str(values[name]).startswith(_OF_OTHER_TYPES.get(name, ())):
        raise _errors.ParameterError(f"{name} is {values[name]!r}: it is of w4a16 and the like, which are not made; there are "
                                     f"{', '.join(map(str, known))}")
    if isinstance(values[name], bool) or not isinstance(values[name], (str, int)) or values[name] not in known:
        raise _errors.ParameterError(f"{name} is {values[name]!r}: one of {', '.join(map(str, known))}")


def _per_input(values: Any, n: int, what: str) -> list[Any]:
    if len(values) != n:
        raise _errors.ParameterError(f"{what} has {len(values)} elements, and the model has {n} inputs: give one for each")
    return list(values)


def _of_inputs(values: Any, inputs: Sequence[str], what: str) -> dict[str, Sequence[float]] | None:
    """mean_values or std_values by input. A flat list is of the only input."""
    if values is None:
        return None
    if not isinstance(values, (list, tuple)):
        raise _errors.ParameterError(f"{what} is {_errors.shown(values)}: give a list with a list of numbers for each input")
    lists = values if all(isinstance(one, (list, tuple)) for one in values) else [values]
    return dict(zip(inputs, _per_input(lists, len(inputs), what)))


# ---- build()


@dataclass
class Source:
    """The model that load_onnx() took: names of its inputs, those that are constants by index, load options, and how many samples
    the model that is made of it takes at once (rknn_batch_size)."""

    path: str
    inputs: Sequence[str]
    constants: Mapping[int, Array]
    shapes: Mapping[str, Sequence[int]]
    batch: int = 1


def read_batch(given: object) -> int:
    """rknn_batch_size: None is 1."""
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise _errors.ParameterError(f"rknn_batch_size is {given!r}: how many samples the model takes at once, 1 or more")
    return int(given)


def quantizer(source: Source, config: Config, samples: Sequence[Any], progress: Callable[[int, int], None] | None,
              **more: Any) -> quantization.Quantizer:
    """The float model, calibrated as config() says. `more`: of Quantizer."""
    values, names = config.values, source.inputs
    # Of a file that is no model, no input is known: the library says what it is.
    means, stds = (_of_inputs(values[kind], names, kind) if names else None for kind in ("mean_values", "std_values"))
    return quantization.Quantizer(
        source.path, samples, algorithm=values["quantized_algorithm"], method=values["quantized_method"],
        dtype=values["quantized_dtype"], target=values["target_platform"], mean=means, std=stds,
        rgb2bgr=config.swaps(len(names)), without=_LEFT_OUT[values["optimization_level"]], server=_servers.SIMULATOR,
        layout="either", shapes=_largest_shapes(source, config), progress=progress, **more)


class Built:
    """The int8 model, in a folder that lives as long as this object: its file's `path`, what was `done`, the float model that has
    the same tensors where that is another than the original (`golden`), what it does to its inputs (`description`, as
    rknnd.describe() tells of converted models), and what it has had done to pictures (`swaps`)."""

    def __init__(self, source: Source, config: Config, calibrated: quantization.Quantizer) -> None:
        values, names = config.values, source.inputs
        means, stds = (_of_inputs(values[kind], names, kind) or {} for kind in ("mean_values", "std_values"))
        self.swaps = config.swaps(len(names))
        self.description = {"inputs": [_preprocessing(means.get(name), stds.get(name)) for name in names]}
        folder = tempfile.mkdtemp(prefix="rknnd-build-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        stem = os.path.splitext(os.path.basename(source.path))[0]
        self.path = os.path.join(folder, f"{stem}_int8.onnx")
        calibrated.write(self.path)
        self.batched = self.path  # what is run and exported; layers are compared with one sample
        if source.batch > 1:
            self.batched = os.path.join(folder, f"{stem}_int8_batch{source.batch}.onnx")
            make_batch(source, config, self.path, self.batched)
        self.done = calibrated.result
        self.golden: str | None = None
        if self.done.n_equalized:  # of which tensors have factors that the original has not
            self.golden = os.path.join(folder, f"{stem}_float.onnx")
            calibrated.write_float(self.golden)


class Converted:
    """The float model with what config() puts into it, in a folder that lives as long as this object; the model itself where
    there is nothing."""

    def __init__(self, source: Source, config: Config) -> None:
        means, stds = (_of_inputs(config.values[kind], source.inputs, kind) for kind in ("mean_values", "std_values"))
        self.path = source.path
        if means is None and stds is None and source.batch == 1:
            return
        folder = tempfile.mkdtemp(prefix="rknnd-build-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        self.path = os.path.join(folder, os.path.basename(source.path))
        quantization.convert(source.path, self.path, mean=means, std=stds)
        if source.batch > 1:
            one, self.path = self.path, os.path.join(folder, f"batch{source.batch}_{os.path.basename(source.path)}")
            make_batch(source, config, one, self.path)


def make_batch(source: Source, config: Config, path: str, output: str) -> None:
    """The model of `path` for several samples at once, tried with unlike ones: each has to come out as it does alone."""
    if source.constants:
        raise _errors.ParameterError("rknn_batch_size and input_initial_val exclude each other: constants are of one sample")
    quantization.convert(path, output, batch=source.batch)
    first = {name: shape[0] for name, shape in _shapes(source, config).items()}
    whole = {name: [source.batch, *shape[1:]] for name, shape in first.items()}
    rng = np.random.default_rng(1)
    with Session(path, _servers.SIMULATOR, shapes=first or None) as one:
        samples = [[_noise(rng, info) for info in one.inputs] for _ in range(source.batch)]
        alone = [one.run(arrays) for arrays in samples]
    with Session(output, _servers.SIMULATOR, shapes=whole or None) as several:
        together = several.run([np.concatenate(arrays) for arrays in zip(*samples)])
    for found, wanted in zip(together, map(np.concatenate, zip(*alone))):
        if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max())):
            raise _errors.ModelError(f"rknn_batch_size {source.batch}: the model mixes samples, or its shapes fix their number: "
                                     "give one that was exported with a batch dimension")


def _noise(rng: np.random.Generator, info: TensorInfo) -> Array:
    if info.dtype.startswith("float"):
        return rng.uniform(0, 255, info.shape).astype(np.float32)
    return rng.integers(0, 2, info.shape).astype(info.dtype)


def _preprocessing(mean: Sequence[float] | None, std: Sequence[float] | None) -> dict[str, Any]:
    n = len(mean or std or ())
    return {"mean": list(mean or [0.0] * n), "std": list(std or [1.0] * n), "channel_order": list(range(n))}


def _largest_shapes(source: Source, config: Config) -> Mapping[str, Sequence[int]]:
    """Those that the data set has (SDK guide, 5.4.3): of dynamic_input the set whose inputs have most elements together."""
    if not config.shape_sets:
        return source.shapes
    largest = max(config.shape_sets, key=lambda shapes: sum(int(np.prod(shape)) for shape in shapes))
    return dict(zip(source.inputs, _per_input(largest, len(source.inputs), "dynamic_input")))


def samples_of(source: Source, dataset: object) -> Sequence[Any]:
    """The dataset's samples, with the inputs that are constants between them."""
    if not isinstance(dataset, (str, os.PathLike)):
        raise _errors.ParameterError(f"dataset is {_errors.shown(dataset)}: give the path of a list with a line of files for "
                                     "each sample")
    samples = _calibration.read_list(dataset)
    for sample in samples:
        for index in sorted(source.constants):
            sample.insert(index, source.constants[index])
    return samples


def words_of_few(config: Config, n: int) -> str | None:
    """A warning where n samples are few for the algorithm. Bounds of few are too narrow; a search cuts off what is seldom."""
    algorithm = config.values["quantized_algorithm"]
    if algorithm == "normal" or n >= _USUAL_SAMPLES:
        return None
    return (f"{n} samples are few for {algorithm}, which cuts off what is seldom in them: give at least {_USUAL_SAMPLES} like "
            "those that will come")


def _shapes(source: Source, config: Config) -> dict[str, list[Sequence[int]]]:
    """What inputs may be, as far as it is said."""
    sets = config.shape_sets
    if not sets:
        return {name: [shape] for name, shape in source.shapes.items()}
    return dict(zip(source.inputs, map(list, zip(*(_per_input(one, len(source.inputs), "dynamic_input") for one in sets)))))


def _batched_shapes(source: Source, config: Config, batch: int) -> dict[str, list[Sequence[int]]]:
    return {name: [[batch, *one[1:]] if batch > 1 else one for one in given] for name, given in _shapes(source, config).items()}


def check_shapes(source: Source, config: Config, path: str) -> None:
    """ModelError where the built model of `path` does not take each of dynamic_input's shapes: the data set has one of them."""
    if not config.shape_sets:
        return
    try:
        Session(path, _servers.SIMULATOR, shapes=_batched_shapes(source, config, source.batch)).close()
    except _errors.Error as error:
        raise _errors.ModelError(f"dynamic_input: {error}: export the model with these dimensions open (torch.onnx.export: "
                                 "dynamic_axes), or give shapes that it takes") from error


def load_options(source: Source, config: Config, batch: int = 1) -> str | None:
    """Load options of the built model: the shapes that it may take."""
    shapes = _batched_shapes(source, config, batch)
    return "\n".join(f"shape {name}={','.join('x'.join(map(str, one)) for one in given)}" for name, given in shapes.items()) or None
