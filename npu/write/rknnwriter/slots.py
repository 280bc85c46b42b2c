"""Flatbuffer tables by slot number: a tree of the values below, written by `finish`."""

import inspect
from dataclasses import dataclass

import flatbuffers

_ITEM_SIZE = {"b": 1, "B": 1, "i": 4, "I": 4, "f": 4, "Q": 8}


@dataclass
class Scalar:
    kind: str  # "b" i8, "B" u8, "i" i32, "I" u32, "Q" u64
    value: int


@dataclass
class Vector:
    kind: str  # "i", "I", "f", "Q"
    values: list
    group: int = 1  # of a struct: how many values it has


@dataclass
class Blob:
    data: bytes
    align: int = 4


@dataclass
class Table:
    slots: dict  # slot number -> value; None and zero scalars are left out


_PREPEND = {"b": "Int8", "B": "Uint8", "i": "Int32", "I": "Uint32", "f": "Float32", "Q": "Uint64"}


# Flatbuffers before 2.0 (Debian 11) wants the number of items again.
_AGAIN = "vectorNumElems" in inspect.signature(flatbuffers.Builder.EndVector).parameters


def _end_vector(b, n):
    return b.EndVector(n) if _AGAIN else b.EndVector()


def _vector(b, value):
    size, n = _ITEM_SIZE[value.kind], len(value.values) // value.group
    b.StartVector(size * value.group, n, size)
    prepend = getattr(b, "Prepend" + _PREPEND[value.kind])
    for item in reversed(value.values):
        prepend(item)
    return _end_vector(b, n)


def _blob(b, value):
    b.StartVector(1, len(value.data), value.align)
    b.head = b.head - len(value.data)
    b.Bytes[b.head : b.head + len(value.data)] = value.data
    return _end_vector(b, len(value.data))


def _list(b, values):
    offsets = [_child(b, value) for value in values]
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return _end_vector(b, len(offsets))


def _table(b, table):
    used = {s: v for s, v in table.slots.items() if v is not None}
    children = {s: _child(b, v) for s, v in used.items() if not isinstance(v, Scalar)}
    b.StartObject(max(used, default=-1) + 1)
    for slot, value in sorted(used.items()):
        if slot in children:
            b.PrependUOffsetTRelativeSlot(slot, children[slot], 0)
        else:
            getattr(b, f"Prepend{_PREPEND[value.kind]}Slot")(slot, value.value, 0)
    return b.EndObject()


def _child(b, value):
    if isinstance(value, Table):
        return _table(b, value)
    if isinstance(value, Vector):
        return _vector(b, value)
    if isinstance(value, Blob):
        return _blob(b, value)
    if isinstance(value, list):
        return _list(b, value)
    return b.CreateString(value)


def finish(root, identifier):
    """The bytes of a flatbuffer whose root is `root`."""
    b = flatbuffers.Builder(1024)
    b.Finish(_table(b, root), identifier)
    return bytes(b.Output())
