"""accuracy_analysis(): how far each layer is from the float model's, on the software NPU and on a board.

    golden      the float model (ONNX) on the software NPU; without one, the converted model there
    simulator   the converted model on the software NPU
    runtime     the converted model on the board

`entire`: with the errors of all layers before. `single`: each layer computes with golden values, `single_sim`: with
the simulator's. Tensors belong together by name. Distances are those of rknnd_distance (rknnd.h).
"""
from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from typing import Any, Callable
from collections.abc import Sequence

import numpy as np

from .. import _arrays, _errors, _native, _pictures, layers, servers
from .._capi import ffi, lib, text
from .._native import Array
from .._records import new
from . import _servers
from ._runtime import RKNNRuntime

Distance = tuple[float, float]  # cosine, euclidean


@dataclass
class Column:
    """One kind of error, by tensor's name; `why` it is not there."""

    errors: dict[str, Distance] = field(default_factory=dict)
    why: str = ""


@dataclass
class Analysis:
    """What was found. `tensors`: name and operator, in order."""

    tensors: list[tuple[str, str]] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)


# ---- inputs


def _preprocessing(description: dict[str, Any], index: int) -> tuple[Array, Array, list[int]] | None:
    """Mean, standard deviation and channel order that a converted model applies by itself."""
    inputs = description.get("inputs") or []
    given = inputs[index] if index < len(inputs) else {}
    mean, std, order = given.get("mean"), given.get("std"), given.get("channel_order")
    if not mean or not std or not order or not len(mean) == len(std) == len(order):
        return None
    if sorted(order) != list(range(len(order))):
        return None
    return np.asarray(mean, np.float64), np.asarray(std, np.float64), [int(c) for c in order]


def prepare_golden(array: Array, info: _native.TensorInfo, description: dict[str, Any]) -> Array:
    """The converted model's input as the float model takes it: float32, after the preprocessing that the converted
    model contains. NHWC where 4-D."""
    if array.dtype.kind not in "fiu" or info.dtype in ("int64", "int32", "bool"):
        return array
    known = _preprocessing(description, info.index)
    if known is None or array.ndim != 4 or array.shape[3] != len(known[2]):
        return array.astype(np.float32)
    mean, std, order = known
    return np.asarray((array[..., order].astype(np.float64) - mean) / std, np.float32)


def read_inputs(paths: object, infos: Sequence[_native.TensorInfo], swaps: Sequence[bool] = ()) -> list[Array]:
    """The arrays of the files, in the shapes that the model takes. `swaps`: inputs whose pictures go in as BGR."""
    if not isinstance(paths, (list, tuple)) or len(paths) != len(infos):
        n = len(infos)
        raise _errors.InputError(f"inputs is {_errors.shown(paths)}: give a list with {n} path{'s' if n > 1 else ''}, one for each "
                                 "input")
    arrays = [_pixels_last(_pictures.read_input(path, info.shape), info) for path, info in zip(paths, infos)]
    return [_pictures.in_bgr(array) if swap and _pictures.is_picture(path) else array
            for path, array, swap in zip(paths, arrays, [*swaps, *[False] * len(arrays)])]


def _pixels_last(array: Array, info: _native.TensorInfo) -> Array:
    """A .npy file may be as the float model's input is (SDK guide, 10.5), which is NCHW mostly."""
    if array.ndim not in (3, 4) or _arrays.layout_of(info, array.shape) == "nhwc":
        return array
    return np.moveaxis(array, -3, -1)


def _batched(array: Array, info: _native.TensorInfo) -> Array:
    return array.reshape(info.shape) if array.size == info.n_elems else array


# ---- comparing


def _file_name(index: int, name: str) -> str:
    return f"{index:04}_{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:100]}.npy"


