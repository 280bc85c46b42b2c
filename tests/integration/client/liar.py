"""What becomes of frames on their way from somebody who lies: other bytes, numbers, sizes, types, parts left out, said twice, or said without
being asked."""
from support.wire import GOODBYE, HEAD, MAGIC, PING, REPLY, message, varint

EDGES = (0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


class Liar:
    """What becomes of the frames of one server that go to a program."""

    def __init__(self, rng, always=None):
        """`always`: messages that answer types of requests, instead of lies by chance."""
        self.rng, self.always = rng, always
        self.lies = rng.choice([0.02, 0.1, 0.5])
        self.kept = []

    def bytes(self, data):
        """Other bytes instead of these."""
        rng, data = self.rng, bytearray(data)
        way = rng.randrange(7)
        if way == 0 and data:
            for _ in range(rng.choice([1, 1, 3, 20])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif way == 1 and data:
            at = rng.randrange(len(data))
            data[at:at + 1] = varint(rng.choice(EDGES))
        elif way == 2:
            data += varint(rng.randrange(1, 40) << 3) + varint(rng.choice(EDGES))
        elif way == 3:
            data += varint(rng.randrange(1, 40) << 3 | 2) + varint(4) + rng.randbytes(4)
        elif way == 4:
            del data[rng.randrange(len(data) + 1):]
        elif way == 5:
            data = data * 2
        else:
            data = bytearray(rng.randbytes(len(data)))
        return bytes(data)

    def frames(self, head, message, payload):
        """What is said instead of this frame; None: nothing any more."""
        rng = self.rng
        magic, kind, flags, zero, number, _, _ = HEAD.unpack(head)
        true = head + message + payload
        if self.always is not None:
            said = self.always.get(kind)
            return true if said is None else HEAD.pack(magic, kind, flags, zero, number, len(said), 0) + said
        self.kept = (self.kept + [true])[-4:]
        if rng.random() > self.lies:
            return true
        way, size = rng.randrange(11), None
        if way < 3:
            message = self.bytes(message)
        elif way == 3:
            payload = self.bytes(payload)
        elif way == 4:
            flags ^= 1 << rng.randrange(8)
        elif way == 5:
            kind = rng.choice([0, 1, 6, 15, 20, 25, 32, 48, 50, 52, 127, 128, 65535])
        elif way == 6:
            number = rng.choice([0, number - 1, number + 1, 0xffffffff]) & 0xffffffff
        elif way == 7:
            size = rng.choice(EDGES)
        elif way == 8:
            return true + rng.choice(self.kept)
        elif way == 9:
            return HEAD.pack(MAGIC, PING, rng.choice([0, REPLY]), 0, 7, 0, 0) * rng.choice([1, 100, 5000]) + true
        else:
            return rng.choice([None, HEAD.pack(MAGIC, GOODBYE, 0, 0, 0, 0, 0) + true, true[:rng.randrange(len(true))]])
        return HEAD.pack(magic, kind, flags, zero, number, len(message), len(payload) if size is None else size) + message + payload
