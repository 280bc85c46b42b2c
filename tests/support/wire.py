"""What goes over the wire: frames, types of messages, and as much of protobuf as tests need."""
import collections
import os
import socket
import struct

from support.daemon import stalls
from support.service import PATIENCE, SANITIZED

HEAD = struct.Struct("<IHBBIIQ")
MAGIC = 0x444e4b52
REPLY, ERROR, MORE = 1, 2, 4

HELLO, PING, CANCEL, GOODBYE, STATUS, STATS, KILL, LOG, LOG_LEVEL, TRACE, CLOCKS, LIMITS, METRICS = range(1, 14)
SENSORS = 15
OFFER, CHUNK, DESCRIBE, PUSH, LIST, FIND, MANIFEST, REMOVE, DEFAULT, PULL = range(16, 26)
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


def sequence(data):
    """The fields of each of the messages that stand one behind another, with their lengths."""
    at = 0
    while at < len(data):
        size, at = take_varint(data, at)
        yield fields_of(data[at:at + size])
        at += size


def one(fields, number, default=0):
    return fields[number][0] if fields[number] else default


# Microseconds. What makes the server wait does so for ever; a crowded machine (a lock whose holder has no CPU, a
# child that does not come to its exec()) for some tenths of a second, in which the turn is logged.
TURN = 10_000_000
# What a turn may take of the processor, however crowded it is: 50 ms, and 10 ms by which it is measured too long.
TURN_CPU = 60_000 * (10 if SANITIZED else 1)


def turn_cpu():
    """TURN_CPU, and what a stall of this machine's processors, watched by support/daemon/stalls.py, may have added to it."""
    return TURN_CPU + stalls.longest_us()


def check_turns(status):
    """Nothing has kept the server's loop: `status` are the fields of a ServerStatus."""
    assert one(status, 22) < TURN, f"a turn of the loop took {one(status, 22)} us"
    assert one(status, 24) < turn_cpu(), f"a turn of the loop took {one(status, 24)} us of the processor"


class Client:
    """Blocking, and without patience: what does not come in time fails the test."""

    def __init__(self, daemon, port=None):
        """Over the daemon's Unix socket, or (`port`) over TCP."""
        self.socket = socket.socket(socket.AF_INET if port else socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port) if port else daemon.uri[5:])
        self.greet()

    @classmethod
    def over(cls, connected):
        """Over a socket of one's own."""
        self = cls.__new__(cls)
        self.socket = connected
        self.socket.settimeout(PATIENCE)
        self.greet()
        return self

    def greet(self):
        self.id = 0
        self.payload = b""  # of the last frame that was received
        self.call(HELLO, message(f1=1, f2=1, f3=1, f4=b"strange"))

    def send(self, kind, body=b"", fds=(), named=None, payload=b""):
        """`fds` travel with the first byte; the header names as many, or `named`."""
        self.id += 1
        frame = HEAD.pack(MAGIC, kind, 0, len(fds) if named is None else named, self.id, len(body), len(payload))
        if fds:
            socket.send_fds(self.socket, [frame + body], list(fds))
        else:
            self.socket.sendall(frame + body + payload)
        return self.id

    def take(self, size, fds=None):
        """`fds`: a list, to which descriptors are added that come with that; without it the kernel closes them."""
        data = b""
        while len(data) < size:
            if fds is None:
                part = self.socket.recv(size - len(data))
            else:
                part, more, _, _ = socket.recv_fds(self.socket, size - len(data), 1)
                fds += more
            assert part, "the server has closed the connection"
            data += part
        return data

    def receive(self, fds=None):
        """The next answer: its id, whether it is an Error, its message. Pings are answered. `fds`: as of take()."""
        while True:
            _, kind, flags, _, number, size, payload = HEAD.unpack(self.take(HEAD.size, fds))
            body = self.take(size)
            self.payload = self.take(payload)
            if flags & REPLY:
                return number, bool(flags & ERROR), fields_of(body)
            if kind == PING:
                self.socket.sendall(HEAD.pack(MAGIC, PING, REPLY, 0, number, size, 0) + body)

    def call(self, kind, body=b"", fds=(), named=None, payload=b""):
        wanted = self.send(kind, body, fds, named, payload)
        while True:
            number, failed, fields = self.receive()
            if number == wanted:
                return failed, fields

    def status(self):
        return self.call(STATUS)[1]

    def close(self):
        self.socket.close()


class AsUser(Client):
    """The kernel's word for who it is is as of connect(), by the effective user."""

    def __init__(self, daemon, user):
        os.seteuid(user)
        try:
            super().__init__(daemon)
        finally:
            os.seteuid(0)
