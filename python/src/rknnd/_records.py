"""Structs of the C library as dataclasses: fields of the same names are taken over."""
from __future__ import annotations

import dataclasses
from typing import Any, TypeVar
from collections.abc import Iterator

from ._capi import ffi, lib, text

T = TypeVar("T")


def new(struct: str) -> Any:
    """A pointer to an empty struct of rknnd.h, which begins with its size."""
    pointer = ffi.new(f"{struct} *")
    pointer.struct_size = ffi.sizeof(struct)
    return pointer


def _value(raw: Any) -> Any:
    if isinstance(raw, ffi.CData):
        return "" if raw == ffi.NULL else text(raw)
    return raw


def record(kind: type[T], struct: str, pointer: Any, **others: Any) -> T:
    """A dataclass of what `pointer` points to. `others`: fields that are not the struct's. Fields that the library,
    being older, does not have are 0 or "", as their defaults say."""
    size, values = pointer.struct_size, dict(others)
    there = {name: place.offset for name, place in ffi.typeof(struct).fields}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in values and there.get(field.name, size) < size:
            values[field.name] = _value(getattr(pointer, field.name))
    return kind(**values)


def items(struct: str, pointer: Any) -> Iterator[Any]:
    """Pointers to the elements of an rknnd_list."""
    for i in range(pointer.n):
        yield ffi.cast(f"const {struct} *", ffi.cast("const char *", pointer.items) + i * pointer.stride)


def take_list(kind: type[T], struct: str, pointer: Any) -> list[T]:
    """Dataclasses of an rknnd_list *, which is freed."""
    try:
        return [record(kind, struct, item) for item in items(struct, pointer)]
    finally:
        lib.rknnd_free(pointer)
