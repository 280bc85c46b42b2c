"""What whole programs of all chips have in common: sizes as the NPU sees them, and tasks."""
from .. import regs
from ..pack import align, itemsize
from ..quantize import fixed_point

POINTER = 0xE  # both groups of registers by turns
TARGETS = {1: regs.CNA, 2: 0x0401, 3: regs.CORE, 4: regs.DPU, 5: regs.RDMA, 6: regs.PPU, 7: 0x8001, 8: 0x0401}
LOW, HIGH = 0x80000000, 0x7FFFFFFF  # of 32 bits
BANK = 0x8000  # bytes of a bank of the buffer in front of the multipliers
LUT_ACCESS, LUT_DATA = 0x4100, 0x4104
UNIT_SHIFT = 14  # of the factors of an Add
HALF = 0x48000002  # DATA_FORMAT of float16


class Size:
    """A 4-D tensor as the NPU sees it. `atom`: bytes of a block of channels of one pixel."""

    def __init__(self, t, atom=16):
        _, self.c, self.h, self.w = t.shape
        self.half = t.dtype == "float16"
        self.bytes = itemsize(t.dtype)
        self.lanes = atom // self.bytes
        self.pixels = self.h * self.w
        dense = self.pixels == 1 or t.kind == "input"  # models' inputs have no gaps
        self.plane = self.pixels if dense else align(self.pixels, 4)  # in atoms
        self.held = align(self.c, self.lanes)  # channels, with those that fill the last block

    @property
    def gap(self):
        """From a block's last pixel to the next block, in atoms."""
        return self.plane - self.pixels

    @property
    def last(self):
        """Of its last pixel, as most registers have sizes."""
        return self.w - 1, self.h - 1

    @property
    def corner(self):
        """Both in one register, the height above."""
        return (self.h - 1) << 16 | self.w - 1


def task(order, values, tensors, enable, interrupt=0x300):
    """`tensors`: {register: (tensor, offset)}. A register that `order` has twice gets its address once."""
    commands = [(TARGETS[r >> 12], r, values.get(r, 0)) for r in order]
    places = [(*tensors[r], i) for i, r in enumerate(order) if r in tensors]
    return regs.Task(enable, commands, interrupt, [(tensor, i, offset) for tensor, offset, i in places])


def written(one):
    """({register: value}, {register: tensor}) of a task as ops have made it."""
    tensors = {one.commands[r[1]][1]: r[0] for r in one.relocations}
    return {r: v for _, r, v in one.commands if r not in tensors}, tensors


def kernel(node):
    """(height, width, kernels, bytes of one, bytes of all) of a convolution's weights. A spare kernel, which chips have that
    read two at once, counts, too."""
    kh, kw = node.attrs["kernel_shape"]
    size, native = len(node.inputs[1].data), node.inputs[1].native
    blocks = set(zip(native[::6], native[4::6]))  # (how many, kernels of each)
    kernels = 1 if node.attrs["group"] > 1 else sum(n * each for n, each in blocks)
    return kh, kw, kernels, size // kernels, size


def far_pads(node):
    """Lines and columns that windows reach beyond the last ones, as new registers have them, above the near ones."""
    sizes = zip(node.inputs[0].shape[2:], node.outputs[0].shape[2:], node.attrs["kernel_shape"], node.attrs["strides"],
                node.attrs["dilations"], node.attrs["pads"])
    bottom, right = (max((out - 1) * step + (window - 1) * apart + 1 - size - near, 0) for size, out, window, step, apart, near in sizes)
    return right << 24 | bottom << 16


