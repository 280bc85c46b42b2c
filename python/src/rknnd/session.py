"""Models, and sessions that run them."""
from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Union
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from . import _arrays, _errors, custom, layers
from ._capi import ffi, lib, text
from ._lane import Lane
from ._native import (FORMATS, TYPE_OF_DTYPE, Array, Context, NotCopied, TensorInfo, check, milliseconds,
                      tensor_info)
from .memory import Memory

if TYPE_CHECKING:
    import asyncio

    import numpy.typing as npt

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
Shapes = Mapping[str, Union[Sequence[int], Sequence[Sequence[int]]]]

PRIORITIES = {"high": 0, "medium": 1, "low": 2}


@dataclass(frozen=True)
class MemorySize:
    """Bytes that a model takes."""

    weights: int
    internal: int
    dma: int
    sram_total: int
    sram_free: int


def load_options(shapes: Shapes | None) -> str | None:
    """The text of rknnd_set_load_options()."""
    if not shapes:
        return None
    lines = []
    for name, given in shapes.items():
        several: Any = [given] if np.ndim(given[0]) == 0 else given
        lines.append(f"shape {name}={','.join('x'.join(str(int(size)) for size in shape) for shape in several)}")
    return "\n".join(lines)


class Model(NotCopied):
    """A model that a server has loaded. Sessions of it share its weights.

    `source`    path of a `.rknn` or ONNX file, or its bytes
    `server`    URI: "unix:PATH", "tcp:HOST:PORT", "usb:[SERIAL]", "adb:[SERIAL]", "sim:[CHIP]", "emu:CHIP", "open:[WAY]"; None:
                RKNND_SERVER in the environment, else the local socket, else the only board
    `shapes`    of inputs that the file leaves open: {"x": (1, 3, 224, 224)}; or several, to choose from
    `progress`  called with (bytes done, bytes of all) while the model is sent
    """

    def __init__(self, source: Source, server: str | None = None, *, shapes: Shapes | None = None,
                 progress: Callable[[int, int], None] | None = None) -> None:
        self._source, self._server, self._options = source, server, load_options(shapes)
        self._context = Context(source, server, 0, self._options, progress)

    @property
    def inputs(self) -> list[TensorInfo]:
        """The inputs, in order."""
        return [self._context.input_info(i) for i in range(self._context.n_inputs)]

    @property
    def outputs(self) -> list[TensorInfo]:
        """The outputs, in order."""
        return [self._context.output_info(i) for i in range(self._context.n_outputs)]

    def __repr__(self) -> str:
        return f"<rknnd.Model: {'closed' if self._context.closed else _ends(self)}>"

    @property
    def memory_size(self) -> MemorySize:
        """What the model takes."""
        return memory_size(self._context)

    @property
    def custom_string(self) -> str:
        """The text that the model's maker has put into it; "" if none."""
        return text(self._context.query(lib.RKNN_QUERY_CUSTOM_STRING, ffi.new("rknn_custom_string *")).string)

    def context(self, flags: int = 0) -> Context:
        """Another context of the model, with RKNN_FLAG_* of its own."""
        if flags == 0 and not shape_sets(self._context):
            return self._context.duplicate()
        return Context(self._source, self._server, flags, self._options)

    def session(self, **settings: Any) -> Session:
        """A Session of this model; `settings` are those of Session but the model's."""
        return Session(self, **settings)

    def close(self) -> None:
        """Gives the model up; sessions of it stay."""
        self._context.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _ends(model: Model | Session) -> str:
    inputs, outputs = ([_arrays.describe(info) for info in infos] for infos in (model.inputs, model.outputs))
    return f"{', '.join(inputs)} -> {', '.join(outputs)}"


def memory_size(context: Context) -> MemorySize:
    size = context.query(lib.RKNN_QUERY_MEM_SIZE, ffi.new("rknn_mem_size *"))
    return MemorySize(size.total_weight_size, size.total_internal_size, size.total_dma_allocated_size,
                      size.total_sram_size, size.free_sram_size)


def shape_sets(context: Context) -> list[list[tuple[int, ...]]]:
    """The shapes that inputs may have, one list for each set with a shape for each input; [] if there is no choice."""
    ranges = []
    for index in range(context.n_inputs):
        info = ffi.new("rknn_input_range *")
        info.index = index
        if lib.rknn_query(context.handle, lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, info, ffi.sizeof(info[0])) < 0:
            return []
        ranges.append([tuple(info.dyn_range[n][0:info.n_dims]) for n in range(info.shape_number)])
    return [list(shapes) for shapes in zip(*ranges)] if ranges and len(ranges[0]) > 1 else []


