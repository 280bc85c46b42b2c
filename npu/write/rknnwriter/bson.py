"""Node attributes as BSON: {name: {dtype, value}}, the subset that model files use."""

import struct


def _cstring(text):
    return text.encode() + b"\0"


def _element(name, value):
    key = _cstring(name)
    if isinstance(value, dict):
        return b"\x03" + key + document(value)
    if isinstance(value, (list, tuple)):
        return b"\x04" + key + document({str(i): v for i, v in enumerate(value)})
    if isinstance(value, str):
        text = _cstring(value)
        return b"\x02" + key + struct.pack("<i", len(text)) + text
    if isinstance(value, float):
        return b"\x01" + key + struct.pack("<d", value)
    if isinstance(value, bool):
        return b"\x08" + key + bytes([value])
    if abs(value) >= 1 << 31:
        return b"\x12" + key + struct.pack("<q", value)
    return b"\x10" + key + struct.pack("<i", value)


def document(fields):
    body = b"".join(_element(name, value) for name, value in fields.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _dtype(value):
    if isinstance(value, (list, tuple)):
        return _dtype(value[0]) + "s"
    return {str: "s", float: "f", bool: "b"}.get(type(value), "i")


def attributes(attrs):
    """The blob of node slot 9 for {name: int, bool, float, str or list}, in alphabetic order."""
    return document({k: {"dtype": _dtype(v), "value": v} for k, v in sorted(attrs.items())})
