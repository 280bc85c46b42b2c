"""The C library: `ffi` with the declarations of its headers, `lib` with its functions, `path` where it lies.

It is looked for in this order; the first that exists counts:
    RKNND_LIBRARY in the environment      a path
    the build tree                        when this package lies in one
    the package librknnrt-rknnd           /usr/lib/TRIPLET/rknnd/client, which the linker does not search
    /usr/lib, /usr/local/lib              rknnd/client there
    librknnrt.so                          as the linker finds it (LD_LIBRARY_PATH)

The vendor's library has the same name and most of the functions. It is never taken for ours: that would fail later,
in a way that is hard to understand.
"""
from __future__ import annotations

import os
import struct
import sys
from typing import Any
from collections.abc import Iterator

from ._errors import LibraryError

if struct.calcsize("P") == 4 and os.uname().machine.startswith(("arm", "aarch64")):
    from _rknnd_cffi_arm import ffi as ffi
else:
    from _rknnd_cffi import ffi as ffi

NAME = "librknnrt.so"
_NEWEST = "rknnd_print_failures"  # of the functions that this package needs
_FOLDER = os.path.join("rknnd", "client", NAME)


def _places() -> Iterator[str]:
    """Where the library may lie, the best first."""
    # BUILD/lib/python/rknnd is this package there, BUILD/lib/rknnd/client the library.
    package = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(os.path.dirname(os.path.dirname(package)), _FOLDER)
    triplet = getattr(sys.implementation, "_multiarch", "")
    for root in ("/usr/lib", "/usr/local/lib"):
        if triplet:
            yield os.path.join(root, triplet, _FOLDER)
        yield os.path.join(root, _FOLDER)


def _find() -> str:
    chosen = os.environ.get("RKNND_LIBRARY")
    if chosen:
        if not os.path.exists(chosen):
            raise LibraryError(f"RKNND_LIBRARY says {chosen}, which does not exist: correct or unset it")
        return os.path.abspath(chosen)
    return next(filter(os.path.exists, _places()), NAME)


def _open() -> tuple[Any, str]:
    found = _find()
    try:
        opened = ffi.dlopen(found)
    except OSError as error:
        raise LibraryError(
            f"the C library of rknnd cannot be loaded ({error}): install the package librknnrt-rknnd, or say in "
            f"RKNND_LIBRARY where {NAME} lies (looked for at {', '.join(_places())})") from None
    if not _has(opened, "rknnd_version"):
        raise LibraryError(
            f"{found} is not rknnd's library but probably the vendor's, which this package cannot use: install "
            "librknnrt-rknnd, or say in RKNND_LIBRARY where rknnd's lies")
    if not _has(opened, _NEWEST):
        raise LibraryError(f"{found} is of rknnd {text(opened.rknnd_version())}, which is older than this package: install "
                           "a librknnrt-rknnd of its version")
    return opened, found


def _has(opened: Any, function: str) -> bool:
    try:
        getattr(opened, function)
    except (AttributeError, ffi.error):
        return False
    return True


def text(pointer: Any) -> str:
    """A C string (char * or char[]) of the library's as str."""
    return bytes(ffi.string(pointer)).decode("utf-8", "replace")


lib, path = _open()
lib.rknnd_print_failures(0)  # what fails is raised, with the same words


def version() -> str:
    """Version of the C library."""
    return text(lib.rknnd_version())