def banks(data_bytes, weight_bytes, count):
    """(for pixels, for weights) of the buffer's banks: what the pixels need, and the rest for weights."""
    pixels = min(max(-(-data_bytes // BANK), 1), count - 1)
    return pixels, min(max(-(-weight_bytes // BANK), 1), count - pixels)


def loading(node, order, values, output):
    """The task that loads a node's lookup tables: one atom from memory to memory, and the tables behind. The atom is
    of the node's output, which the node writes later. `order`: registers, `output`: the register of where it goes."""
    one = task(order, values, {output: (node.outputs[0], 0), 0x5018: (node.outputs[0], 0)}, 0x18)
    entries = [(TARGETS[4], r, v) for t in node.lut_tasks for _, r, v in t.commands if r in (LUT_ACCESS, LUT_DATA)]
    one.commands += entries
    return one


def _share(ratio):
    """(factor, shift): a factor of one is 2^UNIT_SHIFT."""
    scale, shift = fixed_point(ratio)
    return scale, shift - UNIT_SHIFT


def add_values(a, b, y, operation):
    """What an Add of two int8 tensors computes, in the registers of RK3588; `operation`: of the element-wise unit. The
    operand of the larger scale enters with a factor of one, the other one with less."""
    base = max(a.quant.scale, b.quant.scale)
    first, second = (_share(t.quant.scale / base) for t in (a, b))
    scale, shift = fixed_point(base / y.quant.scale / 2.0**UNIT_SHIFT)
    return {
        0x4010: first[1] << 4, 0x4044: -a.quant.zero_point, 0x4048: first[0] << 16 | first[1] << 8, 0x4070: operation,
        0x4074: -b.quant.zero_point, 0x4078: second[1] << 16 | second[0], 0x4080: y.quant.zero_point, 0x4084: scale,
        0x4088: shift,
    }


def product_values(a, b, y, operation):
    """What a Mul of two int8 tensors computes, in the registers of RK3588 and RK3566."""
    scale, shift = fixed_point(a.quant.scale * b.quant.scale / y.quant.scale)
    return {
        0x4044: -a.quant.zero_point, 0x4070: operation, 0x4074: -b.quant.zero_point, 0x4078: 1, 0x4080: y.quant.zero_point,
        0x4084: scale, 0x4088: shift,
    }


# Of a pool: what it writes, with bounds of some chips behind 0x6048, and what it reads.
POOL = [
    0x6004, 0x7004, 0x600C, 0x6010, 0x6014, 0x6018, 0x601C, 0x6020, 0x6024, 0x6034, 0x6038, 0x603C, 0x6040, 0x6044, 0x6048,
    0x6070, 0x607C, 0x6084, 0x60DC,
]
POOL_READ = [0x700C, 0x7010, 0x7014, 0x701C, 0x7024, 0x7028, 0x7030]
LEAST = 0x7FF80  # an edge's value, below all others


def pool_task(node, order, values, atom=16):
    """Windows' largest values or averages; `values`: what is the chip's own."""
    x, y = node.inputs[0], node.outputs[0]
    size, out = Size(x, atom), Size(y, atom)
    (kh, kw), (sy, sx) = node.attrs["kernel_shape"], node.attrs["strides"]
    top, left, bottom, right = node.attrs["pads"]
    channels, last = align(size.c, size.lanes) - 1, out.last
    made = {
        0x6004: POINTER, 0x7004: POINTER, 0x600C: size.last[0], 0x6010: size.last[1], 0x6014: channels,
        0x6018: last[0], 0x601C: last[1], 0x6020: channels, 0x6024: 0x11 if node.op == "MaxPool" else 0x10,
        0x6034: (sy - 1) << 20 | (sx - 1) << 16 | (kh - 1) << 8 | kw - 1,
        0x6040: bottom << 12 | right << 8 | top << 4 | left, 0x607C: out.plane * atom,
        0x6084: out.plane * atom | 2 * size.half, 0x700C: size.last[0], 0x7010: size.last[1],
        0x7014: channels, 0x7024: size.w * atom, 0x7028: size.plane * atom,
    }
    if node.op == "AveragePool":
        made |= {0x6038: 0x10000 // kw, 0x603C: 0x10000 // kh}
    return task(order, made | values, {0x6070: (y, 0), 0x701C: (x, 0)}, 0x60, 0xC00)


def pool_with_edges(node, others, reads, values, atom=16):
    """The same, of int8, of chips that have a value for each number of lines beyond an edge, and `others` behind these."""
    if node.inputs[0].dtype != "int8":
        return None
    at = POOL.index(0x6048) + 1
    order = [*POOL[:at], 0x604C, 0x6050, *others, *POOL[at:], *reads]
    average, zero = node.op == "AveragePool", node.inputs[0].quant.zero_point
    edges = {0x6040 + 4 * n: zero * n & 0x7FFFF if average else LEAST for n in range(1, 5)}
    return pool_task(node, order, edges | values, atom)
