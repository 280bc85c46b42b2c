"""What each layer of a model computes and takes: tensors, times, and how far they are from those of another run."""
from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any
from collections.abc import Iterator, Mapping

import numpy as np

from ._capi import ffi, lib, text
from ._native import DTYPE_OF_TYPE, TYPE_NAMES, Array, Context, check, keep_raised
from ._records import items, new, record


@dataclass(frozen=True)
class Tensor:
    """What a node has computed. `data` has the stored values, in the file's order (NCHW of pictures); types that NumPy
    does not have (int4, bfloat16) are packed bytes. A quantized one's real values are (data - zero_point) * scale;
    `values` has the real values of any, float32."""

    index: int
    name: str
    node: str
    op: str
    dtype: str
    quantized: bool
    scale: float
    zero_point: int
    data: Array
    values: Array = field(repr=False)


def _tensor(pointer: Any) -> Tensor:
    shape = tuple(pointer.dims[0:pointer.n_dims])
    dtype = DTYPE_OF_TYPE.get(pointer.type)
    raw = bytes(ffi.buffer(pointer.data, pointer.size))
    data = np.frombuffer(raw, dtype).reshape(shape) if dtype is not None else np.frombuffer(raw, np.uint8)
    values = np.empty(pointer.n_elems, np.float32)
    check(lib.rknnd_tensor_to_float(pointer, ffi.from_buffer("float[]", values, require_writable=True)))
    return Tensor(index=pointer.index, name=text(pointer.name), node=text(pointer.node), op=text(pointer.op),
                  dtype=TYPE_NAMES.get(pointer.type, str(pointer.type)),
                  quantized=pointer.qnt_type == lib.RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, scale=pointer.scale,
                  zero_point=pointer.zp, data=data, values=values.reshape(shape))


class _Ended(Exception):
    pass