class _Snapshots:
    """Folders of tensors as float32 in .npy files, each with a list of which file is which tensor."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def start(self, kind: str) -> None:
        os.makedirs(os.path.join(self.folder, kind), exist_ok=True)
        with open(self._list(kind), "w", encoding="utf-8"):
            pass

    def _list(self, kind: str) -> str:
        return os.path.join(self.folder, kind, "map_name_to_file.txt")

    def write(self, kind: str, index: int, name: str, values: Array) -> None:
        file = _file_name(index, name)
        np.save(os.path.join(self.folder, kind, file), values)
        with open(self._list(kind), "a", encoding="utf-8") as names:
            names.write(f"{name}\t{file}\n")


def _values(pointer: Any, tensor: Any) -> Array:
    shape = tuple(tensor.dims[0:tensor.n_dims])
    return np.frombuffer(ffi.buffer(pointer, tensor.n_elems * 4), np.float32).reshape(shape)


def compare(runtime: RKNNRuntime, golden: layers.Golden, single: bool, seen: Callable[[Any], None]) -> None:
    """Runs the model once and calls back with each rknnd_comparison, of which only one is in memory. What `seen` raises,
    this raises."""
    def called(_user: Any, comparison: Any) -> int:
        seen(comparison)
        return 0

    options = new("rknnd_compare_options")
    options.single = single
    callback = ffi.callback("rknnd_comparison_callback", called, error=lib.RKNN_ERR_FAIL, onerror=_native.keep_raised)
    _native.check(lib.rknnd_compare_layers(runtime.native.handle, golden.pointer, options, callback, ffi.NULL))


class _Bar:
    """Progress on a terminal: one line that is written over."""

    def __init__(self, out: Any = None) -> None:
        self.out = sys.stderr if out is None else out
        self.shown = bool(self.out) and self.out.isatty()
        self.total = 0

    def step(self, what: str, done: int) -> None:
        if self.shown:
            of = f"/{self.total}" if self.total else ""
            part = 20 * done // self.total if self.total else 0
            bar = f"[{'#' * part}{'.' * (20 - part)}] " if self.total else ""
            self.out.write(f"\r{what}: {bar}{done}{of} tensors\x1b[K")
            self.out.flush()

    def end(self) -> None:
        if self.shown:
            self.out.write("\r\x1b[K")
            self.out.flush()


class Analyzer:
    """One analysis, step by step, into a folder."""

    def __init__(self, folder: str) -> None:
        self.found = Analysis()
        self.snapshots = _Snapshots(folder)
        self.bar = _Bar()

    def column(self, name: str, runtime: RKNNRuntime, golden: layers.Golden, single: bool, kinds: tuple[str, ...] = ()) -> None:
        """Fills a column of errors. `kinds`: folders for the run's own values and for the golden ones."""
        column = self.found.columns.setdefault(name, Column())
        known = {layer for layer, _ in self.found.tensors}
        done = 0

        def seen(comparison: Any) -> None:
            nonlocal done
            tensor = comparison.tensor
            label = text(tensor.name)
            if label not in known:
                known.add(label)
                self.found.tensors.append((label, text(tensor.op)))
            if comparison.golden != ffi.NULL:
                column.errors[label] = (comparison.distance.cosine, comparison.distance.euclidean)
            for kind, values in zip(kinds, (comparison.values, comparison.golden)):
                if values != ffi.NULL:
                    self.snapshots.write(kind, tensor.index, label, _values(values, tensor))
            done += 1
            self.bar.step(name, done)

        for kind in kinds:
            self.snapshots.start(kind)
        try:
            compare(runtime, golden, single, seen)
        except _errors.Error as error:
            if not single:
                raise
            column.why = str(error)  # a device that cannot take a layer's inputs from outside
        if done and not column.errors:  # of a runtime that shows its layers by other names
            column.why = f"none of the {done} tensors that the device shows has a golden one's name"
        self.bar.total = max(self.bar.total, done)


# ---- the table

_HEAD = """\
# Errors of each tensor of the model: cosine (cos) and euclidean (euc) distance.
# simulator_error: of the converted model on the software NPU.
#     entire: from golden, with the errors of all layers before.
#     single: from golden, where each layer computes with golden inputs: its own error.
# runtime_error: of the converted model on the board.
#     entire: from golden, with the errors of all layers before.
#     single_sim: from the simulator, where each layer computes with the simulator's inputs: its own error.
"""
_GROUPS = (("simulator_error", (("entire", "simulator entire"), ("single", "simulator single"))),
           ("runtime_error", (("entire", "runtime entire"), ("single_sim", "runtime single_sim"))))
_CELL = 24


def _number(value: float) -> str:
    return "0.0" if value == 0 else f"{value:.5g}"


def _cell(distance: Distance | None) -> str:
    if distance is None:
        return "-".center(_CELL)
    return f"{f'{distance[0]:.5f}':>10} | {_number(distance[1]):<{_CELL - 13}}"


