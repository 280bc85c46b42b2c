"""A second opinion on model files: reads what npu/write/rknnwriter wrote, sharing no code with it.

Tables are read by slot number, weights are looked up element by element from the native shape.
"""

import struct

import numpy as np

from support.checks.expect import EXPECT

TYPES = {1: "<f4", 2: "u1", 3: "i1", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 13: "<u8"}
OLD_CHIPS = ("rk3588", "rk3566", "rk3568")


class Table:
    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - self._unpack("i", at)
        self.slots = (self._unpack("H", self.vtable) - 4) // 2

    def _unpack(self, kind, at):
        return struct.unpack_from("<" + kind, self.data, at)[0]

    def _field(self, slot):
        if slot >= self.slots:
            return 0
        offset = self._unpack("H", self.vtable + 4 + 2 * slot)
        return self.at + offset if offset else 0

    def _target(self, slot):
        at = self._field(slot)
        return at + self._unpack("I", at) if at else 0

    def number(self, slot, kind="i"):
        at = self._field(slot)
        return self._unpack(kind, at) if at else 0

    def bytes(self, slot):
        at = self._target(slot)
        return self.data[at + 4 : at + 4 + self._unpack("I", at)] if at else b""

    def start(self, slot):
        return self._target(slot) + 4

    def text(self, slot):
        return self.bytes(slot).decode()

    def vector(self, slot, kind="i"):
        at = self._target(slot)
        return list(struct.unpack_from(f"<{self._unpack('I', at)}{kind}", self.data, at + 4)) \
            if at else []

    def tables(self, slot):
        at = self._target(slot)
        if not at:
            return []
        places = [at + 4 + 4 * i for i in range(self._unpack("I", at))]
        return [Table(self.data, p + self._unpack("I", p)) for p in places]

    def table(self, slot):
        at = self._target(slot)
        return Table(self.data, at) if at else None


class Tensor:
    def __init__(self, table, buffers):
        self.table = table
        self.type, self.layout, self.kind = (table.number(s, "b") for s in range(3))
        self.native, self.shape, self.name = table.vector(3), table.vector(4), table.text(5)
        self.scales, self.zero_points = table.vector(10, "f"), table.vector(11)
        self.size, self.offset, self.stride = (table.number(s) for s in (12, 13, 20))
        self.buffer = table.number(18)
        self.data = buffers[self.buffer].bytes(0) if self.buffer else b""

    def array(self):
        return np.frombuffer(self.data, TYPES[self.type])


class Node:
    def __init__(self, table, index):
        self.table, self.index = table, index
        self.op, self.name, self.device = table.text(1), table.text(2), table.number(3, "b")
        self.inputs, self.outputs = table.vector(4), table.vector(5)
        self.union, self.attrs = table.number(7, "B"), table.table(8)
        self.columns, self.luts = table.vector(10), table.vector(11)

    @property
    def is_conv(self):
        return self.op.startswith("Conv") and self.op != "ConvTranspose"


def read(data):
    """A File of any container."""
    return LiteFile(data) if data[9] else File(data)