def tensors(context: Context, only: str | None) -> Iterator[Tensor]:
    """One run with the inputs that are set; each tensor as soon as it is computed. The device waits meanwhile, and the
    context is not to be used before the iterator has ended or is closed."""
    found: SimpleQueue[Tensor | BaseException | None] = SimpleQueue()
    wanted, stop = threading.Semaphore(0), threading.Event()

    def take(_user: Any, pointer: Any) -> int:
        found.put(_tensor(pointer))
        wanted.acquire()
        if stop.is_set():
            raise _Ended
        return 0

    callback = ffi.callback("rknnd_tensor_callback", take, error=lib.RKNN_ERR_FAIL, onerror=keep_raised)

    def dump() -> None:
        try:
            check(lib.rknnd_dump_layers(context.handle, ffi.NULL if only is None else only.encode(), callback, ffi.NULL))
            found.put(None)
        except BaseException as error:  # it belongs to who iterates
            found.put(error)

    thread = threading.Thread(target=dump, name="rknnd-dump", daemon=True)
    thread.start()
    try:
        while (item := found.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            wanted.release()
    finally:
        stop.set()
        wanted.release()
        thread.join()


@dataclass(frozen=True)
class Layer:
    """What a layer has taken in the last run. Cycles and `estimate_ns` are the chip's, 0: not known."""

    name: str = ""
    op: str = ""
    type: str = ""
    target: str = ""
    input_shapes: str = ""
    output_shapes: str = ""
    core_mask: int = 0
    time_us: int = 0
    ddr_cycles: int = 0
    npu_cycles: int = 0
    total_cycles: int = 0
    macs: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    mac_cycles: int = 0
    n_tasks: int = 0
    estimate_ns: int = 0


@dataclass(frozen=True)
class RunInfo:
    """Times of a run. `run_us`: on the device (of a software NPU: on its machine), `queue_us`: waiting for it, `total_us`:
    as the program saw it, transfers included. `estimate_ns`: what it would take on `estimate_chip`; 0: not known.
    `attempts` 2: a worker died, and the run was repeated."""

    run_us: int = 0
    queue_us: int = 0
    total_us: int = 0
    core_mask: int = 0
    attempts: int = 0
    estimate_ns: int = 0
    estimate_chip: str = ""
    estimate_assumed: int = 0
    n_unestimated: int = 0


@dataclass(frozen=True)
class Profile:
    """Of the last run: its times and those of its layers, in order."""

    run: RunInfo
    layers: list[Layer] = field(default_factory=list)


def run_info(context: Context) -> RunInfo:
    info = new("rknnd_run_info")
    check(lib.rknnd_get_run_info(context.handle, info))
    return record(RunInfo, "rknnd_run_info", info)


def layers(context: Context) -> list[Layer]:
    found = ffi.new("rknnd_list **")
    check(lib.rknnd_get_layers(context.handle, found), "open the Session with profile=True")
    try:
        return [record(Layer, "rknnd_layer", item) for item in items("rknnd_layer", found[0])]
    finally:
        lib.rknnd_free(found[0])


@dataclass(frozen=True)
class Distance:
    """How far a tensor x is from the golden one g. `cosine`: x*g / (|x||g|); `euclidean`: |x - g|; `relative`: that by
    |g|; `gain`: x*g / g*g; `largest`: the largest difference of two elements."""

    cosine: float = 0.0
    euclidean: float = 0.0
    relative: float = 0.0
    gain: float = 0.0
    largest: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """A tensor beside the golden one of its name. `distance` is None if there is no golden one. `stored`: from the golden
    values as the tensor's type can store them, so without what rounding to the type explains."""

    name: str
    node: str
    op: str
    dtype: str
    golden_name: str
    distance: Distance | None
    stored: Distance | None


class Golden:
    """What the nodes of a model compute in one run with the inputs that are set, kept (in a file) to compare other runs
    with."""

    def __init__(self, context: Context) -> None:
        pointer = ffi.new("rknnd_golden **")
        check(lib.rknnd_golden_new(context.handle, pointer))
        self.pointer = pointer[0]
        self._free = weakref.finalize(self, lib.rknnd_golden_free, self.pointer)

    def close(self) -> None:
        """Frees what was kept."""
        self._free()

    def __enter__(self) -> Golden:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _options(single: bool, pairs: Mapping[str, str]) -> tuple[Any, list[Any]]:
    options, kept = new("rknnd_compare_options"), []
    options.single = single
    if pairs:
        made, listed = ffi.new("rknnd_name_pair[]", len(pairs)), new("rknnd_list")
        for pair, (name, golden) in zip(made, pairs.items()):
            names = [ffi.new("char[]", name.encode()), ffi.new("char[]", golden.encode())]
            pair.struct_size, pair.name, pair.golden = ffi.sizeof("rknnd_name_pair"), names[0], names[1]
            kept += names
        listed.n, listed.stride, listed.items = len(pairs), ffi.sizeof("rknnd_name_pair"), made
        options.pairs = listed
        kept += [made, listed]
    return options, kept


def _distance(pointer: Any) -> Distance | None:
    return None if pointer == ffi.NULL else record(Distance, "rknnd_distance", pointer)


def compare(context: Context, golden: Golden, single: bool, pairs: Mapping[str, str]) -> list[Comparison]:
    found: list[Comparison] = []

    def take(_user: Any, pointer: Any) -> int:
        tensor = pointer.tensor
        found.append(Comparison(
            name=text(tensor.name), node=text(tensor.node), op=text(tensor.op),
            dtype=TYPE_NAMES.get(tensor.type, str(tensor.type)),
            golden_name="" if pointer.golden_name == ffi.NULL else text(pointer.golden_name),
            distance=_distance(pointer.distance), stored=_distance(pointer.stored)))
        return 0

    callback = ffi.callback("rknnd_comparison_callback", take, error=lib.RKNN_ERR_FAIL, onerror=keep_raised)
    options, kept = _options(single, pairs)
    check(lib.rknnd_compare_layers(context.handle, golden.pointer, options, callback, ffi.NULL))
    del kept
    return found
