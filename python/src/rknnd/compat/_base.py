"""What RKNNLite and RKNN have in common. Their calls never raise: they log what failed, and answer -1 or None."""
from __future__ import annotations

import functools
import os
import traceback
from typing import Any, Callable, TypeVar, cast
from collections.abc import Mapping

import numpy as np

from .. import _errors
from .._capi import lib
from .._native import Array, NotCopied
from . import _conversion, _report, _servers
from ._log import RKNNLog
from ._runtime import RKNNRuntime

_Call = TypeVar("_Call", bound=Callable[..., Any])


def answers(failure: object) -> Callable[[_Call], _Call]:
    """For a method: what goes wrong in it is logged, and it returns `failure`. What a Ctrl-C raises passes."""
    def decorate(call: _Call) -> _Call:
        @functools.wraps(call)
        def guarded(self: Base, *arguments: Any, **named: Any) -> Any:
            try:
                return call(self, *arguments, **named)
            except _errors.Error as error:
                self.rknn_log.e(self._said(f"{call.__name__}: {error}{_advice(error)}"))
            except (OSError, MemoryError) as error:
                self.rknn_log.e(self._said(f"{call.__name__}: {error}"))
            except Exception as error:  # a mistake of ours, or of what the program gave
                if isinstance(error, TypeError) and error.__traceback__ and not error.__traceback__.tb_next:
                    raise  # the call itself has no such argument
                self.rknn_log.e(f"{call.__name__}: {traceback.format_exc()}")
            return failure
        return cast(_Call, guarded)
    return decorate


def _advice(error: _errors.Error) -> str:
    if "before fork()" in str(error):
        return " (call init_runtime() in this process)"
    if isinstance(error, _errors.ServerError):
        return " (once the server is there, call init_runtime() again)"
    if isinstance(error, _errors.ClosedError):
        return " (call init_runtime() first)"
    return ""


