"""Files of hybrid quantization, between its two steps, in the current folder:

    NAME.model              the float model, ONNX
    NAME.model.data         its weights, where it has more than 2 GB
    NAME.data               what step 2 has to know: settings, constants, and the calibration (a ZIP file)
    NAME.quantization.cfg   which layers are float, and all ranges: the text that people edit

Step 2 needs no config(), load_onnx() or data set: all of that is in them.
"""
from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass
from typing import Any, Callable
from collections.abc import Sequence

import numpy as np

from .. import _errors, quantization, servers
from . import _quantizing, _servers
from ._quantizing import Built, Config, Source

_FORMAT = "rknnd hybrid quantization 2"
_KEY = b"rknn.api"
_MOST_BYTES = 1 << 30  # of a member of NAME.data
_PARTS = ("model", "data", "quantization.cfg")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Choice:
    """What step 1 is asked for."""

    proposal: bool
    proposal_dataset_size: int
    custom_hybrid: Sequence[tuple[str, str]]


def read_choice(proposal: Any, proposal_dataset_size: Any, custom_hybrid: Any) -> Choice:
    """Checks arguments of step 1."""
    if isinstance(proposal_dataset_size, bool) or not isinstance(proposal_dataset_size, int) or proposal_dataset_size < 1:
        raise _errors.ParameterError(f"proposal_dataset_size is {proposal_dataset_size!r}: how many samples, 1 or more")
    pairs = custom_hybrid if custom_hybrid is not None else []
    if not isinstance(pairs, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in pairs):
        raise _errors.ParameterError(f"custom_hybrid is {custom_hybrid!r}: give [[input_name, output_name], …], names of tensors")
    return Choice(bool(proposal), proposal_dataset_size, [(pair[0], pair[1]) for pair in pairs])


def _weights_of(model: str) -> str:
    """The file that weights of a model above 2 GB lie in."""
    return model + ".data"


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


# ---- step 1


def _choose(calibrated: quantization.Quantizer, choice: Choice, goal: float) -> list[str]:
    """Layers in float: what is proposed, and the parts that were named."""
    floats = list(calibrated.propose(goal, choice.proposal_dataset_size).floats) if choice.proposal else []
    for pair in choice.custom_hybrid:
        floats += calibrated.between(*pair)
    return list(dict.fromkeys(floats))


def _write_data(path: str, source: Source, config: Config, n_samples: int, state: str, model: str) -> None:
    settings = {"format": _FORMAT, "config": config.values, "inputs": list(source.inputs), "n_samples": n_samples,
                "batch": source.batch,
                "shapes": {name: [int(d) for d in shape] for name, shape in source.shapes.items()},
                "constants": sorted(source.constants), "model_sha256": _digest(model),
                "weights_sha256": _digest(_weights_of(model)) if os.path.exists(_weights_of(model)) else None}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as data:
        data.writestr("settings.json", json.dumps(settings, indent=1, default=str))
        for index, values in source.constants.items():
            packed = io.BytesIO()
            np.save(packed, values)
            data.writestr(f"constant{index}.npy", packed.getvalue())
        data.write(state, "calibration")


def _copy_model(source: Source, path: str) -> list[str]:
    """Weights in other files come with it. Names of what is written, the model last, which needs the other."""
    quantization.convert(source.path, path)
    servers.describe(path, _servers.SIMULATOR)
    return [one for one in (_weights_of(path), path) if os.path.exists(one)]


def _check_is_free(model: str, name: str) -> None:
    """NAME.data is what others call the weights of NAME.onnx."""
    try:
        quantization.check_output(model, name)
    except _errors.ParameterError as error:
        raise _errors.ParameterError(f"{error}: files of hybrid quantization go to the current folder, so call this in another "
                                     "one") from error


