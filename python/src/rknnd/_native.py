"""The C library's calls with Python's values: what Session and the compatible packages are built on.

Arrays go in and out without copies of our own. Whatever fails raises rknnd.Error with the library's words. Every
call gives up the interpreter's lock while it waits, so other threads go on; a Context may be used by several threads,
which wait for each other. A signal's handler runs while a call waits, and what it raises (KeyboardInterrupt) ends the
call where the C library can be interrupted.
"""
from __future__ import annotations

import atexit
import os
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Callable
from collections.abc import Sequence

import numpy as np

from . import _errors
from ._capi import ffi, lib, text

if TYPE_CHECKING:
    import numpy.typing as npt
    Array = npt.NDArray[Any]
else:
    Array = np.ndarray  # numpy.typing takes long to import

# ---- failures and signals


def check(result: int, advice: str = "") -> int:
    """Returns `result`, or raises what the library says; `advice` is what to do in Python, and goes behind it."""
    if _raised:
        _raise_from_callback()
    if result >= 0:
        return result
    raise failure(result, advice)


# What words of the library name -> what it is in Python.
_IN_PYTHON = {
    "rknnd_set_load_options": 'in Python: Session(…, shapes={"NAME": (1, 3, 224, 224)})',
    "rknn_register_custom_ops": "in Python: Session.register()",
    "rknn_set_internal_mem": "in Python: leave the flag away",
    "never opened, or destroyed already": "open another Session",
}


def failure(code: int, advice: str = "") -> _errors.Error:
    """The exception for the library's last failure in this thread, with what to do in Python."""
    words = text(lib.rknnd_last_error())
    advice = advice or next((python for said, python in _IN_PYTHON.items() if said in words), "")
    return _errors.of_code(code, f"{words}: {advice}" if advice else words)


def must(pointer: Any) -> Any:
    """Returns what a function that answers NULL on failure has answered."""
    settle()
    if pointer == ffi.NULL:
        raise failure(lib.RKNN_ERR_FAIL)  # only the words are known
    return pointer


# What Python code that the library called has raised, with the thread: check() raises it there once the call is over.
_raised: list[tuple[int, BaseException]] = []


def keep_raised(_kind: Any, raised: BaseException, _traceback: Any) -> None:
    """For `onerror` of callbacks: an exception cannot pass through the C library."""
    _raised.append((threading.get_ident(), raised))


def settle() -> None:
    """After a call that may wait and is not checked: what signals' handlers have raised meanwhile."""
    if _raised:
        _raise_from_callback()


def _raise_from_callback() -> None:
    me = threading.get_ident()
    mine = [item for item in _raised if item[0] == me]
    for item in mine:
        _raised.remove(item)
    if mine:
        raise mine[0][1]


@ffi.callback("rknnd_interrupt", error=1, onerror=keep_raised)  # type: ignore
def _run_signal_handlers(_user: Any) -> int:
    """Python runs the handlers of signals between two bytecodes of the main thread: these."""
    for _ in range(2):
        pass
    return 0


def _before_exit() -> None:
    lib.rknnd_set_interrupt(ffi.NULL, ffi.NULL)


if threading.current_thread() is threading.main_thread():
    lib.rknnd_set_interrupt(_run_signal_handlers, ffi.NULL)
    atexit.register(_before_exit)


# ---- tensors

_DTYPES: dict[int, str] = {0: "float32", 1: "float16", 2: "int8", 3: "uint8", 4: "int16", 5: "uint16", 6: "int32",
                           7: "uint32", 8: "int64", 9: "bool"}
