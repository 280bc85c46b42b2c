"""What can go wrong, as exceptions: one for each code of the C library, each with its words."""
from __future__ import annotations


class Error(Exception):
    """Something failed. str() says what, where, and what to do; `code` is the C library's (RKNN_ERR_*)."""

    code: int = -1

    def __init__(self, words: str = "", code: int | None = None) -> None:
        super().__init__(words)
        if code is not None:
            self.code = code


class LibraryError(Error, ImportError):
    """The C library is not there, or is another one."""


class TimeoutExpired(Error, TimeoutError):
    """A run or a wait took longer than it was allowed to; the run may still be waited for."""

    code = -2


class ServerError(Error, ConnectionError):
    """No server, or it is gone. What was open on it is of no more use: open it again."""

    code = -3


class OutOfMemory(Error, MemoryError):
    """No memory, here or at the server."""

    code = -4


class ParameterError(Error, ValueError):
    """A value that the call does not take."""

    code = -5


class BusyError(Error, RuntimeError):
    """The call would wait for what its own thread is in the middle of."""


class ModelError(Error, ValueError):
    """Not a model, no such file, or one that would not run correctly."""

    code = -6


class ClosedError(Error, ValueError):
    """The context, memory or operator has been closed."""

    code = -7


class InputError(Error, ValueError):
    """Inputs that the model does not take: their number, shape, dtype or layout."""

    code = -8


class OutputError(Error, ValueError):
    """Outputs that are not there, or that do not fit what they are to go into."""

    code = -9


class VersionError(Error):
    """Library and server do not fit together."""

    code = -10


class ChipError(Error, ValueError):
    """The model is for another chip."""

    code = -13


_BY_CODE: dict[int, type[Error]] = {
    kind.code: kind
    for kind in (TimeoutExpired, ServerError, OutOfMemory, ParameterError, ModelError, ClosedError, InputError,
                 OutputError, VersionError, ChipError)
}


def shown(value: object) -> str:
    """repr() on one short line, for words about an argument that may be anything: an array, or all bytes of a file."""
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 60:
        return f"{type(value).__name__} of {len(value)} bytes"
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:100]}… ({type(value).__name__})"


def of_code(code: int, words: str) -> Error:
    """The exception for a code of the C library."""
    return _BY_CODE.get(code, Error)(words or f"RKNN error {code}", code)