def table(found: Analysis, golden: str) -> str:
    """error_analysis.txt. `golden`: what the golden values are of, in words."""
    groups = [(title, [(sub, found.columns[key]) for sub, key in columns if key in found.columns])
              for title, columns in _GROUPS]
    groups = [group for group in groups if group[1]]
    columns = [column for _, listed in groups for _, column in listed]
    labels = [f"[{op}] {name}" for name, op in found.tensors]
    width = max([len(label) for label in labels] + [len("layer_name")]) + 2
    rule = "-" * (width + _CELL * len(columns))
    lines = [_HEAD.rstrip("\n"), f"# golden: {golden}"]
    lines += [f"# {title} {sub}: not known: {column.why}" for title, listed in groups for sub, column in listed
              if column.why]
    lines += ["", "layer_name".ljust(width) + "".join(title.center(_CELL * len(listed)) for title, listed in groups),
              " " * width + "".join(sub.center(_CELL) for _, listed in groups for sub, _ in listed),
              " " * width + "".join(f"{'cos':>10}   {'euc':<{_CELL - 13}}" for _ in columns), rule]
    for (name, _), label in zip(found.tensors, labels):
        lines.append((label.ljust(width) + "".join(_cell(column.errors.get(name)) for column in columns)).rstrip())
    return "\n".join(line.rstrip() for line in [*lines, rule]) + "\n"


# ---- all of it


@dataclass
class Models:
    """`model` and `golden` (or None): how to open them, given a server, and their files' paths. `description`: what the model
    does to its inputs before, where its file does not tell; `swaps`: inputs whose pictures go in as BGR."""

    model: Callable[[str | None], RKNNRuntime]
    golden: Callable[[str | None], RKNNRuntime] | None
    path: str
    golden_path: str | None
    description: dict[str, Any] | None = None
    swaps: Sequence[bool] = ()


def _set_golden_inputs(golden: RKNNRuntime, model: RKNNRuntime, arrays: Sequence[Array], models: Models) -> None:
    """By name, else by position, as converters rename inputs."""
    path, description = models.path, models.description
    if description is None:
        description = servers.describe(models.path, _servers.SIMULATOR)
    infos, wanted = model.input_infos, golden.input_infos
    if len(infos) != len(wanted):
        raise _errors.ModelError(f"{path} has {len(infos)} inputs, and the float model has {len(wanted)}")
    by_name = {info.name: i for i, info in enumerate(infos)}
    made = []
    for position, info in enumerate(wanted):
        source = by_name.get(info.name, position)
        made.append(prepare_golden(_batched(arrays[source], infos[source]), infos[source], description))
    golden.set_inputs(made)


def analyze(models: Models, paths: object, folder: str, server: str | None, on_board: bool) -> str:
    """Everything that accuracy_analysis() does; the text of error_analysis.txt, which it has written to the folder."""
    opened: list[RKNNRuntime] = []

    def start(open_it: Callable[[str | None], RKNNRuntime], where: str | None) -> RKNNRuntime:
        opened.append(open_it(where))
        return opened[-1]

    analyzer = Analyzer(folder)
    os.makedirs(folder, exist_ok=True)
    try:
        simulator = start(models.model, _servers.SIMULATOR)
        arrays = read_inputs(paths, simulator.input_infos, models.swaps)
        simulator.set_inputs(arrays)
        itself = layers.Golden(simulator.native)
        golden, words = itself, f"{models.path} on the software NPU, as no float model is loaded"
        if models.golden is not None:
            reference = start(models.golden, _servers.SIMULATOR)
            _set_golden_inputs(reference, simulator, arrays, models)
            golden, words = layers.Golden(reference.native), f"{models.golden_path} on the software NPU"
            analyzer.column("simulator entire", simulator, golden, False, ("simulator", "golden"))
            analyzer.column("simulator single", simulator, golden, True)
        if on_board:
            board = start(models.model, server)
            board.set_inputs(arrays)
            kinds = ("runtime",) if models.golden is not None else ("runtime", "simulator")
            analyzer.column("runtime entire", board, golden, False, kinds)
            analyzer.column("runtime single_sim", board, itself, True)
    finally:
        analyzer.bar.end()
        for runtime in opened:
            runtime.release()
    written = table(analyzer.found, words)
    with open(os.path.join(folder, "error_analysis.txt"), "w", encoding="utf-8") as file:
        file.write(written)
    return written
