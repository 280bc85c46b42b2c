"""Memory that a program and the NPU share, for runs without a copy."""
from __future__ import annotations

import mmap
import os
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _errors
from ._capi import ffi, lib
from ._native import Array, Context, NotCopied, check, must, settle

if TYPE_CHECKING:
    import numpy.typing as npt


class _Block:
    """An rknn_tensor_mem; it lives as long as a Memory or an array refers to it."""

    def __init__(self, pointer: Any, mapping: mmap.mmap | None) -> None:
        self.pointer, self.mapping = pointer, mapping
        address = int(ffi.cast("uintptr_t", pointer.virt_addr)) + pointer.offset
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (int(pointer.size),),
                                    "data": (address, False)}
        weakref.finalize(self, _free, pointer, os.getpid()).atexit = False  # goes with the process


def _free(pointer: Any, pid: int) -> None:
    if os.getpid() == pid:
        lib.rknn_destroy_mem(0, pointer)
        settle()


def _check(context: Context, size: int) -> None:
    if context.closed:
        raise _errors.ClosedError("the session of the memory has been closed: open another one")
    if not hasattr(size, "__index__") or not 1 <= size < 1 << 32:
        raise _errors.ParameterError(f"a memory of {size!r} bytes: 1 to {(1 << 32) - 1}")


class Memory(NotCopied):
    """`size` bytes that the program and the server's device both have, where the way to the server allows it (a Unix
    socket, `sim:`); elsewhere a run copies what has changed.

    As an array (bytes, or any dtype and shape), through DLPack, or as a file descriptor (dma-buf or memfd). Arrays
    keep the memory alive, also after close().

    `context`  the context at whose server it is made, or that it is brought to

    >>> import numpy as np, rknnd
    >>> with rknnd.Session("digits.rknn", "sim:") as session:
    ...     memory = session.create_memory(4096)
    ...     memory.array((8, 8), np.float32)[...] = 1       # the memory itself
    ...     memory.size, int(memory.array()[3])             # bytes
    (4096, 63)

    ParameterError: a size that there is not, a descriptor that cannot be mapped. OutOfMemory, or Error: the server has no more.
    """

    def __init__(self, context: Context, size: int) -> None:
        _check(context, size)
        self._take(context, must(lib.rknn_create_mem(context.handle, size)), None)

    def _take(self, context: Context, pointer: Any, mapping: mmap.mmap | None) -> None:
        self._context, self._block = context, _Block(pointer, mapping)

    @classmethod
    def from_fd(cls, context: Context, fd: int, size: int, offset: int = 0) -> Memory:
        """Memory of somebody else's (a camera, a decoder): its dma-buf or memfd. The data are `size` bytes from `offset`
        on. `fd` stays the program's, and may be closed afterwards."""
        _check(context, size)
        try:
            mapping = mmap.mmap(fd, offset + size)
        except (OSError, ValueError) as error:
            raise _errors.ParameterError(f"file descriptor {fd} cannot be mapped ({error}): it takes a dma-buf or memfd "
                                         f"of at least {offset + size} bytes, open for reading and writing") from None
        address = ffi.cast("void *", ffi.from_buffer(mapping))
        pointer = must(lib.rknn_create_mem_from_fd(context.handle, fd, address, size, offset))
        memory = cls.__new__(cls)
        memory._take(context, pointer, mapping)
        return memory

    @property
    def pointer(self) -> Any:
        """The rknn_tensor_mem *."""
        if self._block is None:
            raise _errors.ClosedError("the memory has been closed: make another one")
        return self._block.pointer

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.pointer.size)

    @property
    def fd(self) -> int:
        """Its dma-buf or memfd, to hand to others; it stays this memory's: os.dup() it to keep it."""
        return int(self.pointer.fd)

    @property
    def offset(self) -> int:
        """Of the data from the beginning of what `fd` is, in bytes."""
        return int(self.pointer.offset)

    def array(self, shape: tuple[int, ...] | int = -1, dtype: npt.DTypeLike = np.uint8) -> Array:
        """The memory itself as an array: its beginning, if it is larger than that. Writing to it is writing to the
        memory."""
        self.pointer  # noqa: B018 (raises if it is closed)
        flat: Array = np.asarray(self._block)
        wanted = np.dtype(dtype)
        if shape == -1:
            return flat[:flat.size // wanted.itemsize * wanted.itemsize].view(wanted)
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        needed = int(np.prod(dims)) * wanted.itemsize
        if needed > flat.size:
            raise _errors.ParameterError(f"an array {dims} of {wanted} takes {needed} bytes, the memory has {flat.size}")
        return flat[:needed].view(wanted).reshape(dims)

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> Array:
        array = self.array()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        array = self.array()
        if not hasattr(array, "__dlpack__"):
            raise _errors.Error(f"NumPy {np.__version__} does not do DLPack: install NumPy 1.22 or later, or use array()")
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU's

    def to_device(self) -> None:
        """Makes what was written here visible to the device. Runs do this themselves, unless the context has
        RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE."""
        self._sync(lib.RKNN_MEMORY_SYNC_TO_DEVICE)

    def from_device(self) -> None:
        """Makes what the device wrote visible here; see to_device()."""
        self._sync(lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def _sync(self, mode: int) -> None:
        check(lib.rknn_mem_sync(self._context.handle, self.pointer, mode))

    def close(self) -> None:
        """Gives the memory up; it goes when no array and no context use it any more."""
        self._block = None  # type: ignore[assignment]

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
