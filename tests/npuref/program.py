"""The memory and the tasks of a .rknn file: loaded and relocated as a driver would."""
import struct

import numpy as np

from npuref import Unsupported
from npuref.integers import field
from npuref.registers import RK3588, TABLE

COMMANDS, TASKS = 9, 10  # kinds of tensors
ON_CHIP = {1, 2, 3, 8}  # kinds of tensors that lie in the arena
ALIGNMENT = 4096
LITE = 0x1004
SPARE = 1 << 22  # some programs write behind the last tensor

# What a task's enable word starts.
CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 4, 8, 16, 32, 64
FP32 = 5  # of precisions
RDMA_MODE = 0x5044  # on all chips


def aligned(n):
    return -(-n // ALIGNMENT) * ALIGNMENT


class Memory:
    """One flat memory: the file's constants, then the arena."""

    def __init__(self, file):
        self.bases = {}
        if file.container == LITE:
            self._lite(file)
            return
        size = ALIGNMENT  # address 0 is nobody's
        for t in file.tensors:
            if len(t.data) and t.kind not in (COMMANDS, TASKS):
                self.bases[t.name] = size
                size = aligned(size + len(t.data))
        inside = [t for t in file.tensors if t.name not in self.bases and t.kind not in (COMMANDS, TASKS)]
        for t in inside:
            self.bases[t.name] = size + t.offset
        self.bytes = np.zeros(aligned(size + max(t.offset + t.size for t in inside) + SPARE), np.uint8)
        for t in file.tensors:
            if len(t.data) and t.name in self.bases:
                self.write(self.bases[t.name], np.frombuffer(t.data, np.uint8))

    def _lite(self, file):
        """Container 0x1004 is one block: commands, constants, the arena; addresses in commands are inside it."""
        constants = len(file.commands)
        arena = constants + len(file.constants)
        self.outputs = aligned(arena + file.arena)
        self.bytes = np.zeros(self.outputs + SPARE, np.uint8)
        self.write(constants, np.frombuffer(file.constants, np.uint8))
        for t in file.tensors:
            self.bases[t.name] = (constants if t.kind in (4, 5, 8) else arena) + t.offset

    def write(self, address, values):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self.bytes[address : address + raw.size] = raw

    def read(self, address, count, kind):
        size = count * np.dtype(kind).itemsize
        if address < ALIGNMENT or address + size > self.bytes.size:
            raise Unsupported(f"a read of {size} bytes at {address:#x}, which is nobody's memory")
        return self.bytes[address : address + size].view(kind)

    def at(self, addresses, kind=np.int8):
        """Elements of one byte at an array of addresses."""
        if addresses.size and (addresses.min() < ALIGNMENT or addresses.max() >= self.bytes.size):
            raise Unsupported("a read outside of all memory")
        return self.bytes[addresses].view(kind)

    def put(self, addresses, values):
        if addresses.size and (addresses.min() < ALIGNMENT or addresses.max() >= self.bytes.size):
            raise Unsupported("a write outside of all memory")
        self.bytes[addresses] = values.astype(np.int8).view(np.uint8)


class Task:
    def __init__(self, node, enable, writes, core=0):
        self.node, self.enable, self.writes, self.core = node, enable, writes, core


def blob_writes(words):
    return [(w >> 16 & 0xFFFF, w >> 32) for w in words]


def decoded(words):
    """[(register, value)] of commands as container 6 has them."""
    return [(w & 0xFFFF, w >> 16 & 0xFFFFFFFF) for w in words.tolist()]


def relocated(file, memory):
    """The command stream, with the addresses of this memory (graph slot 7)."""
    commands = next(t.data for t in file.tensors if t.kind == COMMANDS)
    words = np.frombuffer(commands, "<u8").copy()
    for entry in file.graph.tables(7):
        base = memory.bases[entry.text(0)]
        at, pairs = entry.start(1), entry._unpack("I", entry.start(1) - 4)
        for i in range(pairs):
            offset, command = struct.unpack_from("<ii", entry.data, at + 8 * i)
            value = (base + offset) & 0xFFFFFFFF
            words[command] = np.uint64(int(words[command]) & ~(0xFFFFFFFF << 16) | value << 16)
    return words


def fill_padding(memory, r):
    """Toolkits up to 1.2 have 0 for weights of channels that are not there, and count the padding of such channels in no
    bias: so whoever ran their programs must have had -nz there, as later toolkits write it. r: registers of a task. A
    memory whose bytes are None has addresses alone."""
    at = {name: offsets[RK3588] for name, offsets in TABLE.items()}
    size, conv = r.get(at["WEIGHT_SIZE2"], 0), r.get(at["CONV_CON1"], 0)
    taps, kernels = field(size, 20, 16) * field(size, 28, 24), field(size, 13, 0)
    if not taps or field(conv, 11, 0) or field(r.get(at["BS_OW_CFG"], 0), 1, 1):
        return
    each = field(r[at["BS_OW_CFG"]], 0, 0)  # -zero point of each kernel in the table, else one in OW_OP
    channels, packed = r[at["WEIGHT_SIZE1"]] // taps, field(conv, 15, 12)
    real = packed - 7 if packed else (channels - 1) // 64 * 64 + field(r[at["DATA_SIZE1"]], 31, 16) + 1
    for k in range(kernels):
        first, block = k // 32 * 32, min(32, kernels - k // 32 * 32)
        nz = memory.read(r[at["BS_ADDR"]] + k // 8 * 64 + 32 + k % 8 * 2, 1, "<i2")[0] if each \
            else r.get(at["BS_OW_OP"], 0)
        start = r[at["WEIGHT_ADDR"]] + first * channels * taps
        for c in range(0, channels, 32):
            n = min(32, channels - c)
            weights = memory.bytes[start : start + block * n * taps].view(np.int8).reshape(taps, block, n)
            weights[:, k - first, max(real - c, 0) :] = np.int64(-nz).astype(np.int8)
            start += block * n * taps


def blob_tasks(file, memory, node, table):
    """Containers 1 and 2: a blob of commands for each task, and which register takes whose address; before
    it, where it has one, the program that loads its lookup tables."""
    if table.number(1):
        load = np.frombuffer(file.tensors[table.number(1)].data, "<u8")
        yield Task(node.index, DPU | DPU_RDMA, blob_writes(load.tolist()))
    words = np.frombuffer(file.tensors[table.number(0)].data, "<u8").tolist()
    addresses, at = {}, table.start(5)
    for i in range(table._unpack("I", at - 4)):
        register, tensor, offset, _, _ = struct.unpack_from("<IiQII", table.data, at + 24 * i)
        addresses[register] = memory.bases[file.tensors[tensor].name] + offset
    writes = [(r, addresses.get(r, v)) for r, v in blob_writes(words)]
    if file.container == 1 and table.number(3) & CNA and memory.bytes is not None:
        fill_padding(memory, dict(writes))
    yield Task(node.index, table.number(3), writes)


def tasks(file, memory):
    """The tasks of the one-core program, in order."""
    if file.container in (1, 2):
        tables = [(n, t) for n in file.nodes for t in n.table.tables(6) if t.number(8) < 2]
        return [task for n, t in tables for task in blob_tasks(file, memory, n, t)]
    if file.container == LITE:
        words = np.frombuffer(file.commands, "<u8")
        records = [struct.unpack_from("<8IQ", file.tasks, 40 * i) for i in range(len(file.tasks) // 40)]
        return [Task(r[1], r[2], decoded(words[r[8] // 8 : r[8] // 8 + r[6]])) for r in records]
    if file.container != 6:
        raise Unsupported(f"container {file.container}: its addresses are not in this table")
    words = relocated(file, memory)
    data = next(t.data for t in file.tensors if t.kind == TASKS)
    records = [struct.unpack_from("<8IQ", data, 40 * i) for i in range(len(data) // 40)]
    first = (file.graph.vector(10) or [0])[0]
    count = sum(n.columns[0] + (n.luts[0] if n.luts else 0) for n in file.nodes if n.columns)
    return [Task(r[1], r[2], decoded(words[r[8] // 8 : r[8] // 8 + r[6]])) for r in records[first : first + count]]


def core_tasks(file, memory, cores):
    """The tasks of the program for so many cores: all of core 0's, then core 1's. Columns of a node's counts are one
    core, two cores, on RK3588 three; the graph says where each program begins, one core's once for each core."""
    words = relocated(file, memory)
    data = next(t.data for t in file.tensors if t.kind == TASKS)
    starts = file.graph.vector(10)
    at, column, found = starts[{"rk3588": cores + 1, "rk3576": 2}[file.chip]], {2: 1, 3: 3}[cores], []
    for core in range(cores):
        for n in file.nodes:
            for _ in range(n.columns[column + core] if n.columns else 0):
                r = struct.unpack_from("<8IQ", data, 40 * at)
                found.append(Task(r[1], r[2], decoded(words[r[8] // 8 : r[8] // 8 + r[6]]), core))
                at += 1
    return found


BLOCKS = {0x1000: CNA, 0x2000: CNA, 0x3000: CORE, 0x4000: DPU, 0x5000: DPU_RDMA, 0x6000: PPU, 0x7000: PPU_RDMA,
          0x8000: 0}


class Groups:
    """Both register groups of each block. A task writes the group that the block's pointer selects;
    the pointer flips when the block has worked, unless the program has cleared it (0x30)."""

    def __init__(self):
        self.groups = {block: ({}, {}) for block in BLOCKS}
        self.pointer = dict.fromkeys(BLOCKS, 0)
        self.flips = dict.fromkeys(BLOCKS, True)

    def load(self, task):
        """Registers as the task's blocks see them."""
        for register, value in task.writes:
            block = register & 0xF000
            if block not in self.groups:
                continue
            if register & 0xFFF == 4 and block != 0x8000:
                self.flips[block] = value != 0x30
                if value == 0x30:
                    self.pointer[block] = 0
                continue
            self.groups[block][self.pointer[block]][register] = value
        seen = {}
        for block, enable in BLOCKS.items():
            if enable & task.enable:
                seen.update(self.groups[block][self.pointer[block]])
                if self.flips[block]:
                    self.pointer[block] ^= 1
        return seen


def outputs_apart(memory, tasks):
    """The tasks of an OutputOperator of container 0x1004, with what they write and read as fp32 in memory of its own: the
    arena has no room for it, and files would write over what they have yet to read."""
    groups, format_of, reader, first = Groups(), TABLE["DATA_FORMAT"][RK3588], RDMA_MODE, None
    for task in tasks:
        seen, moved = groups.load(task), set()
        if seen[format_of] >> 29 == FP32:
            moved |= {TABLE["DST_ADDR"][RK3588]}
        if field(seen[reader], 17, 15) == FP32:
            moved |= {TABLE["SRC_ADDR"][RK3588]}
        if moved and first is None:
            first = seen[TABLE["DST_ADDR"][RK3588]]
        yield Task(task.node, task.enable, [(r, v - first + memory.outputs if r in moved else v) for r, v in task.writes])