class Base(NotCopied):
    """An object for one model."""

    NPU_CORE_AUTO = 0
    NPU_CORE_0 = 1
    NPU_CORE_1 = 2
    NPU_CORE_2 = 4
    NPU_CORE_0_1 = 3
    NPU_CORE_0_1_2 = 7
    NPU_CORE_ALL = 0xffff

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.verbose = bool(verbose)
        self.rknn_log = RKNNLog(type(self).__name__, self.verbose, verbose_file)
        self.rknn_runtime: RKNNRuntime | None = None
        self._path: str | None = None
        self._options: str | None = None
        self._constants: Mapping[int, Array] = {}
        self._server: str | None = None

    def _said(self, text: str) -> str:
        """Words for people, who know files by the names that they gave."""
        return text

    # ---- steps that both have

    @answers(-1)
    def load_rknn(self, path: str) -> int:
        """Takes a model's path for init_runtime(). 0; -1: there is no such file."""
        self._take_model(_conversion.loaded(path))
        return 0

    def _take_model(self, path: object, options: str | None = None, constants: Mapping[int, Array] | None = None) -> None:
        self._path, self._options, self._constants = file_of(path), options, constants or {}

    def _open(self, server: str | None, flags: int, core_mask: object) -> None:
        """Opens the model that was loaded, in place of one that was open."""
        if self._path is None:
            raise _errors.ModelError("no model is loaded: call load_rknn() first")
        if not isinstance(core_mask, (int, np.integer)) or isinstance(core_mask, bool) or not 0 <= core_mask <= self.NPU_CORE_ALL:
            raise _errors.ParameterError(f"core_mask is {core_mask!r}: give one of the constants NPU_CORE_…")
        self._close()
        runtime = RKNNRuntime(self._path, server, flags, self._options, self._constants, self.rknn_log.once)
        try:
            self._set_cores(runtime, int(core_mask))
        except _errors.Error:
            runtime.release()
            raise
        self.rknn_runtime, self._server = runtime, server
        self.rknn_log.i(f"init_runtime: {self._path} is open on {server or 'the default server'}")

    def _set_cores(self, runtime: RKNNRuntime, core_mask: int) -> None:
        if core_mask == self.NPU_CORE_AUTO:
            return
        result = runtime.set_core_mask(core_mask)
        if result == lib.RKNN_ERR_TARGET_PLATFORM_UNMATCH:
            self.rknn_log.w(f"init_runtime: core_mask {core_mask} has no effect: the chip has one core")
        elif result < 0:
            raise _native_failure(result)

    def _running(self) -> RKNNRuntime:
        if self.rknn_runtime is None:
            raise _errors.ClosedError("no model is open")
        return self.rknn_runtime

    def _infer(self, inputs: object, data_format: object, inputs_pass_through: object, get_frame_id: bool) -> list[Any]:
        runtime = self._running()
        outputs, frame = runtime.infer(inputs, data_format, inputs_pass_through)
        return [*outputs, frame] if get_frame_id else outputs

    @answers(None)
    def eval_perf(self, is_print: bool = True, fix_freq: bool = True, *, inputs: Any = None, data_type: Any = None,
                  data_format: Any = None) -> str | None:
        """Measures runs with made-up inputs. The text with clocks, time and FPS, with perf_debug also the layers.

        `fix_freq` is accepted: rknnd does not change clocks, but says which they are.
        `inputs`, `data_type`, `data_format` are of older programs, and ignored: a run's time does not depend on them.
        """
        if fix_freq:
            self.rknn_log.i("eval_perf: clocks are left as they are (fix_freq)")
        found = _report.perf_text(self._running(), self._server, self._has_layers())
        if is_print:
            print(found)
        return found

    def _has_layers(self) -> bool:
        return self.verbose

    @answers(None)
    def eval_memory(self, is_print: bool = True) -> dict[str, int] | None:
        """Bytes: weight_memory, internal_memory, other_memory, total_memory."""
        use = _report.memory_use(self._running())
        if is_print:
            print(_report.memory_text(use, self._path or ""))
        return use

    @answers(None)
    def get_sdk_version(self) -> str | None:
        """Versions of interface and driver, after init_runtime()."""
        return _report.version_text(self._running())

    @answers(None)
    def list_support_target_platform(self, rknn_model: str | None = None) -> list[str] | None:
        """Chips that run a model; None: there is no such file. Without a model prints all chips, and answers None."""
        if rknn_model is None:
            print(_servers.platform_table())
            return None
        if not _is_stored(rknn_model) and not os.path.isfile(rknn_model):
            raise _errors.ModelError(f"the model {rknn_model} does not exist, or is no file")
        platforms = _servers.platforms_of(os.fsdecode(rknn_model), self._describers())
        print(f"Target platforms supported by this RKNN model: {platforms}")
        return platforms

    def _describers(self) -> tuple[str | None, ...]:
        """Servers that describe models, the best first."""
        return self._server, _servers.SIMULATOR

    def _close(self) -> None:
        if self.rknn_runtime is not None:
            self.rknn_runtime.release()
            self.rknn_runtime = None

    @answers(None)
    def release(self) -> None:
        """Ends everything that the object holds. More than once is fine; init_runtime() opens the model again."""
        self._close()
        self.rknn_log.close()


def _is_stored(name: str | os.PathLike[str]) -> bool:
    """Whether it is a model of the server's store, "rknnd:NAME", which is looked for when it is opened."""
    return os.fsdecode(name).startswith("rknnd:")


def file_of(path: object) -> str:
    """The path of a model that is there."""
    if not isinstance(path, (str, os.PathLike)):
        raise _errors.ParameterError(f"the model is {_errors.shown(path)}: give the path of a file")
    name = os.fsdecode(path)
    if not _is_stored(name) and not os.path.isfile(name):
        raise _errors.ModelError(f"the model {name} does not exist, or is no file")
    return name


def is_converted(name: str) -> bool:
    """Whether a path that file_of() gave is of a .rknn file; not known of a model of the server's store."""
    if _is_stored(name):
        return False
    with open(name, "rb") as file:
        return file.read(4) == b"RKNN"


def _native_failure(code: int) -> _errors.Error:
    from .._native import failure
    return failure(code)