def step1(source: Source, config: Config, samples: Sequence[Any], choice: Choice, progress: Progress) -> list[str]:
    """Calibrates and writes the three files, all or none. Their names."""
    stem = os.path.splitext(os.path.basename(source.path))[0]
    names = [f"{stem}.{part}" for part in _PARTS]
    stays = os.path.exists(names[0]) and os.path.samefile(names[0], source.path)
    for name in names[stays:]:
        _check_is_free(source.path, name)
    with tempfile.TemporaryDirectory(prefix=f".{stem}-", dir=".") as folder:
        made = [os.path.join(folder, name) for name in names]
        state = os.path.join(folder, "calibration")
        with _quantizing.quantizer(source, config, samples, progress, state=state, keeps_state=True, key=_KEY) as calibrated:
            calibrated.keep_float(_choose(calibrated, choice, config.values["auto_hybrid_cos_thresh"]))
            calibrated.write_table(made[2])
        copied = _copy_model(source, made[0])
        _write_data(made[1], source, config, len(samples), state, source.path if stays else made[0])
        for path in [*([] if stays else copied), *made[1:]]:
            os.replace(path, os.path.basename(path))
    return names


# ---- step 2


class _Kept(Sequence[Any]):
    """Samples that were run in step 1: none is read again."""

    def __init__(self, n: int, data: str) -> None:
        self._n, self._data = n, data

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, _index: Any) -> Any:
        raise _errors.ModelError(f"the calibration in {self._data} is not of this version of rknnd: call "
                                 "hybrid_quantization_step1 again")


def _not_ours(path: str, why: object) -> _errors.Error:
    return _errors.ModelError(f"{path} was not written by hybrid_quantization_step1 of rknnd ({why}): call it, and give its file")


def _member(data: zipfile.ZipFile, name: str) -> bytes:
    if data.getinfo(name).file_size > _MOST_BYTES:
        raise ValueError(f"{name} is too large")
    return data.read(name)


def _read_data(path: str, model: str, state: str) -> tuple[Source, Config, int]:
    """What step 1 has kept; the calibration goes to the file `state`."""
    try:
        with zipfile.ZipFile(path) as data:
            settings = json.loads(_member(data, "settings.json"))
            if settings["format"] != _FORMAT:
                raise ValueError(f"its format is {settings['format']!r}")
            constants = {int(index): np.load(io.BytesIO(_member(data, f"constant{int(index)}.npy")), allow_pickle=False)
                         for index in settings["constants"]}
            with open(state, "wb") as file:
                file.write(_member(data, "calibration"))
        config = _quantizing.read_config(settings["config"], lambda _words: None)
        source = Source(model, [str(name) for name in settings["inputs"]], constants,
                        {str(name): [int(d) for d in shape] for name, shape in settings["shapes"].items()},
                        _quantizing.read_batch(settings["batch"]))
        n_samples = int(settings["n_samples"])
        digest, weights = settings["model_sha256"], settings["weights_sha256"]
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, EOFError, NotImplementedError,
            RuntimeError) as error:
        raise _not_ours(path, error) from error
    if weights is not None and not os.path.exists(_weights_of(model)):
        raise _errors.ModelError(f"{_weights_of(model)} is missing: hybrid_quantization_step1 wrote it beside {model}, with the "
                                 "model's weights")
    if _digest(model) != digest or (weights is not None and _digest(_weights_of(model)) != weights):
        raise _errors.ModelError(f"{model} is not the model that {path} is of: give both files of one hybrid_quantization_step1")
    return source, config, n_samples


def step2(model: str, data: str, table: str) -> tuple[Source, Config, Built]:
    """Makes the model of the three files."""
    with tempfile.TemporaryDirectory(prefix="rknnd-hybrid-") as folder:
        state = os.path.join(folder, "calibration")
        source, config, n_samples = _read_data(data, model, state)
        with _quantizing.quantizer(source, config, _Kept(n_samples, data), None, state=state, keeps_state=True,
                                   key=_KEY) as calibrated:
            calibrated.read_table(table)
            return source, config, Built(source, config, calibrated)
