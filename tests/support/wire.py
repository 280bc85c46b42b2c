"""What goes over the wire: frames, types of messages, and as much of protobuf as tests need."""
import collections
import struct

HEAD = struct.Struct("<IHBBIIQ")
MAGIC = 0x444e4b52
REPLY, ERROR, MORE = 1, 2, 4

HELLO, PING, CANCEL, GOODBYE, STATUS, STATS, KILL, LOG, LOG_LEVEL, TRACE, CLOCKS = range(1, 12)
OFFER, CHUNK, DESCRIBE = range(16, 19)
OPEN, DUP, CLOSE, BIND, INTERNAL = range(32, 37)
INFER, PROFILE, DUMP, DUMP_NEXT, CUSTOM_LIST, CUSTOM_DONE = range(48, 54)
CREATE, IMPORT, FREE = range(64, 67)


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def message(**fields):
    """f1=5 is field 1; bytes are bytes, text or a message, lists are repeated."""
    out = bytearray()
    for name, values in fields.items():
        number = int(name[1:])
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, bytes):
                out += varint(number << 3 | 2) + varint(len(v)) + v
            else:
                out += varint(number << 3) + varint(int(v))
    return bytes(out)


def zigzag(n):
    return n << 1 ^ n >> 63


def take_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return n, at


def fields_of(data):
    fields, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = take_varint(data, at)
        if key & 7 == 0:
            value, at = take_varint(data, at)
        else:
            size, at = (4, at) if key & 7 == 5 else take_varint(data, at)
            value, at = data[at:at + size], at + size
        fields[key >> 3].append(value)
    return fields


def one(fields, number, default=0):
    return fields[number][0] if fields[number] else default


# Microseconds. What makes the server wait does so for ever; a crowded machine (a lock whose holder has no CPU, a
# child that does not come to its exec()) for some tenths of a second, in which the turn is logged.
TURN = 10_000_000


def check_turns(status):
    """Nothing has kept the server's loop: `status` are the fields of a ServerStatus."""
    assert one(status, 22) < TURN, f"a turn of the loop took {one(status, 22)} us"