class Session(NotCopied):
    """Runs a model.

    `model`      a Model, or what makes one: a path, or the file's bytes
    `server`     as in Model; each session can be at another board
    `core_mask`  NPU cores, bit i for core i; None: any that is idle
    `priority`   "high", "medium" or "low"
    `profile`    measure every layer, for profile()
    `contexts`   how many runs can be under way at once; calls beyond that wait for their turn
    `flags`      further RKNN_FLAG_* of rknn_init()
    `shapes`, `progress`: as in Model

    Any thread may use a session. Waiting does not hold the interpreter's lock.

    >>> import numpy as np
    >>> with Session("digits.rknn", "sim:") as session:
    ...     session.inputs[0].shape, session.inputs[0].layout, session.outputs[0].shape
    ...     probabilities, = session.run(np.zeros((1, 8, 8, 1), np.uint8))
    ((1, 8, 8, 1), 'nhwc', (1, 10))

    Opening raises ModelError (no such file, or one that would not run correctly), ChipError (made for another chip), ServerError
    (no server, or it is gone) or ParameterError.
    """

    def __init__(self, model: Model | Source, server: str | None = None, *, core_mask: int | None = None,
                 priority: str = "high", profile: bool = False, contexts: int = 1, flags: int = 0,
                 shapes: Shapes | None = None, progress: Callable[[int, int], None] | None = None) -> None:
        if priority not in PRIORITIES:
            raise _errors.ParameterError(f"priority {priority!r}: one of {', '.join(PRIORITIES)}")
        if not isinstance(contexts, int) or contexts < 1:
            raise _errors.ParameterError(f"{contexts!r} contexts: a number, at least 1")
        if core_mask is not None and not hasattr(core_mask, "__index__"):
            raise _errors.ParameterError(f"core_mask is {core_mask!r}: a number with bit i for core i, or None")
        flags |= PRIORITIES[priority] | (int(lib.RKNN_FLAG_COLLECT_PERF_MASK) if profile else 0)
        self._pool: Any = None
        self._closed = False
        self._contexts = self._open(model, server, flags, contexts, load_options(shapes), progress)
        if core_mask is not None:
            for context in self._contexts:
                check(lib.rknn_set_core_mask(context.handle, core_mask))
        self._shape_sets = shape_sets(self._contexts[0])
        self._all_lanes = [Lane(context, self._shape_sets) for context in self._contexts]
        self._lanes: SimpleQueue[Lane | None] = SimpleQueue()
        for lane in self._all_lanes:
            self._lanes.put(lane)

    @staticmethod
    def _open(model: Model | Source, server: str | None, flags: int, count: int, options: str | None,
              progress: Callable[[int, int], None] | None) -> list[Context]:
        if isinstance(model, Model):
            if server is not None or options is not None:
                raise _errors.ParameterError("a Model has its server and shapes: give them to Model()")
            return [model.context(flags) for _ in range(count)]
        return [Context(model, server, flags, options, progress) for _ in range(count)]

    # ---- what it is

    def __repr__(self) -> str:
        return f"<rknnd.Session: {'closed' if self._closed else _ends(self)}>"

    @property
    def inputs(self) -> list[TensorInfo]:
        """The inputs in order, in the shapes that are set."""
        context = self._contexts[0]
        return [context.input_info(i) for i in range(context.n_inputs)]

    @property
    def outputs(self) -> list[TensorInfo]:
        """The outputs in order, in the shapes that are set."""
        context = self._contexts[0]
        return [context.output_info(i) for i in range(context.n_outputs)]

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        """Of a model with a choice of shapes: the sets, each with a shape for each input. A run takes the set that its
        arrays have. [] for others."""
        return self._shape_sets

    @property
    def context(self) -> Context:
        """The C library's context, the first one if there are several."""
        return self._contexts[0]

    @property
    def memory_size(self) -> MemorySize:
        """What the model takes."""
        return memory_size(self._contexts[0])

    # ---- runs

    def run(self, inputs: _arrays.Inputs, *, layout: str | Sequence[str | None] | None = None,
            pass_through: bool | Sequence[bool] = False, raw: bool = False, out: Sequence[Array] | None = None,
            timeout: float | None = None) -> list[Array]:
        """One run; returns the outputs.

        `inputs`        an array, a list in the model's order, or a dict by name. The dtype is the input's type: uint8,
                        int8, int16, uint16, int32, uint32, int64, float16, float32, bool. A None keeps what was set
                        before, or is bound.
        `layout`        "nhwc" or "nchw" of 4-D inputs, one or a list; None: the model's own (see `inputs`)
        `pass_through`  the bytes are in the NPU's own form already; one or a list
        `raw`           outputs as the model stores them, of its own dtypes; else float32
        `out`           arrays to fill, instead of new ones: contiguous, of the outputs' shapes and dtypes
        `timeout`       in seconds; TimeoutExpired after that

        Outputs are new arrays in the model's own shapes (see `outputs`).

        Raises InputError (number, shape, dtype or layout that the model does not take), OutputError (`out` does not fit),
        TimeoutExpired, ClosedError, or ServerError, after which the session has to be opened again.

        >>> import numpy as np
        >>> with Session("digits.rknn", "sim:") as session:
        ...     planes = np.zeros((1, 1, 8, 8), np.float32)
        ...     [(o.shape, str(o.dtype)) for o in session.run({"image": planes}, layout="nchw", raw=True)]
        [((1, 10), 'int8')]
        """
        lane = self._take()
        try:
            return lane.run(inputs, layout, pass_through, raw, out, timeout)
        finally:
            self._give_back(lane)

    __call__ = run

    def run_async(self, inputs: _arrays.Inputs, **settings: Any) -> asyncio.Future[list[Array]]:
        """Like run(), but to be awaited. As many runs as there are `contexts` are under way at once. The arrays must not
        change before the end."""
        self._check_reachable()
        if self._pool is None:
            from ._pool import Pool  # asyncio takes long to import
            self._pool = Pool(len(self._contexts))
        return self._pool.submit(lambda: self.run(inputs, **settings))  # type: ignore[no-any-return]

    def _take(self) -> Lane:
        try:
            lane = None if self._closed else self._lanes.get_nowait()
        except Empty:
            self._check_reachable()
            lane = self._lanes.get()
        if lane is None:
            self._lanes.put(None)  # for others that wait
            raise _errors.ClosedError("the session has been closed: open another one")
        lane.thread = threading.get_ident()
        return lane

    def _give_back(self, lane: Lane) -> None:
        lane.thread = 0
        self._lanes.put(lane)

    def _check_reachable(self) -> None:
        """Refuses to wait for what this thread itself is in the middle of: it would wait for ever."""
        me = threading.get_ident()
        if all(lane.thread == me for lane in self._all_lanes):
            raise _errors.BusyError("this thread is in the middle of a run of the session (a loop over tensors(), or an operator "
                                    "that the run calls), and would wait for itself: end it first, or take another Session")

    def _only(self, what: str) -> Context:
        if self._closed:
            raise _errors.ClosedError("the session has been closed: open another one")
        if len(self._contexts) != 1:
            raise _errors.ParameterError(f"{what} belongs to one context: open the Session with contexts=1")
        return self._contexts[0]

    def limit_runs(self, seconds: float, refuse: bool = False) -> None:
        """Runs that take longer than this, counted from when their inputs have reached the server, are stopped and raise
        TimeoutExpired; 0: never. With `refuse` the server does not even begin those that it expects to take longer, by
        what the model's last runs took and what is ahead: they raise TimeoutExpired at once, with these numbers."""
        limit = milliseconds(seconds, "seconds") if seconds else 0
        for context in self._contexts:
            check(lib.rknnd_set_run_limit(context.handle, limit))
            check(lib.rknnd_set_run_admission(context.handle, int(refuse)))

    # ---- memory

    def create_memory(self, size: int) -> Memory:
        """`size` bytes that program and device share."""
        return Memory(self._contexts[0], size)

    def import_memory(self, fd: int, size: int, offset: int = 0) -> Memory:
        """Memory of somebody else's by its dma-buf or memfd: `size` bytes from `offset` on. `fd` stays the caller's."""
        return Memory.from_fd(self._contexts[0], fd, size, offset)

    def bind(self, name: str, memory: Memory | None = None, *, dtype: npt.DTypeLike = None, layout: str | None = None,
             native: bool = False) -> Array:
        """Binds the input or output `name` to memory: runs read it there (give None for this input), and write it there.
        Returns the memory as an array in the tensor's shape, which run() returns for a bound output, too; nothing is
        copied on the way. Rows may be padded to what the NPU reads, so the array need not be contiguous: write to it
        with array[...] = picture.

        `memory`  None: a new one
        `dtype`   of what is in the memory; None: the model's own
        `layout`  "nhwc" or "nchw"; None: the model's own
        `native`  in the NPU's own form, nothing is converted: the array is of bytes, with stride
        """
        context = self._only("memory")
        attr, output = _find(context, name, native)
        if native and not output:  # of an output its form says that
            attr.pass_through = 1
        if dtype is not None:
            wanted = np.dtype(dtype)
            if wanted not in TYPE_OF_DTYPE:
                raise _errors.ParameterError(f"dtype {wanted}: one of {', '.join(d.name for d in TYPE_OF_DTYPE)}")
            attr.type = TYPE_OF_DTYPE[wanted]
        if layout is not None and attr.n_dims == 4 and FORMATS.get(layout) != attr.fmt:
            if layout not in ("nhwc", "nchw"):
                raise _errors.ParameterError(f'layout {layout!r}: say "nhwc" or "nchw"')
            n, a, b, c = attr.dims[0:4]
            attr.dims[0:4] = [n, c, a, b] if layout == "nchw" else [n, b, c, a]
            attr.fmt = FORMATS[layout]
        info = tensor_info(attr)
        padded = info.shape if native else _with_stride(info)
        size = info.size_with_stride if native else int(np.prod(padded)) * info.numpy_dtype.itemsize
        memory = Memory(context, size) if memory is None else memory
        lane = self._take()
        try:
            check(lib.rknn_set_io_mem(context.handle, memory.pointer, attr))
            array = memory.array(size) if native else \
                memory.array(padded, info.numpy_dtype)[tuple(slice(n) for n in info.shape)]
            if output:
                lane.bound[info.index] = array
        finally:
            self._give_back(lane)
        return array

    # ---- looking into it

    def profile(self) -> layers.Profile:
        """Times of the last run, and of its layers if the session was opened with profile=True."""
        context = self._only("a profile")
        run = layers.run_info(context)
        flagged = bool(context.flags & lib.RKNN_FLAG_COLLECT_PERF_MASK)
        return layers.Profile(run, layers.layers(context) if flagged else [])

    def tensors(self, inputs: _arrays.Inputs = None, only: str | None = None, **settings: Any) -> Iterator[layers.Tensor]:
        """Runs once and yields what each layer computes, as soon as it is computed. `only`: a tensor's name, or a shell
        pattern for names. `settings`: layout and pass_through of run(). `inputs` None: those that are set."""
        lane = self._take()
        try:
            lane.set_inputs(inputs, **settings)
            yield from layers.tensors(lane.context, only)
        finally:
            self._give_back(lane)

    def golden(self, inputs: _arrays.Inputs = None, **settings: Any) -> layers.Golden:
        """Runs once and keeps what each layer computes, for compare(). Take the session of an ONNX file (at "sim:")."""
        lane = self._take()
        try:
            lane.set_inputs(inputs, **settings)
            return layers.Golden(lane.context)
        finally:
            self._give_back(lane)

    def compare(self, golden: layers.Golden, inputs: _arrays.Inputs = None, *, single: bool = False,
                pairs: Mapping[str, str] | None = None, **settings: Any) -> list[layers.Comparison]:
        """Runs once and says how far each tensor is from the golden one of its name. `single`: each layer computes with
        golden inputs, so that only its own errors show. `pairs`: names that differ, {here: golden}."""
        lane = self._take()
        try:
            lane.set_inputs(inputs, **settings)
            return layers.compare(lane.context, golden, single, pairs or {})
        finally:
            self._give_back(lane)

    def register(self, op_type: str, compute: custom.Compute) -> None:
        """Computes the model's nodes of type `op_type` in Python; before the first run. See rknnd.custom.Compute."""
        for context in self._contexts:
            custom.register(context, op_type, compute)

    # ---- the end

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def close(self) -> None:
        """Frees what the session holds; runs in flight are cancelled. More than once is fine."""
        if self._closed:
            return
        self._closed = True
        if self._pool is not None:
            self._pool.close()
        for context in self._contexts:
            context.close()
        self._lanes.put(None)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _with_stride(info: TensorInfo) -> tuple[int, ...]:
    """The shape in memory: rows, and their number, may be padded."""
    if len(info.shape) != 4 or info.layout not in ("nhwc", "nchw"):
        return info.shape
    shape, height = list(info.shape), 1 if info.layout == "nhwc" else 2
    shape[height] = max(shape[height], info.height_stride)
    shape[height + 1] = max(shape[height + 1], info.row_stride)
    return tuple(shape)


def _find(context: Context, name: str, native: bool) -> tuple[Any, bool]:
    """The rknn_tensor_attr * of an input or output by name, and whether it is an output."""
    both = ((context.n_inputs, lib.RKNN_QUERY_CURRENT_INPUT_ATTR, lib.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR),
            (context.n_outputs, lib.RKNN_QUERY_CURRENT_OUTPUT_ATTR, lib.RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR))
    names = []
    for output, (count, plain, own) in enumerate(both):
        for index in range(count):
            attr = context.attr(own if native else plain, index)
            names.append(text(attr.name))
            if names[-1] == name:
                return attr, bool(output)
    raise _errors.ParameterError(f"the model has no tensor {name!r} to bind: {', '.join(names)}")