class File:
    def __init__(self, data):
        self.data = data
        magic, zero, self.container, size = struct.unpack_from("<4sIQQ", data)
        EXPECT.assertEqual(magic, b"RKNN")
        EXPECT.assertEqual(zero, 0)
        start = 0x18 if self.container == 1 else 0x40
        self.blobs = self.container in (1, 2)  # of commands, one for each task
        self.payload = data[start : start + size]
        EXPECT.assertEqual(self.payload[4:8], b"RKNN")
        tail_size = struct.unpack_from("<Q", data, start + size)[0]
        self.tail = data[start + 8 + size :]
        EXPECT.assertEqual(len(self.tail), tail_size)
        self.root = Table(self.payload, struct.unpack_from("<I", self.payload)[0])
        self.buffers = self.root.tables(4 if self.blobs else 20)
        self.chip = self.root.text(8)
        self.graph = self.root.tables(2)[0]
        self.tensors = [Tensor(t, self.buffers) for t in self.graph.tables(0)]
        self.nodes = [Node(t, i) for i, t in enumerate(self.graph.tables(1))]
        self.inputs = [self.tensors[i] for i in self.graph.vector(2)]
        self.outputs = [self.tensors[i] for i in self.graph.vector(3)]

    def node(self, op):
        return next(n for n in self.nodes if n.op == op)

    def named(self, name):
        return next(t for t in self.tensors if t.name == name)

    def registers(self, node):
        """Register values of a node's tasks in single-core mode, later tasks over earlier ones."""
        if self.blobs:
            words = [w for t in node.table.tables(6) for w in self._blob(t.number(0))]
            return {w >> 16 & 0xFFFF: w >> 32 for w in words}
        commands, tasks = (next(t.data for t in self.tensors if t.kind == k) for k in (9, 10))
        values = {}
        for task in self._tasks(tasks, node):
            words = struct.unpack_from(f"<{task[6]}Q", commands, task[8])
            values.update({w & 0xFFFF: w >> 16 & 0xFFFFFFFF for w in words})
        return values

    def _blob(self, tensor):
        data = self.tensors[tensor].data
        return struct.unpack(f"<{len(data) // 8}Q", data)

    def _tasks(self, data, node):
        count = node.columns[0] + (node.luts[0] if self.chip == "rk3588" else 0)
        records = [struct.unpack_from("<8IQ", data, 40 * i) for i in range(len(data) // 40)]
        return [r for r in records if r[1] == node.index][:count]

    # ---- convolutions

    def weights(self, node):
        """Logical weights, and nz where the buffer has it beside them (else None)."""
        t = self.tensors[node.inputs[1]]
        EXPECT.assertEqual(t.layout, 65)
        data = t.array()
        if len(data) == native_size(t):
            return _plain(t, data), None
        if t.shape[0] == 1:
            return _paired(t, data)
        return _rows(t, data), None

    def conversion(self, node):
        """bias, nz, mul (floats, 1 is 1), scale, shift of an int8 convolution."""
        r, n = self.registers(node), self._channels(node)
        data = self.tensors[node.inputs[2]].data
        group = 8 if self.chip in ("rk3588", "rk3576", "rv1126b") else 4
        if self.chip in OLD_CHIPS:
            scale, shift = r[0x4084] & 0xFFFF, r[0x4088] & 0x3F
            if r[0x4040] & 0x10:
                bias = np.frombuffer(data, "<i4")[:n]
                return bias, np.full(n, np.uint16(r[0x4054]).astype(np.int16)), np.ones(n), scale, shift
            EXPECT.assertTrue(r[0x4048] & 1)
            EXPECT.assertEqual(r[0x4048] >> 8 & 0x3F, 14)
            EXPECT.assertTrue(r[0x4050] & 1)
        else:
            scale, shift = r[0x40B0] & 0xFFFF, r[0x40B4] & 0x3F
            special = self._special_table(node, data, r, n)
            if special:
                return (*special, scale, shift)
        bias, nz, mul = _records(data, group, n, True)
        return bias, nz, mul / 2**14, scale, shift

    def _special_table(self, node, data, r, n):
        if self.chip == "rk3562" and r[0x4050] & 3 == 2:
            nz = r[0x4054] & 0xFFFF
            nz -= (nz & 0x8000) << 1
            EXPECT.assertEqual(r[0x4038] >> 8 & 0x1F, 0)
            return np.frombuffer(data, "<i4")[:n], np.full(n, nz), np.ones(n)
        if r[0x4050] >> 16 & 0xF == 2:
            name = self.tensors[node.outputs[0]].name + "_BScfgTensor"
            nz = int(np.frombuffer(self.named(name).data, "<i2")[0])
            return np.frombuffer(data, "<i4")[:n], np.full(n, nz), np.ones(n)
        if self.tensors[node.inputs[1]].shape[0] == 1 and n > 1:
            bias, _, mul = _records(data, 4 if self.chip == "rk3562" else 8, n, False)
            return bias, self.weights(node)[1], mul / 2**14
        return None

    def _channels(self, node):
        return self.tensors[node.outputs[0]].shape[1]


def native_size(tensor):
    """Elements of all blocks of a weight's native shape."""
    return sum(int(np.prod(b)) for b in _blocks(tensor.native))


class LiteTensor:
    def __init__(self, table, weights):
        self.table, self.stride = table, 0
        self.type, self.layout, self.kind = (table.number(s, "b") for s in range(3))
        self.native, self.shape, self.name = table.vector(3), table.vector(4), table.text(5)
        self.scales, self.zero_points = table.vector(6, "f"), table.vector(7)
        self.size, self.offset = table.number(8), table.number(9)
        self.data = weights[self.offset :][: self.size] if self.kind in (4, 5, 8) else b""

    array = Tensor.array


class LiteNode(Node):
    def __init__(self, table, index):
        super().__init__(table, index)
        self.union, self.attrs = table.number(6, "B"), table.table(7)
        self.columns, self.luts = table.vector(9), table.vector(10)


class LiteFile(File):
    """Container 0x1004."""

    def __init__(self, data):
        magic, zero, self.container, size = struct.unpack_from("<4sIQQ", data)
        EXPECT.assertEqual((magic, zero, self.container), (b"RKNN", 0, 0x1004))
        payload, self.tail = data[0x40 : 0x40 + size], data[0x48 + size :]
        sizes = struct.unpack_from("<7I", payload)
        ends = np.cumsum([64, sizes[1], sizes[3], sizes[6], sizes[5], sizes[0]])
        EXPECT.assertEqual(ends[-1], size)
        self.tasks, self.commands, _, weights, meta = (
            payload[a:b] for a, b in zip(ends, ends[1:]))
        self.constants, self.arena = payload[ends[2] : ends[4]], sizes[4]
        self.blobs = False
        self.root = Table(meta, struct.unpack_from("<I", meta)[0])
        self.chip = self.root.text(6)
        self.graph = self.root.tables(2)[0]
        self.tensors = [LiteTensor(t, weights) for t in self.graph.tables(0)]
        self.nodes = [LiteNode(t, i) for i, t in enumerate(self.graph.tables(1))]
        self.inputs = [self.tensors[i] for i in self.graph.vector(2)]
        self.outputs = [self.tensors[i] for i in self.graph.vector(3)]

    def registers(self, node):
        values = {}
        for task in self._tasks(self.tasks, node):
            words = struct.unpack_from(f"<{task[6]}Q", self.commands, task[8])
            values.update({w & 0xFFFF: w >> 16 & 0xFFFFFFFF for w in words})
        return values

    def weights(self, node):
        t = self.tensors[node.inputs[1]]
        if t.shape[0] == 1 and self.tensors[node.outputs[0]].shape[1] > 1:
            return _in_turn(t, t.array())
        return _plain(t, t.array()), None

    def conversion(self, node):
        r, n = self.registers(node), self._channels(node)
        weights, inside = self.weights(node)
        data = self.tensors[node.inputs[2]].data
        if r[0x4050] & 3 == 2:
            nz = r[0x4054] & 0xFFFF
            nz -= (nz & 0x8000) << 1
            EXPECT.assertEqual(r[0x4040] >> 9 & 0x1F, 0)
            bias = np.frombuffer(data, "<i4")[:n]
            return bias, np.full(n, nz), np.ones(n), r[0x4084] & 0xFFFF, r[0x4088] & 0x3F
        bias, nz, mul = _records(data, 4, n, inside is None)
        shift = (r[0x4040] >> 9 & 0x1F) + (r[0x4088] & 0x3F) - 14
        return bias, nz if inside is None else inside, mul / 2**14, r[0x4084] & 0xFFFF, shift


def _in_turn(t, data):
    """[w, nz] per tap and channel."""
    _, channels, kh, kw = t.shape
    weights, nz, base, done = np.zeros(t.shape, np.int8), np.zeros(channels, int), 0, 0
    for _, blocks, _, _, _, size in _blocks(t.native):
        for _ in range(blocks):
            for c in range(done, min(done + size, channels)):
                for tap in range(kh * kw):
                    at = base + (tap * size + c - done) * 2
                    weights[0, c, tap // kw, tap % kw] = data[at]
                    nz[c] = 128 if data[at + 1] == -128 else data[at + 1]
            base, done = base + kh * kw * size * 2, done + size
    return weights, nz


def _records(data, group, n, has_nz):
    size = group * (8 if has_nz else 6)
    parts = [[], [], []]
    for at in range(0, len(data), size):
        parts[0] += struct.unpack_from(f"<{group}i", data, at)
        if has_nz:
            parts[1] += struct.unpack_from(f"<{group}h", data, at + 4 * group)
        parts[2] += struct.unpack_from(f"<{group}h", data, at + size - 2 * group)
    return [np.array(p[:n]) for p in parts]


def _blocks(native):
    return [native[i : i + 6] for i in range(0, len(native), 6)]


def _axis(count, parts):
    """channel -> (part, block in the part, place in the block)."""
    where = [(k, b, j) for k, (blocks, size) in enumerate(parts)
             for b in range(blocks) for j in range(size)]
    EXPECT.assertGreaterEqual(len(where), count)
    return where


def _parts(native):
    """The output and input parts: one of each per distinct (blocks, size) pair, in file order."""
    outputs, inputs = [], []
    for o1, i1, _, _, o2, i2 in _blocks(native):
        if (o1, o2) not in outputs:
            outputs.append((o1, o2))
        if (i1, i2) not in inputs:
            inputs.append((i1, i2))
    return outputs, inputs


def _plain(t, data):
    o, i, kh, kw = t.shape
    outputs, inputs = _parts(t.native)
    if o == 1 and len(outputs) > 1:  # several input parts of a single output channel
        outputs = outputs[:1]
    i_total = sum(n * size for n, size in inputs)
    result = np.zeros(t.shape, data.dtype)
    o_places, i_places = _axis(o, outputs), _axis(i, inputs)
    for co in range(o):
        part, block, row = o_places[co]
        o2 = outputs[part][1]
        before = sum(n * size for n, size in outputs[:part]) + block * o2
        for ci in range(i):
            ipart, iblock, column = i_places[ci]
            i2 = inputs[ipart][1]
            i_before = sum(n * size for n, size in inputs[:ipart]) + iblock * i2
            base = kh * kw * (before * i_total + i_before * o2)
            for y in range(kh):
                for x in range(kw):
                    at = base + ((y * kw + x) * o2 + row) * i2 + column
                    result[co, ci, y, x] = data[at]
    return result


def _paired(t, data):
    """[w0, w1, nz0, nz1] per tap and channel pair."""
    _, channels, kh, kw = t.shape
    weights, nz = np.zeros(t.shape, np.int8), np.zeros(channels, int)
    base = done = 0
    for _, blocks, _, _, _, size in _blocks(t.native):
        for _ in range(blocks):
            for c in range(done, min(done + size, channels)):
                for tap in range(kh * kw):
                    at = base + tap * size * 2 + (c - done) // 2 * 4 + (c - done) % 2
                    weights[0, c, tap // kw, tap % kw] = data[at]
                    nz[c] = 128 if data[at + 2] == -128 else data[at + 2]
            base, done = base + kh * kw * size * 2, done + size
    return weights, nz


def _rows(t, data):
    """[O1][ky][O2][kx*4+c], rows padded to 16."""
    o, i, kh, kw = t.shape
    row = (kw * 4 + 15) // 16 * 16
    result, base, done = np.zeros(t.shape, np.int8), 0, 0
    for o1, _, _, _, o2, _ in _blocks(t.native):
        for _ in range(o1):
            for co in range(done, min(done + o2, o)):
                for y in range(kh):
                    line = data[base + (y * o2 + co - done) * row :]
                    for x in range(kw):
                        result[co, :, y, x] = line[x * 4 : x * 4 + i]
            base, done = base + o2 * kh * row, done + o2
    return result