TYPE_OF_DTYPE: dict[np.dtype[Any], int] = {np.dtype(name): number for number, name in _DTYPES.items()}
DTYPE_OF_TYPE: dict[int, np.dtype[Any]] = {number: dtype for dtype, number in TYPE_OF_DTYPE.items()}
TYPE_NAMES = {**_DTYPES, 10: "int4", 11: "bfloat16"}
NCHW, NHWC, NC1HWC2, UNDEFINED = range(4)
FORMAT_NAMES = {NCHW: "nchw", NHWC: "nhwc", NC1HWC2: "nc1hwc2", UNDEFINED: "undefined"}
FORMATS = {name: number for number, name in FORMAT_NAMES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a model.

    `shape` is in the order of `layout` ("nhwc", "nchw", "nc1hwc2", "undefined"). A quantized tensor's real values are
    (stored - zero_point) * scale. `size` is in bytes without stride, `size_with_stride` with it; `row_stride` and
    `height_stride` are in elements and rows, 0: none.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str
    quantized: bool
    scale: float
    zero_point: int
    n_elems: int
    size: int
    size_with_stride: int
    row_stride: int
    height_stride: int
    type_number: int
    layout_number: int

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """How NumPy holds the tensor. int4 and bfloat16, which NumPy does not have, are packed bytes."""
        return DTYPE_OF_TYPE.get(self.type_number, np.dtype(np.uint8))


def tensor_info(attr: Any) -> TensorInfo:
    """From an rknn_tensor_attr."""
    return TensorInfo(
        index=attr.index, name=text(attr.name), shape=tuple(attr.dims[0:attr.n_dims]),
        layout=FORMAT_NAMES.get(attr.fmt, str(attr.fmt)), dtype=TYPE_NAMES.get(attr.type, str(attr.type)),
        quantized=attr.qnt_type == lib.RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC, scale=attr.scale, zero_point=attr.zp,
        n_elems=attr.n_elems, size=attr.size, size_with_stride=attr.size_with_stride, row_stride=attr.w_stride,
        height_stride=attr.h_stride, type_number=attr.type, layout_number=attr.fmt)


def check_native_size(context: Context, info: TensorInfo, array: Array) -> None:
    """Refuses to pass an array through that has more bytes than the input's own form: the library would take the first
    ones, of whatever dtype. Fewer it refuses itself."""
    attr = context.attr(lib.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, info.index)
    if array.nbytes > attr.size and array.nbytes != attr.size_with_stride:
        raise _errors.InputError(f"input {info.index} ({info.name}): an array of {array.dtype} {array.shape} has {array.nbytes} "
                                 f"bytes, and the model's own form, to pass through, {attr.size} of "
                                 f"{TYPE_NAMES.get(attr.type, attr.type)}")


def milliseconds(seconds: float | None, what: str) -> int:
    """A limit for the C library; None: 0."""
    if seconds is None:
        return 0
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise _errors.ParameterError(f"{what} is {seconds!r}: a number of seconds above 0, or None for no limit")
    return max(1, int(min(seconds * 1000, (1 << 31) - 1)))


class NotCopied:
    """Of what a server holds for this process."""

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be copied, or sent to another process (pickled): open another one there")


# ---- servers

class at_server:
    """Within it this thread's contexts and questions go to `uri`; None leaves what is set."""

    def __init__(self, uri: str | None) -> None:
        self.uri = uri

    def __enter__(self) -> None:
        if self.uri is not None:
            if not isinstance(self.uri, str):
                raise _errors.ParameterError(f"the server is {self.uri!r}: give a URI such as \"tcp:HOST\", or None")
            self.before = text(lib.rknnd_get_thread_server())
            check(lib.rknnd_set_thread_server(self.uri.encode()))

    def __exit__(self, *_: object) -> None:
        if self.uri is not None:
            lib.rknnd_set_thread_server(self.before.encode() if self.before else ffi.NULL)


# ---- contexts


def _destroy(handle: int, pid: int, _kept: list[Any]) -> None:
    """Of a forked child only its own contexts: the parent's are not there."""
    if os.getpid() == pid:
        lib.rknn_destroy(handle)
        settle()


def _check_opened(result: int, handle: Any) -> None:
    """check(), for a call that has opened a context: what `progress` or a signal's handler raised leaves none behind."""
    try:
        check(result)
    except BaseException:
        if result >= 0:
            lib.rknn_destroy(handle[0])
        raise


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


def _new_locks() -> None:
    """In a forked child: threads that held them are not there."""
    for context in _contexts:
        context.lock = threading.RLock()


os.register_at_fork(after_in_child=_new_locks)


class Context(NotCopied):
    """One rknn_context.

    `model`    path of a model file, or its bytes
    `server`   URI of the server ("unix:…", "tcp:…", "usb:…", "adb:…", "sim:…", "emu:CHIP", "open:…"); None: as the environment says
    `flags`    RKNN_FLAG_*
    `options`  text of rknnd_set_load_options()
    `progress` called with (bytes done, bytes of all) while the model is sent
    """

    def __init__(self, model: str | os.PathLike[str] | bytes | bytearray | memoryview, server: str | None = None,
                 flags: int = 0, options: str | None = None,
                 progress: Callable[[int, int], None] | None = None) -> None:
        handle = ffi.new("rknn_context *")
        if isinstance(model, (str, os.PathLike)):
            data, size = os.fsencode(model), 0
            kept = ffi.new("char[]", data)
        else:
            try:
                kept = ffi.from_buffer(model)
            except TypeError:
                raise _errors.ParameterError(f"the model is of type {type(model).__name__}: give a path, or the file's bytes "
                                             "(file.read())") from None
            size = len(kept)
            if size == 0:
                raise _errors.ModelError("a model of 0 bytes: give a path, or the file's bytes")
        with at_server(server), loading(options), _progress(progress):
            result = lib.rknn_init(handle, ffi.cast("void *", kept), size, flags, ffi.NULL)
        _check_opened(result, handle)
        self._adopt(handle[0], flags)

    def _adopt(self, handle: int, flags: int) -> None:
        self.handle, self.flags = handle, flags
        self.lock = threading.RLock()
        self.kept: list[Any] = []  # what must live until the context has ended: callbacks
        self._close = weakref.finalize(self, _destroy, handle, os.getpid(), self.kept)
        self._close.atexit = False  # threads may still run it; the connection's end is the context's, too
        _contexts.add(self)
        count = ffi.new("rknn_input_output_num *")
        self.query(lib.RKNN_QUERY_IN_OUT_NUM, count)
        self.n_inputs, self.n_outputs = int(count.n_input), int(count.n_output)

    def duplicate(self) -> Context:
        """Another context of the same model: the weights are there once, inputs and outputs are its own."""
        source, copy = ffi.new("rknn_context *", self.handle), ffi.new("rknn_context *")
        _check_opened(lib.rknn_dup_context(source, copy), copy)
        other = Context.__new__(Context)
        other._adopt(copy[0], self.flags)
        return other

    @property
    def closed(self) -> bool:
        return not self._close.alive

    def close(self) -> None:
        """Ends the context; a run in flight is cancelled. More than once is fine."""
        self._close()

    def query(self, command: int, info: Any) -> Any:
        """rknn_query() into `info`, a pointer that ffi.new() made; returns it."""
        check(lib.rknn_query(self.handle, command, info, ffi.sizeof(info[0])))
        return info

    def attr(self, command: int, index: int) -> Any:
        """An rknn_tensor_attr * of one of the *_ATTR queries."""
        attr = ffi.new("rknn_tensor_attr *")
        attr.index = index
        return self.query(command, attr)

    def input_info(self, index: int) -> TensorInfo:
        """The input in the shape that is set."""
        return tensor_info(self.attr(lib.RKNN_QUERY_CURRENT_INPUT_ATTR, index))

    def output_info(self, index: int) -> TensorInfo:
        """The output in the shape that is set."""
        return tensor_info(self.attr(lib.RKNN_QUERY_CURRENT_OUTPUT_ATTR, index))

    def set_inputs(self, inputs: Sequence[tuple[int, Array, int, bool]]) -> None:
        """Sets inputs from (index, array, layout number, pass through). The arrays are contiguous; their dtype is the
        input's type. They are not needed any more when this returns."""
        records = ffi.new("rknn_input[]", len(inputs))
        kept = []
        for record, (index, array, layout, pass_through) in zip(records, inputs):
            data = ffi.from_buffer(array)
            kept.append(data)
            record.index = index
            record.buf = data
            record.size = array.nbytes
            record.pass_through = pass_through
            record.type = TYPE_OF_DTYPE[array.dtype]
            record.fmt = layout
        check(lib.rknn_inputs_set(self.handle, len(inputs), records))

    def run(self, wait: bool = True, timeout_ms: int = 0) -> int:
        """One run with the inputs that are set; the frame's number. Without `wait` it goes on by itself."""
        extend = ffi.new("rknn_run_extend *")
        extend.non_block, extend.timeout_ms, extend.fence_fd = not wait, timeout_ms, -1
        check(lib.rknn_run(self.handle, extend))
        return int(extend.frame_id)

    def wait(self, frame: int = 0, timeout_ms: int = 0) -> None:
        """Waits for a run (0: the last one)."""
        extend = ffi.new("rknn_run_extend *")
        extend.frame_id, extend.timeout_ms, extend.fence_fd = frame, timeout_ms, -1
        check(lib.rknn_wait(self.handle, extend))

    def get_outputs(self, arrays: Sequence[Array], want_float: bool = True) -> int:
        """Fills contiguous `arrays`, one for each output in order: float32, or of the output's own type. Returns the
        number of the frame that they are of."""
        records = ffi.new("rknn_output[]", len(arrays))
        kept = []
        for index, (record, array) in enumerate(zip(records, arrays)):
            data = ffi.from_buffer(array, require_writable=True)
            kept.append(data)
            record.want_float, record.is_prealloc = want_float, True
            record.index, record.buf, record.size = index, data, array.nbytes
        extend = ffi.new("rknn_output_extend *")
        check(lib.rknn_outputs_get(self.handle, len(arrays), records, extend))
        return int(extend.frame_id)


class loading:
    """The options (text of rknnd_set_load_options()) of models that this thread loads, within it."""

    def __init__(self, options: str | None) -> None:
        self.options = options

    def __enter__(self) -> None:
        if self.options is not None:
            check(lib.rknnd_set_load_options(self.options.encode()))

    def __exit__(self, *_: object) -> None:
        if self.options is not None:
            lib.rknnd_set_load_options(ffi.NULL)


class _progress:
    """Who is told of this thread's uploads, within it. What that raises comes out of the call, and is told no more."""

    def __init__(self, report: Callable[[int, int], None] | None) -> None:
        self.report = report

    def __enter__(self) -> None:
        if self.report is None:
            return
        report = self.report

        def tell(_user: Any, done: int, total: int) -> None:
            report(done, total)

        def end(kind: Any, raised: BaseException, traceback: Any) -> None:
            lib.rknnd_set_progress(ffi.NULL, ffi.NULL)
            keep_raised(kind, raised, traceback)

        self.callback = ffi.callback("rknnd_progress", tell, onerror=end)
        lib.rknnd_set_progress(self.callback, ffi.NULL)

    def __exit__(self, *_: object) -> None:
        if self.report is not None:
            lib.rknnd_set_progress(ffi.NULL, ffi.NULL)
